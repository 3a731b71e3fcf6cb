#!/usr/bin/env python3
"""What a kernel's first launch costs from Python on an NVIDIA GPU, and what every further one does: Iron and Triton.

    python3 tests/perf/first_launch.py [--rounds 3] [--record FILE]      # needs torch and Triton

First launch: a process of its own with an empty cache ("cold"), then one with what that left ("cached"); the time from
the call to the end of its work, after torch, the GPU's context and the arm's own module are there. One configuration of
each Triton kernel: a search over several would compile several. Every result is compared with torch's.
Further launches: the call alone, of a kernel that takes less time than its call, the least of five runs of 2,000 calls,
arms in alternating order.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS, ARMS = ("rms_norm", "gemm", "attention"), ("iron", "triton")


def prepared(torch, kernel, arm):
    """(launch, result, expected) of an arm whose modules are imported and whose operands are on the GPU."""
    if arm == "iron":
        import iron
    else:
        import triton_kernels
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    if kernel == "rms_norm":
        x, w = make(1024, 8192), make(8192)
        y = torch.full_like(x, float("nan"))
        want = torch.nn.functional.rms_norm(x.float(), (x.shape[1],), w.float(), 1e-5)
        if arm == "iron":
            return lambda: iron.kernel("rms_norm_registers", "bf16")(x=x, weight=w, y=y, eps=1e-5), y, want
        return lambda: triton_kernels.rms_norm(x, y, w), y, want
    if kernel == "gemm":
        a, b = make(1024, 1024), make(1024, 1024) / 32
        c = torch.full_like(a, float("nan"))
        if arm == "iron":
            return lambda: iron.kernel("gemm_tma", "bf16")(a=a, b=b, c=c, m=1024, n=1024, k=1024), c, a.float() @ b.float().T
        return lambda: triton_kernels.matmul_once(a, b, c), c, a.float() @ b.float()
    heads, seq, hd = 8, 1024, 128
    q, k, v = (make(heads, seq, hd) for _ in range(3))
    o = torch.full_like(q, float("nan"))
    want = torch.softmax(q.float() @ k.float().transpose(1, 2) / hd**0.5, -1) @ v.float()
    scale_log2 = 1.4426950408889634 / hd**0.5
    if arm == "iron":
        tensors = {name: x[None] for name, x in zip("qkvo", (q, k, v, o))}
        return lambda: iron.kernel("attention_tma", "bf16")(**tensors, seq=seq, heads=heads, group=1, batch=1,
                                                            scale_log2=scale_log2), o, want
    return lambda: triton_kernels.attention(q, k, v, o, scale_log2), o, want


def first(kernel, arm):
    """In a process of its own: milliseconds of the first launch."""
    import torch

    launch, got, want = prepared(torch, kernel, arm)
    torch.cuda.synchronize()
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) * 1e3
    off = ((got.float() - want).norm() / want.norm()).item()
    if not off < 0.01:
        sys.exit(f"{arm} {kernel}: the relative error is {off}")
    print(json.dumps(took))


def launches(rounds=5, calls=2000):
    """Microseconds of a call of rms_norm of 4 rows, per arm."""
    import torch

    import iron
    import triton_kernels

    x, w = torch.randn(4, 1024, device="cuda"), torch.randn(1024, device="cuda")
    y = torch.empty_like(x)
    kernel = iron.kernel("rms_norm", "f32")
    arms = {"iron": lambda: kernel(x=x, weight=w, y=y, eps=1e-5), "triton": lambda: triton_kernels.rms_norm(x, y, w)}
    best = {}
    for turn in range(rounds):
        for name in list(arms)[:: 1 if turn % 2 == 0 else -1]:
            arms[name]()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                arms[name]()
            took = (time.perf_counter() - start) * 1e6 / calls
            torch.cuda.synchronize()
            best[name] = min(best.get(name, took), took)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--one", nargs=2, metavar=("KERNEL", "ARM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return first(*options.one)
    times = {}
    for turn in range(options.rounds):
        for kernel in KERNELS:
            for arm in ARMS[:: 1 if turn % 2 == 0 else -1]:
                with tempfile.TemporaryDirectory() as cache:
                    environment = dict(os.environ, IRON_CACHE=f"{cache}/iron", TRITON_CACHE_DIR=f"{cache}/triton")
                    for stage in ("cold", "cached"):
                        run = subprocess.run([sys.executable, __file__, "--one", kernel, arm], env=environment, cwd=HERE,
                                             capture_output=True, text=True, check=False)
                        if run.returncode:
                            sys.exit(f"{arm} {kernel}, {stage}: {run.stderr.strip().splitlines()[-1]}")
                        times.setdefault((kernel, stage, arm), []).append(json.loads(run.stdout.splitlines()[-1]))
    print(f"{'first launch, ms':<24} {'Iron':>9} {'Triton':>9} {'Iron/Triton':>12}")
    for kernel in KERNELS:
        for stage in ("cold", "cached"):
            iron, triton = (statistics.median(times[kernel, stage, arm]) for arm in ARMS)
            print(f"{kernel + ', ' + stage:<24} {iron:>9.1f} {triton:>9.1f} {iron / triton:>12.3f}")
    calls = launches()
    print(f"{'a further call, us':<24} {calls['iron']:>9.2f} {calls['triton']:>9.2f} {calls['iron'] / calls['triton']:>12.3f}")
    if options.record:
        record = {" ".join(key): value for key, value in times.items()} | {f"call {arm}, us": t for arm, t in calls.items()}
        Path(options.record).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
