#!/usr/bin/env python3
"""The portable build: small, needs nothing but glibc 2.36, holds no LLVM, and runs from any folder.

Usage: portable.py BUILD
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 25_000_000  # bytes, both files together
GLIBC = (2, 36)
SYSTEM = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}  # parts of glibc


def output(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def check_size(files):
    sizes = {f.name: f.stat().st_size for f in files}
    assert sum(sizes.values()) < LARGEST, f"{sizes} are {sum(sizes.values())} bytes together, not below {LARGEST}"
    return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())


def check_needs(file):
    dynamic = output("readelf", "-dW", file)
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", dynamic))
    assert needed, f"{file.name} needs no library: readelf's form is not the known one"
    assert needed <= SYSTEM, f"{file.name} needs {sorted(needed - SYSTEM)}, which other machines may lack"
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), f"{file.name} names a folder of this machine"
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", output("readelf", "-VW", file))}
    assert versions and max(versions) <= GLIBC, f"{file.name} needs glibc {max(versions, default='?')}, not at most {GLIBC}"
    assert "GLIBCXX" not in output("readelf", "-VW", file), f"{file.name} needs a C++ library"
    return f"{file.name} needs {', '.join(sorted(needed))}, glibc {'.'.join(map(str, max(versions)))}"


def check_no_llvm(file):
    # A name of a type or a function of LLVM is in every program that holds it.
    data = file.read_bytes()
    for sign in (b"N4llvm", b"_ZN4llvm", b"llvm::"):
        assert sign not in data, f"{file.name} holds {sign.decode()}: LLVM is inside"


def check_runs(tool, library):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moved = folder / "bin"
        moved.mkdir()
        program = shutil.copy(tool, moved)
        shutil.copy(library, moved)
        bare = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        assert re.fullmatch(r"iron \d+\.\d+\.\d+\n", output(program, "--version", cwd="/", env=bare))
        devices = output(program, "device", "--no-peaks", cwd="/", env=bare)
        assert "interpreter" in devices and "llvm" not in devices, devices
        assert "passed on interpreter" in output(program, "test", "iron_softmax_f32", "-q", cwd="/", env=bare)
        # The C interface and the package over it, whole, with this library.
        environment = {k: v for k, v in os.environ.items() if k != "IRON_RESULT_FILE"}
        output(sys.executable, ROOT / "tests/tools/unittests.py", "--venv", ROOT / "tests/python", f"IRON_LIBRARY={moved / library.name}",
               env=environment, cwd="/")


def main():
    build = Path(sys.argv[1]).resolve()
    tool, library = build / "tools/iron/iron", build / "src/capi/libiron.so"
    try:
        print(check_size([tool, library]))
        for file in (tool, library):
            print(check_needs(file))
            check_no_llvm(file)
        check_runs(tool, library)
    except AssertionError as problem:
        print(problem)
        return 1
    print("both run from another folder")
    return 0


if __name__ == "__main__":
    sys.exit(main())
