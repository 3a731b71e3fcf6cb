"""What is compared: one function a case, with an arm for Iron and one for each peer."""

import math

import iron


class Skip(Exception):
    """The case cannot run here; the text says why."""


class Case:
    """`arms`: {name: launch(set) that returns the output}; `want(set)` is the float64 result. `ceilings`: arms that move
    the same bytes and compute nothing that is compared: a plain copy, or a plain read."""

    def __init__(self, shape, sets, outputs, want, tolerance, bytes=0, flops=0):
        self.shape, self.sets, self.outputs, self.want = shape, sets, outputs, want
        self.tolerance, self.bytes, self.flops = tolerance, bytes, flops
        self.arms, self.absent, self.ceilings = {}, {}, {}

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


def ceiling(case, world, kind):
    """Adds the world's own copy, or read, of as many bytes."""
    launch = getattr(world, kind)(case.bytes, case.sets)
    if launch:
        case.ceilings[kind] = launch


SIZE = {"f32": 4, "f16": 2, "bf16": 2}
ROUNDING = {"f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}


def row_kernel(world, small, name, registers, dtype):
    """The kernel for long rows on a GPU, the one for any rows elsewhere."""
    return iron.kernel(registers if world.name == "cuda" and not small else name, dtype)


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
    ceiling(c, world, "copy")
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
    return rows_case(world, small, dtype, "softmax", lambda t: row_kernel(world, small, "softmax", "softmax_registers", t), numpy_softmax,
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
    kernel = row_kernel(world, small, "rms_norm_wide", "rms_norm_registers", dtype)
    return rows_case(world, small, dtype, "rms_norm", lambda t: lambda x, y, w: kernel(x, w, y, eps=1e-5), numpy_rms_norm,
                     lambda torch, x, y, w: torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-5), exact_rms_norm, "rms_norm", extra=("weight",))


def exact_layer_norm(w, x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / (((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) ** 0.5 * weight + bias


def numpy_layer_norm(w, x, y, weight, bias):
    w.np.subtract(x, x.mean(axis=-1, keepdims=True), out=y)
    y /= w.np.sqrt((y * y).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5))
    y *= weight
    y += bias
    return y


def layer_norm(world, small, dtype):
    kernel = row_kernel(world, small, "layer_norm", "layer_norm_registers", dtype)
    return rows_case(world, small, dtype, "layer_norm", lambda t: lambda x, y, w, b: kernel(x, w, b, y, eps=1e-5), numpy_layer_norm,
                     lambda torch, x, y, w, b: torch.nn.functional.layer_norm(x, (x.shape[1],), w, b, 1e-5), exact_layer_norm,
                     extra=("weight", "bias"))


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


@case("layer_norm f32")
def layer_norm_f32(world, small):
    return layer_norm(world, small, "f32")


@case("layer_norm bf16")
def layer_norm_bf16(world, small):
    return layer_norm(world, small, "bf16")


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
    ceiling(c, world, "copy")
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
    kernel = row_kernel(world, small, "gemv", "gemv_stream", dtype)

    def launch(i):
        kernel(w[i], x, y[i])
        return y[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.matmul(w[i], x, out=y[i]), torch=lambda i: world.torch.mv(w[i], x, out=y[i]))
    triton(c, world, lambda kernels: lambda i: kernels.gemv(w[i], x, y[i]))
    ceiling(c, world, "read")
    return c


@case("gemv f32")
def gemv_f32(world, small):
    return gemv(world, small, "f32")


@case("gemv bf16")
def gemv_bf16(world, small):
    return gemv(world, small, "bf16")


@case("gemv int4 bf16")
def gemv_int4(world, small):
    """int4 weights in groups of 64 with a scale and a bias each, times one vector of bf16 (W4A16)."""
    if world.peer != "torch":
        raise Skip(f"{world.peer} has no bf16")
    torch, n, group = world.torch, 128 if small else 8192, 64
    moved = n * n // 2 + 2 * 2 * n * n // group
    sets = copies(world, moved, small)
    words = [world.integers((n, n // 8), "u32") for _ in range(sets)]
    scales = [(torch.rand((n, n // group), device="cuda") * 0.02 + 0.01).bfloat16() for _ in range(sets)]
    biases = [-8 * s for s in scales]  # exact, so that the peers' other forms of the offset are too
    x, y = world.normal((1, n), "bf16"), [world.poisoned((1, n), "bf16") for _ in range(sets)]

    def codes(i):
        wide = words[i].view(torch.int32).long()
        return torch.stack([wide >> 4 * j & 15 for j in range(8)], -1).reshape(n, n)

    def want(i):
        w = codes(i).double().reshape(n, n // group, group) * scales[i].double()[..., None] + biases[i].double()[..., None]
        return x.double() @ w.reshape(n, n).T

    c = Case(f"{n} x {n}, groups of {group}", sets, y, want, 10 * ROUNDING["bf16"], bytes=moved)

    def product(kernel):
        def launch(i):
            kernel(w=words[i], scales=scales[i], biases=biases[i], x=x, out=y[i])
            return y[i]

        return launch

    c.arms["iron"] = product(row_kernel(world, small, "qmv", "qmv_fixed", "bf16"))
    c.arms["qmv_stream"] = product(iron.kernel("qmv_stream", "bf16"))
    # The same product in bf16: what the weights would cost undecoded. It rounds each weight once more.
    dense = [((codes(i) - 8).bfloat16().reshape(n, n // group, group) * scales[i][..., None]).reshape(n, n) for i in range(sets)]
    c.arms["torch, bf16 weights"] = lambda i: torch.matmul(x, dense[i].T, out=y[i])
    if not small:
        try:
            packed = [torch.ops.aten._convert_weight_to_int4pack((codes(i)[:, ::2] * 16 + codes(i)[:, 1::2]).to(torch.uint8).contiguous(), 8)
                      for i in range(sets)]
            zeros = [torch.stack([s, torch.zeros_like(s)], -1).transpose(0, 1).contiguous() for s in scales]
            c.arms["torch, int4"] = lambda i: torch.ops.aten._weight_int4pack_mm(x, packed[i], group, zeros[i])
        except (AttributeError, RuntimeError) as error:
            c.absent["torch, int4"] = str(error).splitlines()[0]
    ceiling(c, world, "read")
    return c


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
    ceiling(c, world, "copy")
    return c


@case("flat cumsum f32")
def flat_cumsum_f32(world, small):
    """One long array; what a scan leaves of its state is cleared within the time."""
    tile, n = 12288, 40000 if small else 1 << (26 if world.name == "cuda" else 22)
    tiles = -(-n // tile)
    moved = 2 * n * 4
    sets = copies(world, moved, small)
    x = [abs(world.normal((n,), "f32")) for _ in range(sets)]
    y = [world.poisoned((n,), "f32") for _ in range(sets)]
    c = Case(f"{n} f32", sets, y, lambda i: world.exact(x[i]).cumsum(0), 1e-5, bytes=moved)
    kernel, states = iron.kernel("scan_lookback", "f32"), [world.words(tiles + -(-tiles // 32) + 1) for _ in range(sets)]

    def launch(i):
        clear, state = states[i]
        clear()
        kernel(x=x[i], y=y[i], state=state("u64", 0, tiles), spans=state("u64", tiles, -(-tiles // 32)),
               counter=state("u32", tiles + -(-tiles // 32), 1), n=n)
        return y[i]

    c.arms["iron"] = launch
    peer(c, world, numpy=lambda i: world.np.cumsum(x[i], out=y[i]), torch=lambda i: world.torch.cumsum(x[i], 0, out=y[i]))
    ceiling(c, world, "copy")
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
    ceiling(c, world, "read")
    return c
