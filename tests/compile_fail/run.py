#!/usr/bin/env python3
"""Compiles what the C++ compiler must refuse, and what it must accept once it is mended.

Each file of cases/ says in a line `// expect: WORDS` (alternatives split by `|`) what an error must say; with FIXED
defined it must compile. An error that the compiler reports must point into the case's own file.

Usage: run.py --compiler CXX --include DIR... [NAME...]     counts go to $IRON_RESULT_FILE
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases"


def compile_case(compiler, includes, path, *flags):
    command = [compiler, "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in includes), *flags, "-x", "c++", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def judge(compiler, includes, path):
    """None if the case behaves, else what is wrong."""
    expected = re.search(r"^// expect: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if not expected:
        return "there is no line '// expect: WORDS'"
    words = expected[1].split("|")
    broken = compile_case(compiler, includes, path)
    errors = broken.stdout + broken.stderr
    if broken.returncode == 0:
        return "it compiles, and must not"
    if not any(word in errors for word in words):
        return f"no error says {' or '.join(map(repr, words))}:\n{errors}"
    if path.name not in errors:
        return f"no message points into {path.name}:\n{errors}"
    fixed = compile_case(compiler, includes, path, "-DFIXED")
    if fixed.returncode:
        return f"the mended version does not compile:\n{fixed.stdout}{fixed.stderr}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", nargs="+", required=True)
    parser.add_argument("names", nargs="*", help="only cases whose name starts with one of these")
    options = parser.parse_args()
    cases = sorted(p for p in CASES.glob("*.cpp") if not options.names or p.stem.startswith(tuple(options.names)))
    if not cases:
        print(f"compile_fail: no case in {CASES}", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        problems = list(pool.map(lambda path: judge(options.compiler, options.include, path), cases))
    for path, problem in zip(cases, problems):
        print(f"{'ok    ' if problem is None else 'FAILED'} {path.stem}{'' if problem is None else ': ' + problem}")
    failed = sum(p is not None for p in problems)
    if os.environ.get("IRON_RESULT_FILE"):
        counts = {"passed": len(cases) - failed, "failed": failed, "skipped": 0}
        Path(os.environ["IRON_RESULT_FILE"]).write_text(json.dumps(counts) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
