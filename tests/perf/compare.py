#!/usr/bin/env python3
"""Iron beside its peers, in one process: ratios with their spread.

  compare.py [--device cpu|cuda] [--only REGEX] [--rounds N] [--seconds S] [--small] [--record FILE] [--list]

On a GPU the peers are torch (cuBLASLt, cuDNN), the best of cuBLASLt's own heuristics, and Triton; on the CPU numpy. How it
measures:

* every arm is checked against float64 on poisoned outputs before it is timed; data are random normal, the same for all;
* arms run interleaved, A B A B, and the order turns round from one round to the next;
* memory-bound cases rotate through copies that together exceed three times the last-level cache;
* on a GPU one sample replays a graph of at least 20 launches, so that the host's speed does not count;
* a case that memory bounds has one arm more, a plain copy or read of as many bytes ("copy", "read"); and on a GPU the
  record holds what a sum of 4 GiB reaches;
* a ratio is peer's time over Iron's, above 1 where Iron is faster: median of the rounds, quartiles, and minimum over
  minimum. Where the quartiles straddle 1 or fewer than 5 rounds ran, nothing is claimed ("~").

The exit code is 1 when an arm's result is wrong. A peer that is not installed, and a kernel that the library lacks, are
named with the reason and skipped.
"""

import argparse
import datetime
import json
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import cases  # noqa: E402
import tier_cases  # noqa: E402, F401: adds its cases
import worlds  # noqa: E402

import iron  # noqa: E402


def rotated(names, turn):
    """A B C, then C B A: nobody always runs first, and neighbours change sides."""
    return names if turn % 2 == 0 else names[::-1]


def sample(world, case, arms, rounds, seconds):
    """{arm: [seconds a launch, one a round]}."""
    timers = {name: world.timer(arms[name], case.sets) for name in arms}
    for timer in timers.values():
        timer(1)
    # How many samples fill the time of one arm in one round.
    repeats = {name: max(1, int(seconds / max(timer(1) * timer.launches, 1e-7))) for name, timer in timers.items()}
    times = {name: [] for name in arms}
    for turn in range(rounds):
        for name in rotated(list(arms), turn):
            times[name].append(timers[name](min(repeats[name], 1000)))
    return times


def compare(mine, peer):
    """The ratio of one peer to Iron over the rounds."""
    ratios = sorted(p / m for m, p in zip(mine, peer, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {"median": middle, "quartiles": [low, high], "min_over_min": min(peer) / min(mine), "rounds": len(ratios),
            "settled": len(ratios) >= 5 and (low > 1 or high < 1)}


def run_case(world, case, options):
    arms, wrong = {}, []
    for name, launch in case.arms.items():
        try:
            error = case.check(world, launch)
        except Exception as problem:  # noqa: BLE001: whatever an arm raises is its own result
            wrong.append(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}")
            continue
        if error is None or error > case.tolerance:
            wrong.append(f"{name}: error {error}, allowed {case.tolerance}")
        else:
            arms[name] = launch
    if "iron" not in arms:
        return {"wrong": wrong}
    arms |= case.ceilings
    times = sample(world, case, arms, options.rounds, options.seconds)
    result = {"wrong": wrong, "sets": case.sets, "bytes": case.bytes, "flops": case.flops, "clock": world.clock(),
              "us": {name: {"median": statistics.median(t) * 1e6, "min": min(t) * 1e6, "rounds": [round(x * 1e6, 4) for x in t]} for name, t in times.items()},
              "ratios": {name: compare(times["iron"], t) for name, t in times.items() if name != "iron"}}
    return result


def rate(result, name):
    seconds = result["us"][name]["median"] * 1e-6
    return f"{result['flops'] / seconds * 1e-12:7.2f} TF/s" if result["flops"] else f"{result['bytes'] / seconds * 1e-9:7.0f} GB/s"


def show(label, result):
    for line in result["wrong"]:
        print(f"{label:<34} WRONG  {line}", flush=True)
    if "us" not in result:
        return
    print(f"{label:<34} {'iron':<10} {result['us']['iron']['median']:10.2f} us {rate(result, 'iron')}", flush=True)
    for name, ratio in result["ratios"].items():
        low, high = ratio["quartiles"]
        print(f"{'':<34} {name:<10} {result['us'][name]['median']:10.2f} us {rate(result, name)}   {ratio['median']:6.3f}x "
              f"[{low:.3f} .. {high:.3f}]{'' if ratio['settled'] else ' ~'}  min/min {ratio['min_over_min']:.3f}", flush=True)


def git_state():
    def git(*arguments):
        done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file for how it measures")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="where; cuda if torch sees a GPU, else cpu")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose label matches")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of all arms; 11 if absent")
    parser.add_argument("--seconds", type=float, default=0.03, help="time of one arm in one round; 0.03 if absent")
    parser.add_argument("--small", action="store_true", help="small shapes, for a test of this script")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--list", action="store_true", help="name the cases and run nothing")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds are above 0")
    try:
        only = re.compile(options.only)
    except re.error as error:
        parser.error(f"--only: {error}")
    world = worlds.open_world(options.device)
    chosen = [make for make in cases.CASES if only.search(make.label)]
    if not chosen:
        parser.error(f"--only {options.only!r} matches none of: {', '.join(make.label for make in cases.CASES)}")
    if options.list:
        print("\n".join(make.label for make in chosen))
        return 0
    record = {"what": "Iron beside its peers", "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": " ".join(["compare.py", *(Path(word).name if word.startswith("/") else word for word in sys.argv[1:])]), "device": world.describe(), "host": platform.machine(),
              "iron": {"version": iron.version(), **git_state()}, "peers": world.versions(), "rounds": options.rounds, "cases": {}, "skipped": {}}
    record["bandwidth_gb_s"] = world.bandwidth()
    world.forget()
    print(f"{record['device']}; {', '.join(f'{k} {v}' for k, v in record['peers'].items())}; ratio = peer / Iron, above 1: Iron is faster")
    wrong = ran = 0
    for make in chosen:
        try:
            case = make(world, options.small)
        except (cases.Skip, iron.NotFound, iron.WrongType, iron.Unsupported) as reason:
            record["skipped"][make.label] = str(reason).splitlines()[0]
            print(f"{make.label:<34} skipped: {record['skipped'][make.label]}", flush=True)
            continue
        result = run_case(world, case, options)
        for name, reason in case.absent.items():
            record["skipped"][f"{make.label}, {name}"] = reason
        record["cases"][make.label] = {"shape": case.shape, **result}
        wrong += len(result["wrong"])
        ran += 1
        show(f"{make.label} {case.shape}", result)
        world.forget()
    absent = sorted({f"{k.split(', ')[1]}: {v}" for k, v in record["skipped"].items() if ", " in k})
    print("\n".join([*(f"no arm {line}" for line in absent), f"{ran} cases, {wrong} wrong results, {len(chosen) - ran} skipped"]))
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
