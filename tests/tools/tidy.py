#!/usr/bin/env python3
"""Runs clang-tidy over Iron's own sources and remembers, by content, which of them were clean.

Without --full: the files whose result is remembered, and of the others those that changed last (at most --limit).
A clean result is kept under a key made of the tool's version, .clang-tidy, the compile command and the bytes of the file
and of every header it includes (as ninja recorded them), so an unchanged file costs nothing, in any checkout.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("src", "tools", "kernels", "examples")
TIDY = "clang-tidy-19"


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def ninja_dependencies(build):
    """Object file -> the files that went into it, as the last build recorded them."""
    dependencies, current = {}, None
    for line in run("ninja", "-C", str(build), "-t", "deps").stdout.splitlines():
        if line and not line.startswith((" ", "ninja:")):
            current = dependencies.setdefault(line.split(":")[0], [])
        elif line.strip() and current is not None:
            current.append(line.strip())
    return dependencies


class Keys:
    """Content keys of translation units; each file is read once."""

    def __init__(self, root, build):
        self.root, self.build, self.digests = root, build, {}
        self.dependencies = ninja_dependencies(build)
        self.common = run(TIDY, "--version").stdout + (root / ".clang-tidy").read_text(encoding="utf-8")

    def digest(self, path):
        if path not in self.digests:
            self.digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.digests[path]

    def key(self, entry):
        """None when the file was not built since it changed, so that its headers are not known."""
        included = self.dependencies.get(entry["output"])
        if not included:
            return None
        text = [self.common, entry["command"].replace(str(self.root), "<root>")]
        for name in sorted({(self.build / name).resolve() for name in included}):
            if not name.is_file():
                return None
            text.append(f"{str(name).replace(str(self.root), '<root>')} {self.digest(name)}")
        return hashlib.sha256("\n".join(text).encode()).hexdigest()


def translation_units(root, build):
    """Entries of compile_commands.json for Iron's own folders, one a file."""
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["directory"], entry["file"]).resolve()
        relative = path.relative_to(root) if path.is_relative_to(root) else None
        if relative and relative.parts[0] in FOLDERS:
            arguments = shlex.split(entry["command"])
            if "output" not in entry and "-o" in arguments:
                entry["output"] = arguments[arguments.index("-o") + 1]
            units.setdefault(str(relative), entry)
    return units


def by_last_change(root):
    """Tracked files, the most recently changed first; what is not committed yet comes before all."""
    dirty = [line[3:] for line in run("git", "status", "--porcelain", cwd=root).stdout.splitlines()]
    logged = run("git", "log", "--format=", "--name-only", "-n", "200", cwd=root).stdout.splitlines()
    return list(dict.fromkeys(dirty + [name for name in logged if name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/dev", help="build folder with compile_commands.json")
    parser.add_argument("--full", action="store_true", help="check every file")
    parser.add_argument("--limit", type=int, default=8, help="most files to check anew without --full")
    parser.add_argument("files", nargs="*", help="check only these")
    options = parser.parse_args()

    root, build = Path.cwd().resolve(), Path(options.build).resolve()
    if not (build / "compile_commands.json").is_file():
        print(f"tidy: {build}/compile_commands.json is missing: run cmake --preset dev and build first", file=sys.stderr)
        return 1
    units = translation_units(root, build)
    if options.files:
        unknown = [name for name in options.files if name not in units]
        if unknown:
            print(f"tidy: not in the build: {' '.join(unknown)}", file=sys.stderr)
            return 1
        units = {name: units[name] for name in options.files}
    if not units:
        print("tidy: no source file of Iron in the build", file=sys.stderr)
        return 1

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "iron", "tidy")
    cache.mkdir(parents=True, exist_ok=True)
    keys = Keys(root, build)
    wanted = {name: keys.key(entry) for name, entry in units.items()}
    known = {name for name, key in wanted.items() if key and (cache / key).exists()}
    fresh = [name for name in wanted if name not in known]
    order = {name: position for position, name in enumerate(by_last_change(root))}
    fresh.sort(key=lambda name: (order.get(name, len(order)), name))
    left = 0
    if not options.full and not options.files:
        left = max(0, len(fresh) - options.limit)
        fresh = fresh[: options.limit]

    def check(name):
        return name, run(TIDY, "--quiet", "-p", str(build), str(root / name))

    bad = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for number, (name, result) in enumerate(pool.map(check, fresh), 1):
            print(f"[{number}/{len(fresh)}] {name}: {'clean' if result.returncode == 0 else 'findings'}", flush=True)
            if result.returncode:
                bad += 1
                noise = re.compile(r"\d+ warnings? (generated|treated as errors)")
                print("\n".join(x for x in (result.stdout + result.stderr).splitlines() if not noise.search(x)), flush=True)
            elif wanted[name]:
                (cache / wanted[name]).touch()
    print(f"tidy: {len(fresh)} checked, {bad} with findings, {len(known)} clean before, {left} left to --full")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
