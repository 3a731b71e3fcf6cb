"""cuBLASLt at its best: every algorithm of its heuristic timed, through the library that torch has loaded."""

import ctypes
import re
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

WORKSPACE = 64 << 20
HEURISTICS = 32
_TYPES = {"torch.bfloat16": 14, "torch.float16": 2, "torch.float32": 0}  # cudaDataType
_COMPUTE_32F = 68
_MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t


class _Algorithm(ctypes.Structure):
    _fields_ = [("data", c_uint64 * 8)]


class _Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", _Algorithm), ("workspace", c_size_t), ("state", c_int), ("waves", c_float), ("reserved", c_int * 4)]


def _library():
    """The one in this process, so that both arms run the same code."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if found := re.search(r"(/\S*libcublasLt\.so\S*)", line):
            return ctypes.CDLL(found[1])
    raise OSError("libcublasLt is not loaded in this process: torch loads it with its first matrix product")


def _check(status, what):
    if status:
        raise RuntimeError(f"cuBLASLt: {what} returned {status}")


def best_matmul(torch, a, b, out):
    """A launch of out = a @ b (row-major) by the fastest of the heuristic's algorithms."""
    torch.matmul(a, b, out=out)  # loads the library
    lt = _library()
    (m, k), n = a.shape, b.shape[1]
    kind = _TYPES[str(a.dtype)]
    handle = c_void_p()
    _check(lt.cublasLtCreate(byref(handle)), "create")
    # Column-major sees the transposes: out^T [n, m] = b^T [n, k] a^T [k, m].
    operation, preference = c_void_p(), c_void_p()
    _check(lt.cublasLtMatmulDescCreate(byref(operation), _COMPUTE_32F, 0), "the operation")
    layouts = []
    for rows, columns in ((n, k), (k, m), (n, m)):
        layout = c_void_p()
        _check(lt.cublasLtMatrixLayoutCreate(byref(layout), kind, c_uint64(rows), c_uint64(columns), c_int64(rows)), "a layout")
        layouts.append(layout)
    _check(lt.cublasLtMatmulPreferenceCreate(byref(preference)), "the preference")
    limit = c_size_t(WORKSPACE)
    _check(lt.cublasLtMatmulPreferenceSetAttribute(preference, _MAX_WORKSPACE, byref(limit), c_size_t(8)), "the workspace limit")
    results, count = (_Heuristic * HEURISTICS)(), c_int()
    left, right, target = layouts
    _check(lt.cublasLtMatmulAlgoGetHeuristic(handle, operation, left, right, target, target, preference, HEURISTICS, results, byref(count)),
           "the heuristic")
    workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
    one, zero = c_float(1), c_float(0)
    lt.cublasLtMatmul.argtypes = [c_void_p, c_void_p, POINTER(c_float), c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_float), c_void_p, c_void_p,
                                  c_void_p, c_void_p, POINTER(_Algorithm), c_void_p, c_size_t, c_void_p]

    def with_algorithm(result):
        def launch(_):
            _check(lt.cublasLtMatmul(handle, operation, byref(one), b.data_ptr(), left, a.data_ptr(), right, byref(zero), out.data_ptr(), target,
                                     out.data_ptr(), target, byref(result.algorithm), workspace.data_ptr(), WORKSPACE,
                                     torch.cuda.current_stream().cuda_stream), "a product")
            return out

        return launch

    best = None
    for result in results[: count.value]:
        if result.state:
            continue
        launch = with_algorithm(result)
        for _ in range(2):
            launch(0)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(10):
            launch(0)
        end.record()
        end.synchronize()
        if best is None or begin.elapsed_time(end) < best[0]:
            best = (begin.elapsed_time(end), launch)
    if best is None:
        raise RuntimeError(f"cuBLASLt has no algorithm for {m} x {n} x {k}")
    return best[1]
