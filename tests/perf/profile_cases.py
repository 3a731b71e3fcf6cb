#!/usr/bin/env python3
"""Launches the arms of a case of compare.py a few times and nothing else, for a profiler's counters.

    ncu --set full --clock-control none -k 'regex:iron' -c 1 python3 tests/perf/profile_cases.py 'gemv int4' [FIELD=NUMBER ...]

The fields are those of the kernel's specialisation. Prints the errors of all arms against float64.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import cases  # noqa: E402
import worlds  # noqa: E402

import iron  # noqa: E402


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    fields = dict(word.split("=") for word in sys.argv[2:])
    plain = iron.kernel
    cases.iron.kernel = lambda name, dtype: plain(name, dtype, **fields)
    world = worlds.open_world("cuda")
    for make in cases.CASES:
        if re.search(sys.argv[1], make.label):
            case = make(world, False)
            print(make.label, {name: case.check(world, launch) for name, launch in case.arms.items()})
            world.forget()


if __name__ == "__main__":
    main()
