"""Cases of the Hopper tier: products split over the depth, E4M3 with a scale a block, decode. A GPU only."""

import math

import iron
from cases import ROUNDING, SIZE, Case, Skip, case, copies

LOG2_E = math.log2(math.e)


def need_gpu(world):
    if world.name != "cuda":
        raise Skip("the Hopper tier needs a GPU")


def split_k(world, small, dtype, m, n, k):
    """C = A * B^T for few tiles. Arms: the member that the selector gives on an H200, the others, the persistent one."""
    need_gpu(world)
    t, tiles, blocks = world.torch, -(-m // 64) * -(-n // 128), -(-k // 64)
    splits = min(max(-(-2 * 132 // tiles), 1), -(-blocks // 4))
    splits = -(-blocks // -(-blocks // splits))  # no part empty
    sets = copies(world, SIZE[dtype] * (m * k + n * k + m * n), small)
    a = [world.normal((m, k), dtype, k**-0.25) for _ in range(sets)]
    b = [world.normal((n, k), dtype, k**-0.25) for _ in range(sets)]
    out = [world.poisoned((m, n), dtype) for _ in range(sets)]
    partials = t.empty((splits, m, n), device="cuda")
    c = Case(f"{m} x {n} x {k} {dtype}, {splits} splits", sets, out, lambda i: world.exact(a[i]) @ world.exact(b[i]).T,
             8 * ROUNDING[dtype], bytes=SIZE[dtype] * (m * k + n * k + m * n))
    part, total = iron.kernel("gemm_splitk_tma", dtype), iron.kernel("splitk_accum", dtype)

    def slices(i):
        part(a=a[i], b=b[i], partials=partials, m=m, n=n, k=k, splits=splits)
        total(partials=partials, c=out[i], splits=splits)
        return out[i]

    def one(name):
        kernel = iron.kernel(name, dtype)

        def launch(i):
            kernel(a=a[i], b=b[i], c=out[i], m=m, n=n, k=k)
            return out[i]

        return launch

    arms = {"slices": slices, "persistent": one("gemm_tma")} | {f"cluster{x}": one(f"gemm_splitk_tma_cluster{x}") for x in (2, 4, 8)}
    small_tiles = -(-m // 64) * -(-n // 64)
    c.arms["iron"] = arms.pop("cluster8" if 8 * small_tiles <= 99 else "cluster4" if 4 * small_tiles <= 99 else "cluster2" if 2 * tiles <= 132 else "slices")
    c.arms |= arms
    c.arms["torch"] = lambda i: t.matmul(a[i], b[i].T, out=out[i])
    import hopper

    best = hopper.CublasLt(a[0], b[0], out[0])
    best_of = [best] + [hopper.CublasLt(a[i], b[i], out[i], like=best) for i in range(1, sets)]

    def cublaslt(i):
        best_of[i].best()
        return out[i]

    c.arms["cublaslt"] = cublaslt
    return c


for m, n, k in ((96, 512, 2048), (256, 96, 5120), (64, 64, 16384), (16, 8192, 8192), (128, 4096, 4096)):
    case(f"splitk bf16 {m}x{n}x{k}")(lambda world, small, m=m, n=n, k=k: split_k(world, small, "bf16", m, n, k))


def e4m3_blocks(world, small, m, n, k):
    """Scales of 1 x 128 and 128 x 128, beside cuBLASLt's through torch."""
    need_gpu(world)
    t = world.torch
    a, b = (t.randn(x, k, device="cuda").to(t.float8_e4m3fn) for x in (m, n))
    a_scales, b_scales = t.rand(k // 128, m, device="cuda") + 0.5, t.rand(n // 128, k // 128, device="cuda") + 0.5
    out = [world.poisoned((m, n), "bf16")]
    wide = (a.double().view(m, k // 128, 128) * a_scales.T.double()[:, :, None]).view(m, k)
    want = wide @ (b.double().view(n // 128, 128, k // 128, 128) * b_scales.double()[:, None, :, None]).view(n, k).T
    root = k**0.5
    a_scales /= root  # results near 1
    want /= root
    c = Case(f"{m} x {n} x {k}", 1, out, lambda i: want, 8 * ROUNDING["bf16"], flops=2 * m * n * k)

    def mine(name):
        kernel = iron.kernel(name, "bf16")

        def launch(i):
            kernel(a=a.view(t.uint8), b=b.view(t.uint8), a_scales=a_scales, b_scales=b_scales, c=out[i], m=m, n=n, k=k)
            return out[i]

        return launch

    c.arms["iron"] = mine("gemm_tma_e4m3_blocks_cluster2")
    c.arms["one threadgroup"] = mine("gemm_tma_e4m3_blocks")
    c.arms["torch"] = lambda i: t._scaled_mm(a, b.T, scale_a=a_scales.T, scale_b=b_scales.T, out_dtype=t.bfloat16)
    return c


for m, n, k in ((4096, 4096, 7168), (4096, 7168, 2048), (4096, 24576, 1536), (8192, 8192, 8192)):
    case(f"e4m3 blocks {m}x{n}x{k}")(lambda world, small, m=m, n=n, k=k: e4m3_blocks(world, small, m, n, k))


def decode(world, small, batch, kv_heads, group, length):
    """One token a sequence. Arms: the choice of the selector on an H200, the others, torch's backends."""
    need_gpu(world)
    t, hd, pairs = world.torch, 128, batch * kv_heads
    moved = 4 * pairs * hd * (length + group)
    sets = copies(world, moved, small)
    q = [world.normal((pairs, group, hd), "bf16") for _ in range(sets)]
    k, v = ([world.normal((pairs, length, hd), "bf16") for _ in range(sets)] for _ in range(2))
    out = [world.poisoned((pairs, group, hd), "bf16") for _ in range(sets)]
    c = Case(f"batch {batch}, {kv_heads * group}/{kv_heads} heads, {length} keys", sets, out,
             lambda i: t.softmax(world.exact(q[i]) @ world.exact(k[i]).transpose(1, 2) / hd**0.5, -1) @ world.exact(v[i]),
             2 * ROUNDING["bf16"], bytes=moved)

    def joined(splits):
        kernel = iron.kernel(f"attention_decode_tma_cluster{splits}", "bf16")

        def launch(i):
            kernel(q=q[i], k=k[i], v=v[i], o=out[i], length=length, group=group, scale_log2=LOG2_E / hd**0.5)
            return out[i]

        return launch

    def two_pass(splits):
        heads = pairs * group
        part, top, total = t.empty(heads, splits, hd, device="cuda"), t.empty(heads, splits, device="cuda"), t.empty(heads, splits, device="cuda")
        first, second = iron.kernel("attention_decode_tma", "bf16"), iron.kernel("sdpa_decode_2pass_pass2", "bf16")

        def launch(i):
            first(q=q[i], k=k[i], v=v[i], partial_out=part, partial_top=top, partial_total=total, length=length, group=group,
                  splits=splits, scale_log2=LOG2_E / hd**0.5)
            second(partial_out=part, partial_top=top, partial_total=total, out=out[i], blocks=splits)
            return out[i]

        return launch

    chosen = next(s for s in (1, 2, 4, 8, 16, 32, 64) if 2 * s > -(-length // 128) or 20 * pairs * s >= 9 * 132)
    arms = {f"cluster{s}": joined(s) for s in (1, 2, 4, 8)} | {f"slices{s}": two_pass(s) for s in sorted({4, 8, 16, chosen})}
    c.arms["iron"] = arms.pop(f"cluster{chosen}" if chosen <= 8 else f"slices{chosen}")
    c.arms |= arms
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def peer(backend):
        def launch(i):
            with sdpa_kernel(backend):
                done = t.nn.functional.scaled_dot_product_attention(
                    q[i].view(batch, kv_heads * group, 1, hd), k[i].view(batch, kv_heads, length, hd), v[i].view(batch, kv_heads, length, hd),
                    enable_gqa=True)
            return done.view(pairs, group, hd)

        return launch

    c.arms["cudnn"], c.arms["flash"] = peer(SDPBackend.CUDNN_ATTENTION), peer(SDPBackend.FLASH_ATTENTION)
    return c


for batch, length in ((1, 1024), (1, 8192), (1, 32768), (4, 8192), (32, 4096)):
    case(f"decode bf16 batch {batch} of {length} keys")(lambda world, small, batch=batch, length=length: decode(world, small, batch, 8, 8, length))
