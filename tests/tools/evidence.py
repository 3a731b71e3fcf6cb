#!/usr/bin/env python3
"""Writes the record of a full test run: the commit it ran on, the machine, the time, and the count of each step."""

import argparse
import datetime
import platform
import subprocess
import sys
from pathlib import Path

import count


def command(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def processor():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib():
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal"):
            return round(int(line.split()[1]) / 2**20)
    return 0


def system():
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def render(steps_file, seconds, output):
    # The record itself may differ from the commit; anything else means that another tree was tested.
    changed = [line[3:] for line in command("git", "status", "--porcelain").splitlines() if line[3:] != output]
    commit = command("git", "rev-parse", "HEAD") + (f" with uncommitted changes in {len(changed)} files" if changed else "")
    total = count.count_steps(steps_file)
    lines = [
        "# The last run of `./test --full`",
        "",
        "Written by the run itself. Cases of one test program count once for each build that ran them.",
        "",
        f"- Commit: {commit}",
        f"- Date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {processor()}, {len(Path('/proc/cpuinfo').read_text(encoding='utf-8').split('processor' + chr(9))) - 1} "
        f"logical processors, {memory_gib()} GiB, {system()}",
        f"- Time: {seconds // 60} min {seconds % 60} s",
        f"- Result: {total}",
        "",
        "| step | outcome | seconds | cases |",
        "|---|---|---:|---|",
    ]
    for line in Path(steps_file).read_text(encoding="utf-8").splitlines():
        kind, name, status, duration, directory = line.split("\t")
        lines.append(f"| {name} | {status} | {duration} | {count.count_results(directory) if kind == 'cases' else ''} |")
    if total.failures:
        lines += ["", "Failed:", ""] + [f"- {name}" + (f": {message}" if message else "") for name, message in total.failures]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    text = render(options.steps, options.seconds, options.output)
    Path(options.output).parent.mkdir(parents=True, exist_ok=True)
    Path(options.output).write_text(text, encoding="utf-8")
    print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
