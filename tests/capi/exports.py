#!/usr/bin/env python3
"""libiron.so shows every function that iron/c.h declares and nothing else.

Usage: exports.py LIBIRON.SO C.H
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path


def main():
    library, header = sys.argv[1:]
    declared = set(re.findall(r"^IRON_API [^;(]*?\b(iron_\w+)\(", Path(header).read_text(encoding="utf-8"), re.MULTILINE))
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    shown = {line.split()[-1] for line in listing.splitlines()}
    problems = [f"{name} is declared and not exported" for name in sorted(declared - shown)]
    problems += [f"{name} is exported and not declared" for name in sorted(shown - declared)]
    if not declared:
        problems.append(f"{header} declares no function: the pattern above no longer fits it")
    print("\n".join(problems) or f"{len(declared)} functions")
    if path := os.environ.get("IRON_RESULT_FILE"):
        Path(path).write_text(json.dumps({"passed": len(declared & shown), "failed": len(problems), "skipped": 0}), encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
