"""What is compared: one function a case, with an arm for Iron and one for each peer."""

import math

import iron


class Skip(Exception):
    """The case cannot run here; the text says why."""


class Case:
    """`arms`: {name: launch(set) that returns the output}; `want(set)` is the float64 result."""

    def __init__(self, shape, sets, outputs, want, tolerance, bytes=0, flops=0):
        self.shape, self.sets, self.outputs, self.want = shape, sets, outputs, want
        self.tolerance, self.bytes, self.flops = tolerance, bytes, flops
        self.arms, self.absent = {}, {}

    def check(self, world, launch):
        """The largest error over the first and the last set, each on a poisoned output; None: not a number."""
        worst = 0.0
        for i in {0, self.sets - 1}:
            world.poison(self.outputs[i])
            error = world.error(launch(i), self.want(i))
            if error is None:
                return None
            worst = max(worst, error)
        return worst


CASES = []


def case(label):
    def register(function):
        function.label = label
        CASES.append(function)
        return function

    return register


def copies(world, bytes, small):
    """How many copies of the buffers exceed three times the last-level cache."""
    return 2 if small else max(1, min(64, math.ceil(3 * world.cache_bytes / bytes)))


def peer(case, world, numpy=None, torch=None):
    """The arm of the world's own library; it writes into the case's outputs where the library can."""
    launch = torch if world.peer == "torch" else numpy
    if launch:
        case.arms[world.peer] = launch


def triton(case, world, make):
    """The arm of a Triton kernel: make(kernels module) gives the launch."""
    if world.name == "cpu":
        return
    try:
        import triton_kernels
    except ImportError as error:
        case.absent["triton"] = f"triton is not installed ({error})"
        return
    case.arms["triton"] = make(triton_kernels)


SIZE = {"f32": 4, "f16": 2, "bf16": 2}
ROUNDING = {"f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}


def rows_case(world, small, dtype, name, make_iron, numpy, torch, want, triton_kernel=None, extra=()):
    """Rows of [n, n] in, rows out: a case that memory bounds."""
    n = 64 if small else 8192 if world.name == "cuda" else 2048
    if dtype not in world.element_types:
        raise Skip(f"{world.peer} has no {dtype}")
    moved = 2 * n * n * SIZE[dtype]
    sets = copies(world, moved, small)
    xs = [world.normal((n, n), dtype) for _ in range(sets)]
    ys = [world.poisoned((n, n), dtype) for _ in range(sets)]
    more = [world.normal((n,), dtype) for _ in extra]
    c = Case(f"{n} x {n} {dtype}", sets, ys, lambda i: want(world, world.exact(xs[i]), *map(world.exact, more)), ROUNDING[dtype], bytes=moved)
    run = make_iron(dtype)

    def launch(i):
        run(xs[i], ys[i], *more)
        return ys[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: numpy(world, xs[i], ys[i], *more), torch=lambda i: torch(world.torch, xs[i], ys[i], *more))
    if triton_kernel:
        triton(c, world, lambda kernels: lambda i: getattr(kernels, triton_kernel)(xs[i], ys[i], *more))
    return c


def exact_softmax(w, x):
    if w.peer == "torch":
        return w.torch.softmax(x, -1)
    e = w.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numpy_softmax(w, x, y):
    w.np.subtract(x, x.max(axis=-1, keepdims=True), out=y)
    w.np.exp(y, out=y)
    y /= y.sum(axis=-1, keepdims=True)
    return y


def softmax(world, small, dtype):
    return rows_case(world, small, dtype, "softmax", lambda t: iron.kernel("softmax", t), numpy_softmax,
                     lambda torch, x, y: torch._softmax(x, -1, False, out=y), exact_softmax, "softmax")


def exact_rms_norm(w, x, weight):
    mean = (x * x).mean(-1, keepdims=True) if w.peer == "numpy" else (x * x).mean(-1, keepdim=True)
    return x / (mean + 1e-5) ** 0.5 * weight


def numpy_rms_norm(w, x, y, weight):
    scale = 1 / w.np.sqrt((w.np.einsum("ij,ij->i", x, x) / x.dtype.type(x.shape[1]) + x.dtype.type(1e-5)))
    w.np.multiply(x, scale[:, None], out=y)
    y *= weight
    return y


def rms_norm(world, small, dtype):
    kernel = iron.kernel("rms_norm_wide", dtype)
    return rows_case(world, small, dtype, "rms_norm", lambda t: lambda x, y, w: kernel(x, w, y, eps=1e-5), numpy_rms_norm,
                     lambda torch, x, y, w: torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-5), exact_rms_norm, "rms_norm", extra=("weight",))


@case("softmax f32")
def softmax_f32(world, small):
    return softmax(world, small, "f32")


@case("softmax bf16")
def softmax_bf16(world, small):
    return softmax(world, small, "bf16")


@case("rms_norm f32")
def rms_norm_f32(world, small):
    return rms_norm(world, small, "f32")


@case("rms_norm bf16")
def rms_norm_bf16(world, small):
    return rms_norm(world, small, "bf16")


def elementwise(world, small, dtype, name, numpy, torch, want, scale=1.0):
    """Two arrays in, one out."""
    n = 4096 if small else 1 << (26 if world.name == "cuda" else 23)
    if dtype not in world.element_types:
        raise Skip(f"{world.peer} has no {dtype}")
    moved = 3 * n * SIZE[dtype]
    sets = copies(world, moved, small)
    a, b = ([world.normal((n,), dtype, scale) for _ in range(sets)] for _ in range(2))
    out = [world.poisoned((n,), dtype) for _ in range(sets)]
    c = Case(f"{n} {dtype}", sets, out, lambda i: want(world, world.exact(a[i]), world.exact(b[i])), ROUNDING[dtype], bytes=moved)
    kernel = iron.kernel(name, dtype)

    def launch(i):
        kernel(a[i], b[i], out[i])
        return out[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: numpy(world.np, a[i], b[i], out[i]), torch=lambda i: torch(world.torch, a[i], b[i], out[i]))
    return c


@case("add f32")
def add_f32(world, small):
    return elementwise(world, small, "f32", "add", lambda np, a, b, out: np.add(a, b, out=out), lambda t, a, b, out: t.add(a, b, out=out),
                       lambda w, a, b: a + b)


def numpy_swiglu(np, a, b, out):
    np.exp(-a, out=out)
    out += 1
    np.divide(a, out, out=out)
    out *= b
    return out


def swiglu(world, small, dtype):
    return elementwise(world, small, dtype, "swiglu", numpy_swiglu, lambda t, a, b, out: t.mul(t.nn.functional.silu(a), b, out=out),
                       lambda w, a, b: a / (1 + (w.exp(-a) if w.peer == "numpy" else (-a).exp())) * b)


@case("swiglu f32")
def swiglu_f32(world, small):
    return swiglu(world, small, "f32")


@case("swiglu bf16")
def swiglu_bf16(world, small):
    return swiglu(world, small, "bf16")


def gemv(world, small, dtype):
    """A matrix of cold weights times one vector."""
    n = 96 if small else 8192 if world.name == "cuda" else 2048
    if dtype not in world.element_types:
        raise Skip(f"{world.peer} has no {dtype}")
    moved = n * n * SIZE[dtype]
    sets = copies(world, moved, small)
    w = [world.normal((n, n), dtype) for _ in range(sets)]
    x, y = world.normal((n,), dtype, n**-0.5), [world.poisoned((n,), dtype) for _ in range(sets)]
    c = Case(f"{n} x {n} {dtype}", sets, y, lambda i: world.exact(w[i]) @ world.exact(x), 4 * ROUNDING[dtype], bytes=moved)
    kernel = iron.kernel("gemv", dtype)

    def launch(i):
        kernel(w[i], x, y[i])
        return y[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.matmul(w[i], x, out=y[i]), torch=lambda i: world.torch.mv(w[i], x, out=y[i]))
    triton(c, world, lambda kernels: lambda i: kernels.gemv(w[i], x, y[i]))
    return c


@case("gemv f32")
def gemv_f32(world, small):
    return gemv(world, small, "f32")


@case("gemv bf16")
def gemv_bf16(world, small):
    return gemv(world, small, "bf16")


def gemm(world, small, dtype, n):
    n = 64 if small else n
    if dtype not in world.element_types:
        raise Skip(f"{world.peer} has no {dtype}")
    a, b = world.normal((n, n), dtype, n**-0.25), world.normal((n, n), dtype, n**-0.25)
    out = [world.poisoned((n, n), dtype)]
    want = world.exact(a) @ world.exact(b)
    c = Case(f"{n}^3 {dtype}", 1, out, lambda i: want, 8 * ROUNDING[dtype], flops=2 * n**3)
    # The portable member; hopper.py compares those of the Hopper tier, whose second operand is turned.
    kernel = iron.kernel("steel_gemm_64x64x16_2x2" if world.name == "cuda" else "gemm_cpu", dtype)

    def launch(i):
        kernel(a=a, b=b, c=out[0])
        return out[0]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.matmul(a, b, out=out[0]), torch=lambda i: world.torch.matmul(a, b, out=out[0]))
    if world.name == "cuda":
        try:
            import cublaslt

            c.arms["cublaslt"] = cublaslt.best_matmul(world.torch, a, b, out[0])
        except (ImportError, OSError, RuntimeError) as error:
            c.absent["cublaslt"] = str(error)
    triton(c, world, lambda kernels: lambda i: kernels.matmul(a, b, out[0]))
    return c


@case("gemm f32 1024")
def gemm_f32(world, small):
    if world.name == "cuda":
        raise Skip("torch's f32 product on a GPU is another precision class unless TF32 is off on both sides")
    return gemm(world, small, "f32", 1024)


@case("gemm bf16 4096")
def gemm_bf16_4096(world, small):
    return gemm(world, small, "bf16", 4096)


@case("gemm bf16 8192")
def gemm_bf16_8192(world, small):
    return gemm(world, small, "bf16", 8192)


@case("cumsum f32")
def cumsum_f32(world, small):
    n = 64 if small else 4096
    rows = 8 if small else (1 << 26) // n if world.name == "cuda" else (1 << 22) // n
    moved = 2 * rows * n * 4
    sets = copies(world, moved, small)
    x = [world.normal((rows, n), "f32") for _ in range(sets)]
    y = [world.poisoned((rows, n), "f32") for _ in range(sets)]
    c = Case(f"{rows} x {n} f32", sets, y, lambda i: world.exact(x[i]).cumsum(-1), n * 2.0**-24, bytes=moved)
    kernel = iron.kernel("scan", "f32")

    def launch(i):
        kernel(x[i], y[i])
        return y[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.cumsum(x[i], axis=-1, out=y[i]), torch=lambda i: world.torch.cumsum(x[i], -1, out=y[i]))
    return c


@case("row sum f32")
def row_sum_f32(world, small):
    n = 64 if small else 8192 if world.name == "cuda" else 2048
    moved = n * n * 4
    sets = copies(world, moved, small)
    x = [world.normal((n, n), "f32") for _ in range(sets)]
    y = [world.poisoned((n,), "f32") for _ in range(sets)]
    c = Case(f"{n} x {n} f32", sets, y, lambda i: world.exact(x[i]).sum(-1), 1e-4, bytes=moved)
    kernel = iron.kernel("row_reduce", "f32")

    def launch(i):
        kernel(x[i], y[i])
        return y[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.sum(x[i], axis=-1, out=y[i]), torch=lambda i: world.torch.sum(x[i], -1, out=y[i]))
    return c
