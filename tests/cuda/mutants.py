#!/usr/bin/env python3
"""Runs an emitted GEMM on a GPU as it is, or with a planted fault that a sanitizer must report.

  iron build --backend cuda --emit cuda -o out --match-name '^iron_steel_gemm_64x64x16_2x2_f32$'
  compute-sanitizer --tool racecheck python3 mutants.py out/kernels/iron_steel_gemm_64x64x16_2x2_f32.cu barrier

Faults: none; barrier (the first one is taken away: racecheck); bounds (stores lose their guard: memcheck); divergent (the
first barrier under a lane's condition: synccheck). Needs cupy.
"""
import re
import sys

import cupy


def mutated(text, fault):
    if fault == "none":
        return text
    if fault == "bounds":
        out, count = re.subn(r"if \(\(i64\)row < \(i64\)\S+ && \(i64\)col < \(i64\)\S+\) ", "", text)
    elif fault == "barrier":
        out, count = re.subn(r"__syncthreads\(\);", "", text, count=1)
    elif fault == "divergent":
        out, count = re.subn(r"__syncthreads\(\);", "if (threadIdx.x % 32u < 16u) __syncthreads();", text, count=1)
    else:
        sys.exit(__doc__)
    if not count:
        sys.exit(f"the text has no place for the fault '{fault}'")
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, fault = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        text = mutated(file.read(), fault)
    cupy.cuda.set_allocator(None)  # a pool would hide what lies behind a buffer
    threads, entry = re.search(r"__launch_bounds__\((\d+)\) (\w+)\(", text).groups()
    kernel = cupy.RawModule(code=text, options=("--std=c++17", "--fmad=false"), backend="nvrtc").get_function(entry)
    m, n, k = 69, 67, 19
    a, b, c = (cupy.random.rand(size, dtype=cupy.float32) for size in (m * k, k * n, m * n))
    grid = ((n + 63) // 64, (m + 63) // 64, 1)
    kernel(grid, (int(threads), 1, 1), (a, b, c, cupy.uint32(m), cupy.uint32(n), cupy.uint32(k)))
    cupy.cuda.Device().synchronize()
    want = a.get().reshape(m, k).astype("f8") @ b.get().reshape(k, n)
    print(f"{fault}: largest error {abs(c.get().reshape(m, n) - want).max():.1e}")


if __name__ == "__main__":
    main()
