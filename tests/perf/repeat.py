#!/usr/bin/env python3
"""Repeated launches of the Hopper tier's kernels must give the same bits, idle and beside other work.

    repeat.py [LAUNCHES]            # 100,000 of each kernel if absent; a GPU with torch

Each launch finds a poisoned output and is compared bit for bit with the first one; a graph holds 50 of them. Loaded: matrix
products run on another stream meanwhile. The exit code is 1 where a launch differs.
"""

import sys
import time
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

import iron  # noqa: E402

IN_GRAPH = 50


def normal(*shape):
    return torch.randn(shape, device="cuda").bfloat16()


def subjects():
    """(name, launch, output)."""
    m, n, k = 200, 520, 2048 + 72
    a, b = normal(m, k), normal(n, k)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for cluster in (2, 4, 8):
        kernel = iron.kernel(f"gemm_splitk_tma_cluster{cluster}", "bf16")
        yield kernel.name, lambda kernel=kernel: kernel(a=a, b=b, c=c, m=m, n=n, k=k), c
    narrow = iron.kernel("gemm_tma", "bf16", spec="{bn=64,stages=8}")
    yield narrow.name + ", 64 columns", lambda: narrow(a=a, b=b, c=c, m=m, n=n, k=k), c
    paired = iron.kernel("gemm_splitk_tma_cluster2", "bf16", spec="{bm=128,bn=64,stages=7}")
    yield paired.name + ", 128 x 64", lambda: paired(a=a, b=b, c=c, m=m, n=n, k=k), c
    for rows in (16, 32, 64):
        few, of_few = normal(rows, k), torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
        for cluster in (1, 2):
            kernel = iron.kernel(f"gemm_tma_rows{rows}", "bf16", spec=f"{{cluster={cluster}}}")
            yield f"{kernel.name}, cluster of {cluster}", lambda kernel=kernel, few=few, of_few=of_few, rows=rows: kernel(
                a=few, b=b, c=of_few, m=rows, n=n, k=k), of_few
    splits = 9
    partials = torch.empty(splits, m, n, device="cuda")
    part, total = iron.kernel("gemm_splitk_tma", "bf16"), iron.kernel("splitk_accum", "bf16")

    def slices():
        part(a=a, b=b, partials=partials, m=m, n=n, k=k, splits=splits)
        total(partials=partials, c=c, splits=splits)

    yield part.name, slices, c
    m, n, k = 1000, 1040, 1040
    a8, b8 = (torch.randn(x, k, device="cuda").to(torch.float8_e4m3fn).view(torch.uint8) for x in (m, n))
    scales, weights = torch.rand(-(-k // 128), m, device="cuda"), torch.rand(-(-n // 128), -(-k // 128), device="cuda")
    wide = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for name in ("gemm_tma_e4m3_blocks", "gemm_tma_e4m3_blocks_cluster2"):
        kernel = iron.kernel(name, "bf16")
        yield kernel.name, lambda kernel=kernel: kernel(a=a8, b=b8, a_scales=scales, b_scales=weights, c=wide, m=m, n=n, k=k), wide
    pairs, group, length = 16, 8, 1500
    q, keys, values, o = normal(pairs, group, 128), normal(pairs, length, 128), normal(pairs, length, 128), normal(pairs, group, 128)
    scale = 1.4426950408889634 / 128**0.5
    for cluster in (1, 2, 4, 8):
        kernel = iron.kernel(f"attention_decode_tma_cluster{cluster}", "bf16")
        yield kernel.name, lambda kernel=kernel: kernel(q=q, k=keys, v=values, o=o, length=length, group=group, scale_log2=scale), o
    rows, seq = 6, 650
    query, shared_keys, shared_values, attended = (normal(1, n, seq, 128) for n in (rows, 2, 2, rows))
    for name in ("attention_tma", "attention_tma_causal"):
        kernel = iron.kernel(name, "bf16")
        yield kernel.name, lambda kernel=kernel: kernel(q=query, k=shared_keys, v=shared_values, o=attended, seq=seq, heads=rows, group=3,
                                                        batch=1, scale_log2=scale), attended
    heads, splits = pairs * group, 5
    parts = torch.empty(heads, splits, 128, device="cuda")
    tops, totals = (torch.empty(heads, splits, device="cuda") for _ in range(2))
    first, second = iron.kernel("attention_decode_tma", "bf16"), iron.kernel("sdpa_decode_2pass_pass2", "bf16")

    def two_pass():
        first(q=q, k=keys, v=values, partial_out=parts, partial_top=tops, partial_total=totals, length=length, group=group, splits=splits,
              scale_log2=scale)
        second(partial_out=parts, partial_top=tops, partial_total=totals, out=o, blocks=splits)

    yield first.name, two_pass, o


def repeat(name, launch, out, launches, loaded):
    bits = out.view(torch.int16)
    out.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    first = bits.clone()
    if torch.isnan(out).any():
        raise SystemExit(f"{name}: the first launch leaves elements unwritten")
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)

    def once():
        out.fill_(float("nan"))
        launch()
        wrong.add_((bits != first).any())

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        once()
    torch.cuda.synchronize()
    wrong.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            once()
    x = torch.randn(2048, 2048, device="cuda")
    start = time.time()
    replays = -(-launches // IN_GRAPH)
    for i in range(replays):
        if loaded:
            with torch.cuda.stream(side):
                for _ in range(4):
                    torch.mm(x, x)
        graph.replay()
    torch.cuda.synchronize()
    print(f"{name:<38} {'loaded' if loaded else 'idle':<7} {replays * IN_GRAPH} launches, {wrong.item()} wrong, {time.time() - start:.1f} s", flush=True)
    return wrong.item()


def main():
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    torch.manual_seed(1)
    return 1 if sum(repeat(*s, launches, loaded) for s in subjects() for loaded in (False, True)) else 0


if __name__ == "__main__":
    sys.exit(main())
