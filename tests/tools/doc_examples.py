#!/usr/bin/env python3
"""Runs the examples of the documents: fenced blocks of README.md and docs/**/*.md whose tag ends in `test`.

  ```sh test     run by bash in an empty folder, with the programs of the build first in PATH; must exit 0. When the next
                 block is ```text, its lines must appear in the output, in order; a line "..." stands for any lines, and
                 "..." within a line for any text
  ```cpp test    a whole program: compiled against the installed library, run, must exit 0 (a ```text block as above)
  ```cpp test compile      compiled and linked only
  ```c test      a whole program in C11 against the installed libiron.so, run as above
  ```python test run with the Python that has numpy; the package is the tree's, the library the build's
  ```sh test help  commands that no test can run: each exists, and its --help knows every option that the block uses
  ```LANGUAGE elsewhere FILE   run by that file of the tree, which must hold the block's first line

Outside the records (docs/benchmarks, docs/evidence) a code block without such a tag is a failure.
A cpp block without main() is given one that does nothing, so that a kernel alone can be shown.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`]*)$")
SECONDS = 300
RECORDS = ("benchmarks", "evidence")  # what was measured once, with the commands of that day


@dataclass
class Block:
    file: str
    line: int  # of the opening fence, from 1
    words: list  # the info string: language first
    text: str

    @property
    def name(self):
        return f"{self.file}:{self.line}"

    @property
    def tested(self):
        return len(self.words) > 1 and self.words[1] in ("test", "elsewhere")

    @property
    def code(self):
        """Whether a reader would take it for something to run: all but output (text) and records (json)."""
        return self.words[:1] not in (["text"], ["json"])


def blocks_of(file, text):
    """The fenced blocks of one document, in order."""
    found, start = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if start is None:
            if match:
                start = (number, match["fence"], match["info"].split(), len(match["indent"]), [])
        elif match and not match["info"].strip() and len(match["fence"]) >= len(start[1]):
            found.append(Block(file, start[0], start[2], "\n".join(start[4]) + "\n"))
            start = None
        else:
            start[4].append(line[start[3]:] if not line[: start[3]].strip() else line)
    if start is not None:
        raise ValueError(f"{file}:{start[0]}: this block is never closed")
    return found


def cases_of(blocks):
    """(tested block, expected text or None) of one document."""
    for position, block in enumerate(blocks):
        if block.tested:
            following = blocks[position + 1] if position + 1 < len(blocks) else None
            yield block, following.text if following and following.words == ["text"] else None


def untested(blocks):
    """The code blocks that nothing compiles or runs."""
    return [block.name for block in blocks if block.code and not block.tested]


def mismatch(expected, output):
    """The first expected line that `output` does not have in its place, or None."""
    lines, position, gap = output.splitlines(), 0, False
    for wanted in (line.rstrip() for line in expected.rstrip("\n").splitlines()):
        if wanted.strip() == "...":
            gap = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("...")))
        window = range(position, len(lines)) if gap else range(position, min(position + 1, len(lines)))
        hit = next((index for index in window if pattern.fullmatch(lines[index].rstrip())), None)
        if hit is None:
            return wanted
        position, gap = hit + 1, False
    if not gap and position < len(lines):
        return f"(nothing more, but the output goes on with {lines[position]!r})"
    return None


def sh_command(block, folder):
    script = folder / "example.sh"
    script.write_text("set -euo pipefail\n" + block.text, encoding="utf-8")
    return ["bash", str(script)]


def command_lines(text):
    """The words of each command, without comments."""
    return [words for words in (shlex.split(line, comments=True) for line in text.splitlines()) if words]


CONSUMERS = {
    "cpp": """cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES C CXX)
find_package(iron REQUIRED COMPONENTS cpp)
add_executable(example example.cpp)
target_link_libraries(example PRIVATE iron::iron)
""",
    "c": """cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES C)
set(CMAKE_C_STANDARD 11)
find_package(iron REQUIRED COMPONENTS c)
add_executable(example example.c)
target_link_libraries(example PRIVATE iron::c m)
""",
}


class Examples:
    def __init__(self, build, keep, root=Path.cwd()):
        self.build, self.keep, self.root, self.prefix = build, keep, root, None

    def run(self, command, folder, environment=None):
        return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=SECONDS, check=False, env=environment)

    def installed(self):
        """The prefix that the library is installed into, once for all examples."""
        if self.prefix is None:
            prefix = self.keep / "prefix"
            done = self.run(["cmake", "--install", str(self.build), "--prefix", str(prefix)], self.keep)
            if done.returncode:
                raise RuntimeError(f"installing the library failed:\n{done.stdout}")
            self.prefix = prefix
        return self.prefix

    def compile(self, block, folder):
        """Builds a c or cpp block; the program's path, or the compiler's words."""
        language = block.words[0]
        text = block.text if re.search(r"\bmain\s*\(", block.text) else block.text + "\nint main() {}\n"
        (folder / f"example.{language}").write_text(text, encoding="utf-8")
        (folder / "CMakeLists.txt").write_text(CONSUMERS[language], encoding="utf-8")
        cache = (self.build / "CMakeCache.txt").read_text(encoding="utf-8")
        same = [f"-D{key}={value}" for key, value in re.findall(r"^(CMAKE_C(?:XX)?_COMPILER|CMAKE_C(?:XX)?_FLAGS):\w+=(.*)$",
                                                              cache, re.MULTILINE)]
        for command in (["cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.installed()}", *same],
                        ["cmake", "--build", "build"]):
            done = self.run(command, folder)
            if done.returncode:
                return None, done.stdout
        return folder / "build" / "example", ""

    def environment(self):
        path = os.pathsep.join([str(self.build / "tools" / "iron"), str(self.build / "examples" / "generate"), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "NO_COLOR": "1", "PYTHONPATH": str(self.root / "python"),
                "IRON_LIBRARY": str(self.build / "src/capi/libiron.so")}

    def known_by_help(self, block):
        """What the --help of the block's commands does not know, or None. A word behind the program may be a subcommand."""
        for words in command_lines(block.text):
            options = [word.split("=")[0] for word in words[1:] if word.startswith("-")]
            subcommand = words[1:2] if words[1:] and not words[1].startswith("-") else []
            done = self.run([words[0], *subcommand, "--help"], self.root, self.environment())
            if done.returncode:
                return f"'{' '.join([words[0], *subcommand])} --help' ends with {done.returncode}:\n{done.stdout}"
            for option in options:
                if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", done.stdout):
                    return f"the help of '{words[0]}' does not know {option}"
        return None

    def found_elsewhere(self, block):
        if len(block.words) != 3:
            return "say where: LANGUAGE elsewhere FILE"
        file = self.root / block.words[2]
        first = block.text.splitlines()[0].split("#")[0].strip()
        if not file.is_file() or first not in file.read_text(encoding="utf-8"):
            return f"{block.words[2]} does not hold the line: {first}"
        return None

    def check(self, block, expected):
        """What is wrong with one example, or None."""
        if block.words[1] == "elsewhere":
            return self.found_elsewhere(block)
        if block.words == ["sh", "test", "help"]:
            try:
                return self.known_by_help(block)
            except OSError as error:
                return str(error)
        with tempfile.TemporaryDirectory(dir=self.keep) as name:
            folder = Path(name)
            if block.words[0] == "sh":
                command = sh_command(block, folder)
            elif block.words[0] == "python":
                (folder / "example.py").write_text(block.text, encoding="utf-8")
                command = [str(self.root / ".cache/venv/bin/python"), str(folder / "example.py")]
            elif block.words[0] in CONSUMERS:
                program, problem = self.compile(block, folder)
                if program is None:
                    return f"does not build:\n{problem}"
                if "compile" in block.words[2:]:
                    return None
                command = [str(program)]
            else:
                return f"'{block.words[0]} test' is not known: use sh, python, c or cpp"
            work = folder / "work"
            work.mkdir()
            try:
                done = self.run(command, work, self.environment())
            except subprocess.TimeoutExpired:
                return f"still ran after {SECONDS} seconds"
        if done.returncode:
            return f"exit code {done.returncode}:\n{done.stdout}"
        if expected is not None and (wanted := mismatch(expected, done.stdout)) is not None:
            return f"expected this line: {wanted}\nin the output:\n{done.stdout}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the project's folder")
    parser.add_argument("--build", type=Path, required=True, help="the build folder")
    parser.add_argument("--list", action="store_true", help="only name the examples")
    options = parser.parse_args()
    root = options.root.resolve()
    documents = [path for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] if path.is_file()]
    cases, failures = [], []
    for path in documents:
        blocks = blocks_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
        cases += cases_of(blocks)
        if path.parent.name not in RECORDS:
            failures += untested(blocks)
    if options.list:
        print("\n".join(f"{block.name} {' '.join(block.words)}" for block, _ in cases))
        return 0
    for name in failures:
        print(f"{name}: nothing compiles or runs this block: tag it (see {Path(__file__).name})")
    passed = 0
    with tempfile.TemporaryDirectory(prefix="iron-docs-") as keep:
        examples = Examples(options.build.resolve(), Path(keep), root)
        for block, expected in cases:
            try:
                problem = examples.check(block, expected)
            except (RuntimeError, OSError) as error:
                problem = str(error)
            print(f"{block.name}: {'ok' if problem is None else problem}", flush=True)
            passed += problem is None
            failures += [] if problem is None else [block.name]
    print(f"documents: {len(documents)}, examples: {passed} passed, {len(failures)} failed")
    if path := os.environ.get("IRON_RESULT_FILE"):
        # Documents without an example are one skipped case, not an empty success.
        counts = {"passed": passed, "failed": len(failures), "skipped": 0 if cases else 1, "failures": failures}
        Path(path).write_text(json.dumps(counts), encoding="utf-8")
    return 1 if failures else 0 if cases else 77


if __name__ == "__main__":
    sys.exit(main())
