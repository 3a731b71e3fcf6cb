#!/usr/bin/env python3
"""Checks the tracked files themselves: size, line count, line ends, leftovers of a merge, paths of one machine."""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = {".h", ".cpp", ".c", ".py", ".cmake", ".sh", ".cfg"}
SOURCE_NAMES = {"CMakeLists.txt", "setup", "test", "demo"}
MOST_LINES = 700  # a file has one idea; about 600 lines is where it should be split
MOST_BYTES = 512 * 1024
MOST_RECORDED_BYTES = 8 * 1024 * 1024  # reference results below tests/*/data/, which a script beside them records
MERGE_MARKER = re.compile(r"^(<{7}|>{7}|\|{7}) ", re.MULTILINE)
CRLF, NUL = b"\r\n", b"\0"
# A path below a user's or a checkout's folder works on one machine only. Split, so that this file passes its own check.
ROOTS = ("ho" + "me", "Us" + "ers", "ro" + "ot", "wo" + "rk")
MACHINE_PATH = re.compile(r"(?<![\w./<>$}~-])/(" + "|".join(ROOTS) + r")/[A-Za-z0-9_.-]+")


def problems(path, data):
    """What is wrong with one file: sentences, empty when it is right."""
    parts = Path(path).parts
    most = MOST_RECORDED_BYTES if parts[0] == "tests" and parts[2:3] == ("data",) else MOST_BYTES
    if len(data) > most:
        return [f"{len(data)} bytes; at most {most} (large data is fetched or generated, not committed)"]
    if NUL in data[:8192]:
        return []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"not UTF-8: {error}"]
    found = []
    if CRLF in data:
        found.append("Windows line ends")
    if data and not data.endswith(b"\n"):
        found.append("no newline at its end")
    if MERGE_MARKER.search(text):
        found.append("a merge marker")
    if match := MACHINE_PATH.search(text):
        found.append(f"a path of one machine: {match.group(0)}")
    is_source = Path(path).suffix in SOURCE or Path(path).name in SOURCE_NAMES
    if is_source and text.count("\n") > MOST_LINES:
        found.append(f"{text.count(chr(10))} lines; at most {MOST_LINES} (split it by idea)")
    return found


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    files = [name.decode("utf-8") for name in listed.split(NUL) if name]
    bad = 0
    for name in files:
        path = Path(name)
        if path.is_symlink() or not path.is_file():
            continue
        for problem in problems(name, path.read_bytes()):
            print(f"{name}: {problem}")
            bad += 1
    print(f"files: {len(files)} tracked, {bad} problems")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main())
