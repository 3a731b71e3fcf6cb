"""Kernels in Triton, after its own tutorials: peers for compare.py. Importing it needs triton."""

import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, n, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * n + i, (e / tl.sum(e, axis=0)).to(y.dtype.element_ty), mask=i < n)


def softmax(x, y):
    rows, n = x.shape
    block = triton.next_power_of_2(n)
    _softmax[(rows,)](x, y, n, block, num_warps=min(16, max(4, block // 512)))
    return y


@triton.jit
def _rms_norm(x, w, y, n, eps, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(v * v, axis=0) / n + eps)
    weight = tl.load(w + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + row * n + i, (v * scale * weight).to(y.dtype.element_ty), mask=i < n)


def rms_norm(x, y, w):
    rows, n = x.shape
    block = triton.next_power_of_2(n)
    _rms_norm[(rows,)](x, w, y, n, 1e-5, block, num_warps=min(16, max(4, block // 512)))
    return y


@triton.autotune([triton.Config({"block": b}, num_warps=w) for b in (512, 1024, 2048, 4096) for w in (2, 4, 8)], key=["k"])
@triton.jit
def _gemv(w, x, y, k, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((block,), tl.float32)
    for at in range(0, k, block):
        i = at + tl.arange(0, block)
        a = tl.load(w + row * k + i, mask=i < k, other=0.0).to(tl.float32)
        b = tl.load(x + i, mask=i < k, other=0.0).to(tl.float32)
        total += a * b
    tl.store(y + row, tl.sum(total, axis=0).to(y.dtype.element_ty))


def gemv(w, x, y):
    _gemv[(w.shape[0],)](w, x, y, w.shape[1])
    return y


_TILES = [triton.Config({"bm": bm, "bn": bn, "bk": 64, "group": 8}, num_stages=stages, num_warps=warps)
          for bm, bn, stages, warps in ((128, 128, 4, 4), (128, 256, 3, 8), (256, 128, 3, 8), (128, 128, 3, 8))]


@triton.autotune(_TILES, key=["m", "n", "k"])
@triton.jit
def _matmul(a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, group: tl.constexpr):
    pid = tl.program_id(0)
    across, down = tl.cdiv(n, bn), tl.cdiv(m, bm)
    first = (pid // (group * across)) * group
    height = tl.minimum(down - first, group)
    row, column = first + (pid % (group * across)) % height, (pid % (group * across)) // height
    i, j, l = (row * bm + tl.arange(0, bm)) % m, (column * bn + tl.arange(0, bn)) % n, tl.arange(0, bk)
    at_a, at_b = a + i[:, None] * k + l[None, :], b + l[:, None] * n + j[None, :]
    total = tl.zeros((bm, bn), tl.float32)
    for step in range(0, tl.cdiv(k, bk)):
        left = tl.load(at_a, mask=l[None, :] < k - step * bk, other=0.0)
        right = tl.load(at_b, mask=l[:, None] < k - step * bk, other=0.0)
        total = tl.dot(left, right, total)
        at_a += bk
        at_b += bk * n
    i, j = row * bm + tl.arange(0, bm), column * bn + tl.arange(0, bn)
    tl.store(c + i[:, None] * n + j[None, :], total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


def matmul(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    _matmul[lambda meta: (triton.cdiv(m, meta["bm"]) * triton.cdiv(n, meta["bn"]),)](a, b, c, m, n, k)
    return c


@triton.jit
def _attention(q, k, v, o, seq, scale_log2, bm: tl.constexpr, bn: tl.constexpr, hd: tl.constexpr):
    at = tl.program_id(1).to(tl.int64) * seq * hd
    i, d = tl.program_id(0) * bm + tl.arange(0, bm), tl.arange(0, hd)
    mine = at + i[:, None] * hd + d[None, :]
    query = tl.load(q + mine, mask=i[:, None] < seq, other=0.0)
    top, total = tl.full((bm,), -float("inf"), tl.float32), tl.zeros((bm,), tl.float32)
    sums = tl.zeros((bm, hd), tl.float32)
    for first in range(0, seq, bn):
        j = first + tl.arange(0, bn)
        theirs = at + j[:, None] * hd + d[None, :]
        key = tl.load(k + theirs, mask=j[:, None] < seq, other=0.0)
        score = tl.where(j[None, :] < seq, tl.dot(query, tl.trans(key)) * scale_log2, -float("inf"))
        new = tl.maximum(top, tl.max(score, axis=1))
        p, fix = tl.exp2(score - new[:, None]), tl.exp2(top - new)
        value = tl.load(v + theirs, mask=j[:, None] < seq, other=0.0)
        sums = tl.dot(p.to(value.dtype), value, sums * fix[:, None])
        total, top = total * fix + tl.sum(p, axis=1), new
    tl.store(o + mine, (sums / total[:, None]).to(o.dtype.element_ty), mask=i[:, None] < seq)


def attention(q, k, v, o, scale_log2):
    """Full attention over [heads, seq, hd]; one configuration, as a cold start compiles it."""
    heads, seq, hd = q.shape
    _attention[(triton.cdiv(seq, 128), heads)](q, k, v, o, seq, scale_log2, 128, 64, hd, num_warps=8, num_stages=3)
    return o


def matmul_once(a, b, c):
    """The product without the search over its configurations: the first of them."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 128) * triton.cdiv(n, 128),)
    _matmul.fn[grid](a, b, c, m, n, k, 128, 128, 64, 8, num_stages=4, num_warps=4)
    return c
