"""The Python package: kernels with numpy arrays, what is refused, that nothing is copied and nothing leaks."""

import gc
import os
import sys
import threading
import tracemalloc
import unittest
import weakref
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402

import iron  # noqa: E402

TORCH = None
try:
    import torch as TORCH
except ImportError:
    pass

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Lists(unittest.TestCase):
    def test_kernels(self):
        everything = iron.kernels()
        self.assertGreater(len(everything), 400)
        names = {(k.name, k.dtype) for k in everything}
        self.assertEqual(len(names), len(everything))
        self.assertIn(("iron_softmax", "bf16"), names)
        self.assertEqual({k.family for k in iron.kernels(family="softmax")}, {"softmax"})
        self.assertEqual({k.dtype for k in iron.kernels(dtype="u32")}, {"u32"})
        self.assertEqual(iron.kernels(family="softmax", dtype="u64"), [])

    def test_every_kernel_can_be_made(self):
        for info in iron.kernels():
            kernel = iron.kernel(info.name, info.dtype)
            self.assertEqual((kernel.name, kernel.dtype, kernel.file), (info.name, info.dtype, info.file))
            self.assertTrue(kernel.parameters)
            names = {p.name for p in kernel.parameters}
            # A stated shape names parameters, and each of its sizes is a scalar or explains itself.
            from iron._shapes import parse
            self.assertLessEqual(set(parse(kernel.shapes)), names, kernel)

    def test_versions(self):
        self.assertRegex(iron.version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(iron.library_path(), os.environ["IRON_LIBRARY"])
        self.assertIn(f'version = "{iron.version()}"', (ROOT / "python/pyproject.toml").read_text())
        self.assertIn("f32", iron.dtypes())

    def test_stubs_name_what_is_there(self):
        import ast
        stub = ast.parse((ROOT / "python/iron/__init__.pyi").read_text())
        named = {n.name for n in stub.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")}
        self.assertLessEqual(set(iron.__all__), named)
        for node in stub.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and hasattr(iron, node.name):
                for member in node.body:
                    if isinstance(member, ast.FunctionDef):
                        self.assertTrue(hasattr(getattr(iron, node.name), member.name), f"{node.name}.{member.name}")
        for name in iron.__all__:
            self.assertTrue(getattr(iron, name).__doc__, f"{name} has no docstring")


class Launches(unittest.TestCase):
    def test_rows(self):
        for dtype, limit in (("f32", 1e-6), ("f16", 1e-3)):
            for shape in ((5, 100), (2, 3, 65), (40,)):
                x = normal(*shape, dtype=np.float32 if dtype == "f32" else np.float16)
                y = np.full_like(x, np.nan)
                self.assertIsNone(iron.kernel("softmax", dtype)(x, y))
                np.testing.assert_allclose(y.astype(np.float64), softmax(x), atol=limit)

    def test_matrix_product(self):
        a, b = normal(33, 20), normal(20, 47)
        c = np.empty((33, 47), np.float32)
        iron.kernel("gemm_cpu", "f32")(a=a, b=b, c=c)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-5)

    def test_a_family_says_who_took_the_launch(self):
        """Where there is no matrix unit for it, the kernel of that name; one that is specialised stands for itself."""
        weight, x = normal(47, 20), normal(33, 20)
        out = np.empty((33, 47), np.float32)
        kernel = iron.kernel("gemm", "f32", device="interpreter")
        self.assertIsNone(kernel.member)
        kernel(weight=weight, input=x, out=out)
        self.assertTrue(kernel.member.startswith("iron_gemm_f32: portable"), kernel.member)
        np.testing.assert_allclose(out, x.astype(np.float64) @ weight.T, atol=1e-5)
        softmax_kernel = iron.kernel("softmax", "f32")
        softmax_kernel(x, np.empty_like(x))
        self.assertIsNone(softmax_kernel.member)

    def test_several_outputs_and_reals(self):
        a, b, w = normal(4, 128), normal(4, 128), normal(128)
        total, out = np.empty_like(a), np.empty_like(a)
        kernel = iron.kernel("add_rms_norm", "f32")
        self.assertEqual([p.name for p in kernel.parameters], ["a", "b", "weight", "residual_out", "normed_out", "n", "eps"])
        kernel(a, b, w, total, out, eps=np.float32(1e-5))
        s = (a + b).astype(np.float64)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_allclose(out, s / np.sqrt((s * s).mean(axis=1, keepdims=True) + 1e-5) * w, atol=1e-5)

    def test_integers(self):
        table = normal(10, 6)
        indices = np.array([[3, 9], [0, 77]], np.uint32)
        out = np.full((2, 2, 6), np.nan, np.float32)
        iron.kernel("gather", "f32")(table, indices, out)
        np.testing.assert_array_equal(out[:1], table[indices[:1]])
        np.testing.assert_array_equal(out[1, 1], 0)

    def test_bf16_through_bits(self):
        x = normal(3, 50)
        bits = (x.view(np.uint32) >> 16).astype(np.uint16)
        out = np.zeros_like(bits)
        iron.kernel("softmax", "bf16")(iron.view(bits, "bf16"), iron.view(out, "bf16"))
        exact = (bits.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_allclose((out.astype(np.uint32) << 16).view(np.float32), softmax(exact), atol=4e-3)

    def test_specialisation(self):
        logits = normal(2, 16)
        idx, w = np.empty((2, 4), np.uint32), np.empty((2, 4), np.float32)
        normed, plain = iron.kernel("moe_router_topk", "f32"), iron.kernel("moe_router_topk", "f32", norm_topk=False)
        self.assertEqual(plain.specialisation, "norm_topk=false")
        normed(logits, idx, w)
        np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-5)
        plain(logits, idx, w)
        np.testing.assert_allclose(w, -np.sort(-softmax(logits), axis=1)[:, :4], atol=1e-6)

    def test_optional_buffer(self):
        kernel = iron.kernel("rope_llama", "f32")
        self.assertNotIn("positions", [p.name for p in kernel.parameters])
        tokens, heads, dim = 3, 2, 8
        x = normal(tokens, heads, dim)
        first, second = np.empty_like(x), np.empty_like(x)
        scalars = {"tokens": tokens, "heads": heads, "head_dim": dim, "row_stride": heads * dim, "log2_base": 13.0, "scale": 1.0, "low": 1.0,
                   "high": 4.0, "original": 8192.0}
        kernel(x, first, position=5, **scalars)
        kernel(x=x, positions=np.array([5, 6, 7], np.uint32), out=second, position=0, **scalars)
        np.testing.assert_array_equal(first, second)

    def test_stated_grid(self):
        x = normal(4, 32)
        y = np.full_like(x, np.nan)
        iron.kernel("softmax", "f32")(x, y, groups=4, threads=32)
        np.testing.assert_allclose(y, softmax(x), atol=1e-6)

    def test_devices_agree(self):
        x = normal(3, 77)
        results = []
        for name in [n for n in iron.backends() if n != "cuda"]:
            y = np.empty_like(x)
            iron.kernel("softmax", "f32", device=name)(x, y)
            results.append(y.tobytes())
        self.assertEqual(len(set(results)), 1)

    def test_default_device(self):
        self.addCleanup(iron.set_device, None)
        iron.set_device("interpreter")
        self.assertEqual(iron.device().backend, "interpreter")
        self.assertEqual(iron.empty(3, "f32").device.backend, "interpreter")
        iron.set_device(None)
        self.assertEqual(iron.device().backend, "cpu" if "cpu" in iron.backends() else "interpreter")

    def test_batch(self):
        device = iron.device()
        x, y, z = normal(64), np.empty(64, np.float32), np.empty(64, np.float32)
        add = iron.kernel("add", "f32")
        with device.batch():
            add(x, x, y)
            add(y, x, z)
            with self.assertRaises(iron.InvalidArgument):
                with device.batch():
                    pass
        np.testing.assert_array_equal(z, x + x + x)
        add(x, x, y)  # after it, launches are done when they return
        np.testing.assert_array_equal(y, x + x)

    def test_streams(self):
        device = iron.device()
        stream = device.stream()
        x, y = normal(4, 32), np.full((4, 32), np.nan, np.float32)
        kernel = iron.kernel("softmax", "f32")
        kernel(x, y, stream=stream)
        stream.synchronize()
        np.testing.assert_allclose(y, softmax(x), atol=1e-6)
        with self.assertRaisesRegex(iron.InvalidArgument, "another device"):
            kernel(x, y, stream=iron.device("interpreter").stream() if device.backend == "cpu" else self.skipTest("one device"))
        with self.assertRaisesRegex(iron.Unsupported, "streams of other libraries"):
            kernel(x, y, stream=0)
        with self.assertRaisesRegex(iron.WrongType, "stream is a str"):
            kernel(x, y, stream="main")

    def test_threads(self):
        failures = []

        def work(seed):
            x = np.random.default_rng(seed).normal(size=(8, 200)).astype(np.float32)
            y = np.empty_like(x)
            kernel = iron.kernel("softmax", "f32")
            for _ in range(20):
                y.fill(np.nan)
                kernel(x, y)
                if not np.allclose(y, softmax(x), atol=1e-6):
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


class Refusals(unittest.TestCase):
    def refused(self, kind, words, call):
        with self.assertRaises(kind) as caught:
            call()
        for word in words if isinstance(words, tuple) else (words,):
            self.assertIn(word, str(caught.exception))
        return caught.exception

    def setUp(self):
        self.kernel = iron.kernel("softmax", "f32")
        self.x, self.y = normal(4, 30), np.zeros((4, 30), np.float32)

    def test_types(self):
        for other in (np.float64, np.float16, np.int32):
            error = self.refused(iron.WrongType, ("x of iron_softmax holds f32", np.dtype(other).kind), lambda: self.kernel(self.x.astype(other), self.y))
            self.assertIsInstance(error, TypeError)
            self.assertEqual(error.code, "D25")
        self.refused(iron.WrongType, "<c8", lambda: self.kernel(self.x.astype(np.complex64), self.y))
        self.refused(iron.WrongType, "big-endian", lambda: self.kernel(self.x.astype(">f4"), self.y))
        self.refused(iron.WrongType, "no array", lambda: self.kernel([1.0], self.y))
        self.refused(iron.WrongType, "f32, f16, bf16", lambda: iron.kernel("softmax", "i64"))
        self.refused(iron.WrongType, "no element type 'float'", lambda: iron.kernel("softmax", "float"))
        self.refused(iron.WrongType, "sizes differ", lambda: self.kernel(iron.view(self.x, "f16"), self.y))
        self.refused(iron.WrongType, "scalar, not an array", lambda: self.kernel(self.x, self.y, n=self.x))
        self.refused(iron.WrongType, "whole number", lambda: self.kernel(self.x, self.y, n=30.0))
        self.refused(iron.WrongType, "buffer, not a scalar", lambda: self.kernel(x=3, y=self.y, n=30))

    def test_shapes(self):
        error = self.refused(iron.InvalidArgument, ("[4, 29]", "n is 30 by x"), lambda: self.kernel(self.x, np.zeros((4, 29), np.float32)))
        self.assertIsInstance(error, ValueError)
        self.refused(iron.InvalidArgument, ("'...' is [4]", "[3, 30]"), lambda: self.kernel(self.x, np.zeros((3, 30), np.float32)))
        self.refused(iron.InvalidArgument, "n is 31", lambda: self.kernel(self.x, self.y, n=31))
        gemv = iron.kernel("gemv", "f32")
        self.refused(iron.InvalidArgument, ("vec of iron_gemv", "k is 8 by mat"), lambda: gemv(normal(4, 8), normal(9), normal(4)))
        self.refused(iron.InvalidArgument, "2 dimensions are needed", lambda: gemv(normal(8), normal(8), normal(1)))
        # Without stated shapes the launch contract is what stands between a kernel and memory that is not its own.
        self.refused(iron.Refused, "b", lambda: iron.kernel("add", "f32")(normal(64), normal(63), np.empty(64, np.float32)))

    def test_names(self):
        self.refused(iron.NotFound, "sofmax", lambda: iron.kernel("sofmax", "f32"))
        self.refused(iron.NotFound, "iron_softmax", lambda: iron.kernel("softm", "f32"))
        self.refused(iron.NotFound, "causal", lambda: iron.kernel("softmax", "f32", causal=True))
        self.refused(iron.NotFound, "abacus", lambda: iron.device("abacus"))
        self.refused(iron.InvalidArgument, "no parameter 'z'", lambda: self.kernel(self.x, z=self.y))
        self.refused(iron.InvalidArgument, "no parameter 'm'", lambda: self.kernel(self.x, self.y, m=3))
        self.refused(iron.InvalidArgument, "given twice", lambda: self.kernel(self.x, self.y, x=self.x))
        self.refused(iron.InvalidArgument, "2 buffers by position (x, y)", lambda: self.kernel(self.x, self.y, 30))
        self.refused(iron.InvalidArgument, "lacks arguments: y", lambda: self.kernel(self.x))

    def test_memory(self):
        wide = normal(4, 60)
        self.refused(iron.InvalidArgument, "not contiguous", lambda: self.kernel(wide[:, ::2], self.y))
        self.refused(iron.InvalidArgument, "not contiguous", lambda: self.kernel(normal(30, 4).T, self.y))
        fixed = self.y.copy()
        fixed.flags.writeable = False
        self.refused(iron.InvalidArgument, "read-only", lambda: self.kernel(self.x, fixed))
        self.kernel(fixed, self.x.copy())  # as an input it is welcome
        self.refused(iron.Refused, "share", lambda: self.kernel(self.x, self.x))
        raw = np.zeros(4 * 30 * 4 + 1, np.uint8)
        self.refused(iron.Refused, "x", lambda: self.kernel(raw[1:].view(np.float32).reshape(4, 30), self.y))
        self.refused(iron.InvalidArgument, ("run of iron_merge_f32", "cannot hold"),
                     lambda: iron.kernel("merge", "f32")(normal(8), np.empty(8, np.float32), run=2**40))
        self.refused(iron.InvalidArgument, "cannot hold", lambda: iron.kernel("merge", "f32")(normal(8), np.empty(8, np.float32), run=2**70))

    def test_nothing_ran(self):
        self.y.fill(np.nan)
        with self.assertRaises(iron.Error):
            self.kernel(self.x, self.y, n=31)
        self.assertTrue(np.isnan(self.y).all())

    def test_device_that_is_not_here(self):
        try:
            iron.device("cuda")
        except iron.Unavailable as error:
            self.assertIn("CUDA", error.code)
        else:
            self.assertEqual(iron.device("cuda").backend, "cuda")


class Memory(unittest.TestCase):
    def test_kernels_write_where_numpy_looks(self):
        x, y = normal(2, 9), np.zeros((2, 9), np.float32)
        address, alias = y.ctypes.data, y[:, :]
        iron.kernel("softmax", "f32")(x, y)
        self.assertEqual(y.ctypes.data, address)
        np.testing.assert_allclose(alias, softmax(x), atol=1e-6)

    def test_a_slice_is_its_own_memory(self):
        block = np.full((6, 10), -1, np.float32)
        x = normal(2, 10)
        iron.kernel("softmax", "f32")(x, block[2:4])
        np.testing.assert_allclose(block[2:4], softmax(x), atol=1e-6)
        np.testing.assert_array_equal(np.delete(block, [2, 3], axis=0), -1)

    def test_own_arrays_are_seen_without_copies(self):
        x = normal(3, 8)
        a, out = iron.array(x), iron.empty((3, 8), "f32")
        self.assertEqual((a.shape, a.dtype, a.size, a.nbytes), ((3, 8), "f32", 24, 96))
        iron.kernel("softmax", "f32")(a, out)
        seen, through = np.asarray(out), np.from_dlpack(out)
        self.assertEqual({seen.ctypes.data, through.ctypes.data}, {out.pointer})
        np.testing.assert_allclose(seen, softmax(x), atol=1e-6)
        np.testing.assert_array_equal(out.numpy(), seen)
        self.assertNotEqual(out.numpy().ctypes.data, out.pointer)
        target = np.zeros((3, 8), np.float32)
        out.download(target)
        np.testing.assert_array_equal(target, seen)
        with self.assertRaises(iron.WrongType):
            a.upload(np.zeros(24, np.float64))
        with self.assertRaises(iron.WrongType):
            a.upload(np.zeros(23, np.float32))
        with self.assertRaises(BufferError):
            a.__dlpack__(copy=True)

    def test_views_keep_the_memory(self):
        a = iron.array(normal(1000))
        want, seen, through = a.numpy(), np.asarray(a), np.from_dlpack(a)
        alive = weakref.ref(a)
        del a
        gc.collect()
        self.assertIsNotNone(alive())  # numpy's view names it
        np.testing.assert_array_equal(seen, want)
        del seen
        gc.collect()
        self.assertIsNone(alive())
        filler = [iron.array(normal(1000)) for _ in range(20)]  # what was freed would be used again
        np.testing.assert_array_equal(through, want)  # the DLPack tensor holds the memory itself
        del filler

    def test_dlpack_producers(self):
        class Producer:  # DLPack alone, as torch tensors on the host
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **more):
                return self.array.__dlpack__(**more)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x, y = normal(2, 50), np.zeros((2, 50), np.float32)
        before = sys.getrefcount(x)
        iron.kernel("softmax", "f32")(Producer(x), Producer(y))
        np.testing.assert_allclose(y, softmax(x), atol=1e-6)
        gc.collect()
        self.assertEqual(sys.getrefcount(x), before)
        with self.assertRaisesRegex(iron.InvalidArgument, "not contiguous"):
            iron.kernel("softmax", "f32")(Producer(normal(2, 100)[:, ::2]), Producer(y))

    def test_unconsumed_capsules_go(self):
        start = self.resident()
        for versioned in (None, (1, 0)) * 20:  # 640 MB if they stayed
            a = iron.array(np.ones(4 << 20, np.float32))
            capsule = a.__dlpack__(max_version=versioned)
            self.assertIn('"dltensor_versioned"' if versioned else '"dltensor"', repr(capsule))
            del a, capsule
        self.assertLess(self.resident() - start, 160 << 20)

    def test_consumers_that_fail(self):
        """Memory is given back in the midst of an exception too."""
        for versioned in (False, True):
            with self.assertRaises(ZeroDivisionError):
                capsule = iron.empty(4, "f32").__dlpack__(max_version=(1, 0) if versioned else None)
                seen = np.from_dlpack(iron.empty(4, "f32"))
                raise ZeroDivisionError(str(seen[:0]) + repr(capsule))
        read_only = np.from_dlpack(type("Old", (), {"__dlpack__": lambda s, **m: iron.empty(4, "f32").__dlpack__(),
                                                    "__dlpack_device__": lambda s: (1, 0)})())
        with self.assertRaises(ValueError):
            read_only[0] = 1
            del read_only

    def test_gpu_arrays_are_not_mistaken_for_host_memory(self):
        class Elsewhere:
            __cuda_array_interface__ = {"shape": (2, 9), "typestr": "<f4", "data": (0x7000, False), "strides": None, "version": 3}

        with self.assertRaisesRegex(iron.InvalidArgument, "different devices"):
            iron.kernel("softmax", "f32")(Elsewhere(), np.zeros((2, 9), np.float32))
        with self.assertRaisesRegex(iron.InvalidArgument, "on a GPU"):
            iron.kernel("softmax", "f32", device="interpreter")(Elsewhere(), Elsewhere())
        with self.assertRaisesRegex(iron.InvalidArgument, "on a GPU"):
            iron.array(Elsewhere())

    def test_no_references_stay(self):
        kernel = iron.kernel("softmax", "f32")
        x, y = normal(4, 40), np.zeros((4, 40), np.float32)
        kernel(x, y)
        before = sys.getrefcount(x), sys.getrefcount(y)
        for _ in range(20):
            kernel(x, y)
            with self.assertRaises(iron.Error):
                kernel(x, y, n=3)
        gc.collect()
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(y)), before)

    def test_no_memory_stays(self):
        kernel = iron.kernel("softmax", "f32")
        x = normal(64, 64)

        def work(times):
            for _ in range(times):
                out = iron.empty((64, 64), "f32")
                kernel(x, out)
                np.from_dlpack(out)[0, 0] = 1
                iron.kernel("softmax", "f32")

        work(20)
        gc.collect()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        start, resident = tracemalloc.get_traced_memory()[0], self.resident()
        work(400)
        gc.collect()
        # 400 leaked arrays would hold 6.5 MB, 400 leaked Python objects far more than 30 KB.
        self.assertLess(tracemalloc.get_traced_memory()[0] - start, 30_000)
        self.assertLess(self.resident() - resident, 3 << 20)

    @staticmethod
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def test_arrays_that_cannot_be(self):
        with self.assertRaises(iron.WrongType):
            iron.empty(3, "f31")
        with self.assertRaises(iron.InvalidArgument):
            iron.empty((3, -1), "f32")
        with self.assertRaises(MemoryError):
            iron.empty(1 << 60, "f32")
        self.assertEqual(iron.empty((0, 4), "f32").numpy().shape, (0, 4))


@unittest.skipIf(TORCH is None, "torch is not installed in this Python environment")
class Torch(unittest.TestCase):
    def places(self):
        yield "cpu"
        if TORCH.cuda.is_available():
            yield "cuda"

    def test_tensors(self):
        for place in self.places():
            for dtype, name, limit in ((TORCH.float32, "f32", 1e-6), (TORCH.float16, "f16", 1e-3), (TORCH.bfloat16, "bf16", 4e-3)):
                with self.subTest(place=place, dtype=name):
                    x = TORCH.randn(5, 300, device=place).to(dtype)
                    y = TORCH.full_like(x, float("nan"))
                    iron.kernel("softmax", name)(x, y)
                    self.assertLess((y.double() - x.double().softmax(-1)).abs().max().item(), limit)

    def test_own_arrays(self):
        for place in self.places():
            a = iron.empty((2, 3), "f32", device=None if place == "cpu" else place)
            t = TORCH.from_dlpack(a)
            self.assertEqual((t.data_ptr(), tuple(t.shape)), (a.pointer, (2, 3)))

    @unittest.skipIf(TORCH is not None and not TORCH.cuda.is_available(), "torch sees no GPU")
    def test_current_stream(self):
        """A launch waits for the work that torch has put on its current stream, and torch's next work for the launch."""
        side = TORCH.cuda.Stream()
        x = TORCH.zeros(1 << 20, device="cuda")
        out = TORCH.empty_like(x)
        add = iron.kernel("add", "f32")
        add(x, x, out)  # compiled before
        TORCH.cuda.synchronize()
        with TORCH.cuda.stream(side):
            TORCH.cuda._sleep(100_000_000)  # some 50 ms
            x.fill_(3)
            add(x, x, out)
            total = out.sum()
        side.synchronize()
        self.assertEqual(total.item(), 6.0 * (1 << 20))


if __name__ == "__main__":
    unittest.main()
