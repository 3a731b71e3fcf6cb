#!/usr/bin/env python3
"""Checks and times the Hopper tier's kernels against cuBLASLt, torch and cuDNN in torch's context.

    build/dev/tests/perf/hopper_plan DIR        # anywhere: cubins and plan.json
    python3 tests/perf/hopper.py DIR [check] [gemm] [attention] [stress] [profile]   # on an H200 with torch

check: every kernel against f64 (GEMM) or f32 (attention) on shapes with ragged edges. gemm, attention: ratios to the
peer, steady (each arm alone until clocks settle, blocks alternating) and interleaved (short bursts, clocks shared),
with MHz and W. profile: attention and its peer once each, for a profiler. stress: repeated launches, idle and beside other work, must give the same bits. IRON_ONLY=text keeps the kernels whose name holds it; IRON_STRESS=n sets the launches.
Ends with a table and writes hopper.json to $OUT.
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import torch
import torch.nn.functional as F

torch.cuda.init()
torch.zeros(1, device="cuda")
CU = ctypes.CDLL("libcuda.so.1")
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "u8": torch.uint8, "e4m3": torch.float8_e4m3fn}
DRIVER_TYPE = {"u8": 0, "f16": 6, "bf16": 9, "f32": 7}
ROWS = []


def ok(code, what):
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


def log(**row):
    ROWS.append(row)
    print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)


class Tensor:
    """A torch tensor as a kernel sees it: dimensions and strides, innermost first."""

    def __init__(self, tensor, dims, strides):
        self.tensor, self.dims, self.strides = tensor, dims, strides


def encode(arg, value):
    raw = ctypes.create_string_buffer(192)
    at = (ctypes.addressof(raw) + 63) & ~63
    rank = len(value.dims)
    dims = (ctypes.c_uint64 * rank)(*value.dims)
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*value.strides)
    box = (ctypes.c_uint32 * rank)(*arg["box"])
    ones = (ctypes.c_uint32 * rank)(*([1] * rank))
    ok(CU.cuTensorMapEncodeTiled(ctypes.c_void_p(at), DRIVER_TYPE[arg["dtype"]], rank,
                                 ctypes.c_void_p(value.tensor.data_ptr()), dims, strides, box, ones, 0, arg["swizzle"],
                                 2, 0), f"the map of {arg['param']}")
    return ctypes.create_string_buffer(ctypes.string_at(at, 128), 128)


class Kernel:
    def __init__(self, folder, plan):
        self.plan = plan
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(os.path.join(folder, plan["name"] + ".cubin"), "rb") as f:
            ok(CU.cuModuleLoadData(ctypes.byref(module), f.read()), plan["name"])
        ok(CU.cuModuleGetFunction(ctypes.byref(self.function), module, plan["entry"].encode()), plan["entry"])
        ok(CU.cuFuncSetAttribute(self.function, 8, plan["shared"]), "shared memory")

    def bind(self, groups, values):
        """A function that launches on torch's current stream."""
        made = []
        for arg in self.plan["args"]:
            value = values[arg["param"]]
            if arg["tensor"]:
                made.append(encode(arg, value))
            else:
                made.append(ctypes.c_float(value) if arg["dtype"] == "f32" else ctypes.c_uint32(value))
        pointers = (ctypes.c_void_p * len(made))(*[ctypes.addressof(m) for m in made])

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            ok(CU.cuLaunchKernel(self.function, groups, 1, 1, self.plan["threads"], 1, 1, self.plan["shared"], stream,
                                 pointers, None), self.plan["name"])

        launch.keep = made, values
        return launch


# --- kernels on shapes


def gemm_arm(kernel, a, b, c):
    p = kernel.plan
    (m, k), n, size = a.shape, b.shape[0], a.element_size()
    units = torch.cuda.get_device_properties(0).multi_processor_count
    cl = p["cluster"]
    tiles = -(-m // (p["bm"] * cl)) * -(-n // p["bn"])
    return kernel.bind(min(units // cl, tiles) * cl, {
        "a": Tensor(a, [k, m], [a.stride(0) * size]), "b": Tensor(b, [k, n], [b.stride(0) * size]),
        "c": Tensor(c, [n, m], [c.stride(0) * c.element_size()]), "m": m, "n": n, "k": k, "scale": 1.0})


def attention_arm(kernel, q, k, v, o):
    batch, heads, seq, hd = q.shape
    shared = k.shape[1]
    units = torch.cuda.get_device_properties(0).multi_processor_count
    tiles = -(-seq // 128) * heads * batch

    def tensor(t):
        h = t.shape[1]
        return Tensor(t, [hd, seq, h, batch], [hd * 2, seq * hd * 2, h * seq * hd * 2])

    return kernel.bind(min(units, tiles), {
        "q": tensor(q), "k": tensor(k), "v": tensor(v), "o": tensor(o), "seq": seq, "heads": heads,
        "group": heads // shared, "batch": batch, "scale_log2": 1.4426950408889634 / hd**0.5})


def operands(kernel, m, n, k):
    dtype = kernel.plan["dtype"]
    t = TORCH[dtype]
    a, b = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda")
    return a.to(t), b.to(t), torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16 if dtype == "e4m3" else t)


def error(got, want):
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def gemm_reference(a, b):
    return a.double() @ b.double().T


def attention_reference(q, k, v, causal):
    batch, heads, seq, hd = q.shape
    out = torch.empty(q.shape, device="cuda", dtype=torch.float32)
    for i in range(batch):
        for h in range(heads):
            kk, vv = (x[i, h * k.shape[1] // heads].double() for x in (k, v))
            for r in range(0, seq, 2048):
                s = q[i, h, r:r + 2048].double() @ kk.T / hd**0.5
                if causal:
                    rows = torch.arange(r, r + s.shape[0], device="cuda")[:, None]
                    s.masked_fill_(torch.arange(seq, device="cuda")[None] > rows, float("-inf"))
                out[i, h, r:r + 2048] = (torch.softmax(s, -1) @ vv).float()
    return out


def check(kernels):
    worst = 0.0
    for kernel in kernels:
        p = kernel.plan
        if p["kind"] == "gemm":
            step = 16 if p["dtype"] == "e4m3" else 8
            for m, n, k in [(128, 256, 64), (256, 512, 512), (1000, 1000 // step * step, 1000 // step * step),
                            (1, 8 * step, 2 * step), (4096, 4096, 4096), (3000, 2000, 5120)]:
                a, b, c = operands(kernel, m, n, k)
                gemm_arm(kernel, a, b, c)()
                e = error(c, gemm_reference(a, b))
                worst = max(worst, e)
                log(check=p["name"], shape=f"{m}x{n}x{k}", error=e, ok=bool(e < 4e-3))
        else:
            for batch, heads, shared, seq in [(1, 1, 1, 128), (2, 4, 2, 384), (1, 2, 1, 1000), (1, 8, 1, 1536)]:
                t = TORCH[p["dtype"]]
                q = torch.randn(batch, heads, seq, 128, device="cuda").to(t)
                k, v = (torch.randn(batch, shared, seq, 128, device="cuda").to(t) for _ in range(2))
                o = torch.full_like(q, float("nan"))
                attention_arm(kernel, q, k, v, o)()
                e = error(o, attention_reference(q, k, v, p["causal"]))
                worst = max(worst, e)
                log(check=p["name"], shape=f"b{batch}h{heads}/{shared}s{seq}", error=e, ok=bool(e < 5e-3))
    bad = [r for r in ROWS if "check" in r and not r["ok"]]
    print(f"check: {len(bad)} of {sum('check' in r for r in ROWS)} failed, worst error {worst:.2e}", flush=True)
    return not bad


# --- time


class Sampler:
    """Clock and power, ten times a second."""

    def __init__(self):
        self.samples = []
        self.process = subprocess.Popen(
            ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "100"],
            stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                self.samples.append((time.time(), *map(float, line.split(","))))
            except ValueError:
                pass

    def between(self, start, end):
        seen = [s for s in self.samples if start <= s[0] <= end]
        if not seen:
            return 0.0, 0.0
        return statistics.mean(s[1] for s in seen), statistics.mean(s[2] for s in seen)


def seconds(f, n):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(n):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / n


def compare(ours, theirs, sampler, blocks=3, block=0.3):
    for f in (ours, theirs):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    count = {f: max(1, int(block / max(1e-6, seconds(f, 3)))) for f in (ours, theirs)}
    steady = {ours: [], theirs: []}
    mhz = {ours: [], theirs: []}
    watt = {ours: [], theirs: []}
    for i in range(blocks):
        for f in ((ours, theirs) if i % 2 == 0 else (theirs, ours)):
            seconds(f, count[f])  # the clock settles
            start = time.time()
            steady[f].append(seconds(f, count[f]))
            m, w = sampler.between(start + 0.05, time.time())
            mhz[f].append(m), watt[f].append(w)
    burst = {f: max(1, count[f] // 30) for f in (ours, theirs)}
    mixed = {ours: [], theirs: []}
    for i in range(16):
        for f in ((ours, theirs) if i % 2 == 0 else (theirs, ours)):
            mixed[f].append(seconds(f, burst[f]))
    a, b = (statistics.median(steady[f]) for f in (ours, theirs))
    return {"us": a * 1e6, "peer_us": b * 1e6, "steady": b / a,
            "steady_low": min(steady[theirs]) / max(steady[ours]), "steady_high": max(steady[theirs]) / min(steady[ours]),
            "interleaved": statistics.median(mixed[theirs]) / statistics.median(mixed[ours]),
            "mhz": statistics.mean(mhz[ours]), "peer_mhz": statistics.mean(mhz[theirs]),
            "watt": statistics.mean(watt[ours]), "peer_watt": statistics.mean(watt[theirs])}


class CublasLt:
    """C = A * B^T by the fastest of cuBLASLt's heuristics for the shape."""

    def __init__(self, a, b, c, like=None):
        """`like`: another one of the same shapes, whose choice is taken."""
        if like is not None:
            self.__dict__ |= like.__dict__
            self.keep = a, b, c
            self.best = self.use(like.chosen)
            return
        self.lib = None
        for name in ("libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12"):
            try:
                self.lib = ctypes.CDLL(name)
                break
            except OSError:
                pass
        lib, (m, k), n = self.lib, a.shape, b.shape[0]
        kind = {torch.bfloat16: 14, torch.float16: 2}[a.dtype]
        self.keep = a, b, c
        self.handle, self.desc = ctypes.c_void_p(), ctypes.c_void_p()
        ok(lib.cublasLtCreate(ctypes.byref(self.handle)), "cublasLtCreate")
        ok(lib.cublasLtMatmulDescCreate(ctypes.byref(self.desc), 68, 0), "desc")  # f32 accumulation and scale
        for which, value in ((3, 1), (4, 0)):  # transpose the first, not the second
            v = ctypes.c_int(value)
            ok(lib.cublasLtMatmulDescSetAttribute(self.desc, which, ctypes.byref(v), 4), "transpose")
        self.layouts = [ctypes.c_void_p() for _ in range(3)]
        make = lib.cublasLtMatrixLayoutCreate
        make.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64]
        for layout, (rows, cols, ld) in zip(self.layouts, ((k, n, k), (k, m, k), (n, m, n))):
            ok(make(ctypes.addressof(layout), kind, rows, cols, ld), "layout")
        preference = ctypes.c_void_p()
        ok(lib.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "preference")
        self.room = ctypes.c_size_t(64 << 20)
        ok(lib.cublasLtMatmulPreferenceSetAttribute(preference, 1, ctypes.byref(self.room), 8), "workspace")
        self.workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        most, got = 16, ctypes.c_int()
        self.results = (ctypes.c_char * (96 * most))()
        la, lb, lc = self.layouts
        ok(lib.cublasLtMatmulAlgoGetHeuristic(self.handle, self.desc, la, lb, lc, lc, preference, most, self.results,
                                              ctypes.byref(got)), "heuristics")
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)
        timed = []
        for i in range(got.value):
            try:
                self.use(i)()
                torch.cuda.synchronize()
                timed.append((seconds(self.use(i), 6), i))
            except RuntimeError:
                pass
        timed = sorted((seconds(self.use(i), 12), i) for _, i in sorted(timed)[:4])
        self.chosen = timed[0][1]
        self.best, self.name = self.use(self.chosen), f"cublasLt #{self.chosen} of {got.value}"

    def use(self, i):
        a, b, c = (ctypes.c_void_p(t.data_ptr()) for t in self.keep)
        la, lb, lc = self.layouts
        algo, room = ctypes.c_void_p(ctypes.addressof(self.results) + 96 * i), ctypes.c_void_p(self.workspace.data_ptr())

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            ok(self.lib.cublasLtMatmul(self.handle, self.desc, ctypes.byref(self.one), b, la, a, lb,
                                       ctypes.byref(self.zero), c, lc, c, lc, algo, room, self.room, stream), "matmul")

        return launch


def gemm(kernels, sampler):
    for size in (4096, 8192):
        arms = {}
        for kernel in kernels:
            p = kernel.plan
            if p["kind"] != "gemm":
                continue
            if p["dtype"] not in arms:
                a, b, c = operands(kernel, size, size, size)
                peer_c = torch.empty_like(c)
                if p["dtype"] == "e4m3":
                    one = torch.ones((), device="cuda")
                    run = lambda a=a, b=b, one=one: torch._scaled_mm(
                        a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
                    name = "torch._scaled_mm"
                else:
                    lt = CublasLt(a, b, peer_c)
                    run, name = lt.best, lt.name
                arms[p["dtype"]] = a, b, c, run() if p["dtype"] == "e4m3" else (run(), peer_c)[1], run, name
            a, b, c, peer_c, run, name = arms[p["dtype"]]
            c.fill_(float("nan"))
            ours = gemm_arm(kernel, a, b, c)
            ours()
            e = error(c, peer_c)
            row = compare(ours, run, sampler)
            log(gemm=p["name"], size=size, error=e, tflops=2e-12 * size**3 / row["us"] * 1e6,
                peer_tflops=2e-12 * size**3 / row["peer_us"] * 1e6, **row, peer=name)


def attention_arms(kernel, batch, heads, shared, seq):
    """Ours, cuDNN's and our output."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.randn(batch, heads, seq, 128, device="cuda").bfloat16()
    k, v = (torch.randn(batch, shared, seq, 128, device="cuda").bfloat16() for _ in range(2))
    o = torch.full_like(q, float("nan"))

    def peer():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=kernel.plan["causal"], enable_gqa=heads != shared)

    return attention_arm(kernel, q, k, v, o), peer, o


def profile(kernels):
    for kernel in kernels:
        if kernel.plan["kind"] == "attention" and kernel.plan["dtype"] == "bf16":
            ours, peer, _ = attention_arms(kernel, 4, 16, 16, 4096)
            ours(), peer()
            torch.cuda.synchronize()


def attention(kernels, sampler):
    for batch, heads, shared, seq in [(4, 16, 16, 4096), (1, 16, 16, 16384), (1, 64, 8, 8192)]:
        for kernel in kernels:
            p = kernel.plan
            if p["kind"] != "attention" or p["dtype"] != "bf16":
                continue
            ours, peer, o = attention_arms(kernel, batch, heads, shared, seq)
            ours()
            e = error(o, peer())
            row = compare(ours, peer, sampler)
            flops = 4.0 * batch * heads * seq * seq * 128 * (0.5 if p["causal"] else 1)
            log(attention=p["name"], shape=f"b{batch}h{heads}/{shared}s{seq}", error=e,
                tflops=flops / row["us"] * 1e-6, peer_tflops=flops / row["peer_us"] * 1e-6, **row, peer="cuDNN")


def stress(kernels, launches):
    side = torch.cuda.Stream()
    x = torch.randn(2048, 2048, device="cuda")
    for kernel in kernels:
        p = kernel.plan
        if p["kind"] == "gemm":
            a, b, c = operands(kernel, 1024, 1024 + 256, 1024)
            launch, out = gemm_arm(kernel, a, b, c), c
        else:
            t = TORCH[p["dtype"]]
            q = torch.randn(1, 8, 1024, 128, device="cuda").to(t)
            k, v = (torch.randn(1, 2, 1024, 128, device="cuda").to(t) for _ in range(2))
            out = torch.full_like(q, float("nan"))
            launch = attention_arm(kernel, q, k, v, out)
        launch()
        torch.cuda.synchronize()
        first = out.view(torch.int16).clone()
        for loaded in (False, True):
            wrong = torch.zeros((), device="cuda", dtype=torch.int64)
            start = time.time()
            for i in range(launches):
                if loaded and i % 16 == 0:
                    with torch.cuda.stream(side):
                        torch.mm(x, x)
                out.fill_(float("nan"))
                launch()
                wrong += (out.view(torch.int16) != first).any()
            torch.cuda.synchronize()
            log(stress=p["name"], loaded=loaded, launches=launches, wrong=wrong.item(), seconds=time.time() - start)


def main():
    folder, only = sys.argv[1], os.environ.get("IRON_ONLY", "")
    parts = sys.argv[2:] or ["check", "gemm", "attention"]
    with open(os.path.join(folder, "plan.json")) as f:
        kernels = [Kernel(folder, p) for p in json.load(f)["kernels"] if only in p["name"]]
    sampler = Sampler()
    start = time.time()
    try:
        print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
        if "check" in parts and not check(kernels):
            return 1
        if "gemm" in parts:
            gemm(kernels, sampler)
        if "attention" in parts:
            attention(kernels, sampler)
        if "profile" in parts:
            profile(kernels)
        if "stress" in parts:
            stress(kernels, int(os.environ.get("IRON_STRESS", "3000")))
    finally:
        sampler.process.terminate()
        out = os.environ.get("OUT", ".")
        with open(os.path.join(out, f"hopper{only}.json"), "w") as f:
            json.dump(ROWS, f, indent=1)
        print(f"{time.time() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
