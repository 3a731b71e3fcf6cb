"""Where a comparison runs: arrays, the peer library, timers. numpy on the CPU, torch on a GPU."""

import subprocess
import sys
import time

import iron


class NumpyWorld:
    """The CPU: Iron's CPU device beside numpy."""

    name, peer = "cpu", "numpy"
    element_types = {"f32": "float32", "f16": "float16"}

    def __init__(self):
        import numpy

        self.np = numpy
        self.rng = numpy.random.default_rng(1)
        self.device = iron.device()
        self.cache_bytes = self.device.cache_bytes or 32 << 20

    def describe(self):
        return f"{self.device.name} ({self.device.backend}, {self.device.units} threads)"

    def versions(self):
        return {"numpy": self.np.__version__, "python": sys.version.split()[0]}

    def clock(self):
        return None

    def normal(self, shape, dtype, scale=1.0):
        return (self.rng.standard_normal(shape, dtype=self.np.float32) * self.np.float32(scale)).astype(self.element_types[dtype])

    def poisoned(self, shape, dtype):
        return self.np.full(shape, self.np.nan, dtype=self.element_types[dtype])

    def poison(self, array):
        array.fill(self.np.nan)

    def exact(self, array):
        return array.astype(self.np.float64)

    def error(self, got, want):
        """The largest error, absolute below 1 and relative above; None where something is not finite."""
        got = self.exact(got)
        if not self.np.isfinite(got).all():
            return None
        return float((self.np.abs(got - want) / self.np.maximum(1, self.np.abs(want))).max())

    def words(self, count):
        """`count` zeroed words of 64 bits: how they are cleared, and parts of them as u64 or u32."""
        array = self.np.zeros(count, self.np.uint64)
        return lambda: array.fill(0), lambda dtype, at, n: array[at:].view({"u64": self.np.uint64, "u32": self.np.uint32}[dtype])[:n]

    def copy(self, bytes, sets):
        """launch(set) that copies half of the bytes: as many are moved."""
        half = [self.np.ones(bytes // 8, self.np.float32) for _ in range(2 * sets)]
        return lambda i: self.np.copyto(half[2 * i], half[2 * i + 1])

    def read(self, bytes, sets):
        """launch(set) that sums as many bytes."""
        arrays = [self.np.ones(bytes // 4, self.np.float32) for _ in range(sets)]
        return lambda i: self.np.add.reduce(arrays[i])

    def bandwidth(self):
        return {}

    def timer(self, launch, sets):
        return HostTimer(launch, sets)

    def forget(self):
        pass

    def __getattr__(self, name):  # exp, sqrt, ...: what numpy calls them
        return getattr(self.np, name)


class HostTimer:
    """Seconds a launch, by the host's clock; launches are done when they return."""

    def __init__(self, launch, sets):
        self.launch, self.launches = launch, sets

    def __call__(self, repeats):
        start = time.perf_counter()
        for _ in range(repeats):
            for i in range(self.launches):
                self.launch(i)
        return (time.perf_counter() - start) / (repeats * self.launches)


class TorchWorld:
    """A GPU: Iron's kernels on torch's tensors and stream, beside what torch calls."""

    name, peer = "cuda", "torch"

    def __init__(self):
        import torch

        self.torch = torch
        self.element_types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8, "u32": torch.uint32}
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        self.device = iron.device("cuda")
        self.cache_bytes = self.device.cache_bytes

    def describe(self):
        return f"{self.device.name} ({self.device.architecture}, {self.device.api})"

    def versions(self):
        found = {"torch": self.torch.__version__, "cuda": self.torch.version.cuda, "cudnn": str(self.torch.backends.cudnn.version())}
        try:
            import triton

            found["triton"] = triton.__version__
        except ImportError:
            pass
        return found

    def clock(self):
        """Clock and power right after the case: a chip that throttles shows here."""
        done = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    def normal(self, shape, dtype, scale=1.0):
        return (self.torch.randn(shape, device="cuda") * scale).to(self.element_types[dtype])

    def integers(self, shape, dtype):
        """All bits random."""
        return self.torch.randint(-(2**31), 2**31, shape, device="cuda", dtype=self.torch.int32).view(self.element_types[dtype])

    def words(self, count):
        """`count` zeroed words of 64 bits: how they are cleared, and parts of them as u64 or u32."""
        tensor = self.torch.zeros(count, device="cuda", dtype=self.torch.int64)
        types = {"u64": self.torch.uint64, "u32": self.torch.uint32}
        return tensor.zero_, lambda dtype, at, n: tensor[at:].view(types[dtype])[:n]

    def copy(self, bytes, sets):
        """launch(set) that copies half of the bytes: as many are moved."""
        half = [self.normal((bytes // 8,), "f32") for _ in range(2 * sets)]
        return lambda i: half[2 * i].copy_(half[2 * i + 1])

    def read(self, bytes, sets):
        """launch(set) that sums as many bytes."""
        tensors = [self.normal((bytes // 4,), "f32") for _ in range(sets)]
        return lambda i: self.torch.sum(tensors[i])

    def bandwidth(self):
        """GB/s of a sum over 4 GiB: the ceiling of reading at large sizes."""
        a = self.normal((1 << 30,), "f32")
        timer = GraphTimer(self.torch, lambda _: self.torch.sum(a), 1)
        return {"read": round((4 << 30) / min(timer(1) for _ in range(3)) * 1e-9, 1)}

    def poisoned(self, shape, dtype):
        return self.torch.full(shape, float("nan"), device="cuda", dtype=self.element_types[dtype])

    def poison(self, tensor):
        tensor.fill_(float("nan"))

    def exact(self, tensor):
        return tensor.double()

    def error(self, got, want):
        got = got.double()
        if not self.torch.isfinite(got).all().item():
            return None
        return ((got - want).abs() / want.abs().clamp(min=1)).max().item()

    def timer(self, launch, sets):
        return GraphTimer(self.torch, launch, sets)

    def forget(self):
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()


class GraphTimer:
    """Seconds a launch by the device's clock: replays of one graph that holds every set, at least 20 launches."""

    def __init__(self, torch, launch, sets):
        self.torch = torch
        self.launches = sets * max(1, -(-20 // sets))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiled and tuned before the capture
            for _ in range(3):
                for i in range(sets):
                    launch(i)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(self.launches):
                launch(i % sets)

    def __call__(self, repeats):
        begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        self.graph.replay()
        begin.record()
        for _ in range(repeats):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / (repeats * self.launches)


def open_world(name):
    """The world of that name, or the one with a GPU if torch sees one."""
    if name != "cpu":
        try:
            import torch

            if torch.cuda.is_available():
                return TorchWorld()
            reason = "torch sees no GPU"
        except ImportError:
            reason = "torch is not installed"
        if name == "cuda":
            sys.exit(f"compare.py: --device cuda: {reason}")
    return NumpyWorld()
