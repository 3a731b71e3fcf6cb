"""Memory of other libraries, seen without copying: numpy, DLPack, __cuda_array_interface__."""

import ctypes
import math

from ._library import DTYPE_SIZES, DTYPES, InvalidArgument, WrongType, library

# Device types and element codes of DLPack.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("dtype", _DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype, _api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.restype, _api.PyCapsule_SetName.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype, _api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class View:
    """Memory of `owner`: address, shape, element type, where it is. Holds what keeps the memory alive."""

    __slots__ = ("pointer", "shape", "dtype", "device", "writable", "stream", "keep")

    def __init__(self, pointer, shape, dtype, device, writable, keep, stream=None):
        self.pointer, self.shape, self.dtype, self.device = pointer, tuple(shape), dtype, device
        self.writable, self.keep, self.stream = writable, keep, stream

    @property
    def bytes(self):
        return math.prod(self.shape) * DTYPE_SIZES[self.dtype]


class TypedView:
    """See iron.view()."""

    def __init__(self, array, dtype):
        if dtype not in DTYPE_SIZES:
            raise WrongType(f"there is no element type '{dtype}': one of {', '.join(DTYPE_SIZES)}")
        self.array, self.dtype = array, dtype


def _contiguous(shape, strides, size, what):
    """`strides` in bytes, or None."""
    if strides is None:
        return
    expected = size
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            raise InvalidArgument(f"{what} is not contiguous (shape {tuple(shape)}, strides {tuple(strides)} bytes): Iron copies nothing, "
                                  "make it contiguous first")
        expected *= max(extent, 1)


def _from_typestr(typestr, what):
    kind, size = typestr[1], int(typestr[2:])
    if typestr[0] == ">" and size > 1:
        raise WrongType(f"{what} is big-endian ({typestr}): convert it")
    name = "bool" if kind == "b" else f"{ {'i': 'i', 'u': 'u', 'f': 'f'}.get(kind, '?')}{size * 8}"
    if name not in DTYPE_SIZES:
        raise WrongType(f"{what} has elements of type {typestr}, which Iron does not know")
    return name


def _from_interface(interface, keep, device, what, dtype=None):
    pointer, readonly = interface["data"]
    dtype = dtype or _from_typestr(interface["typestr"], what)
    _contiguous(interface["shape"], interface.get("strides"), DTYPE_SIZES[dtype], what)
    return View(pointer or 0, interface["shape"], dtype, device, not readonly, keep, interface.get("stream"))


class _Capsule:
    """A consumed DLPack capsule: calls its deleter when the last view goes."""

    def __init__(self, managed):
        self.managed = managed

    def __del__(self):
        managed = self.managed.contents
        if managed.deleter:
            managed.deleter(self.managed)


def _from_dlpack(array, what):
    kind, ordinal = array.__dlpack_device__()
    if kind not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise InvalidArgument(f"{what} is on a device that Iron does not know (DLPack type {kind})")
    # -1: the producer orders nothing; the launch goes to the producer's own stream.
    capsule = array.__dlpack__(stream=-1) if kind == CUDA else array.__dlpack__()
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_DLManagedTensor))
    _api.PyCapsule_SetName(capsule, b"used_dltensor")
    keep = (_Capsule(managed), array)
    tensor = managed.contents.tensor
    kind_of = _CODES.get(tensor.dtype.code)
    name = kind_of if kind_of == "bool" else f"{kind_of}{tensor.dtype.bits}"
    if tensor.dtype.lanes != 1 or name not in DTYPE_SIZES:
        raise WrongType(f"{what} has elements that Iron does not know (DLPack code {tensor.dtype.code}, {tensor.dtype.bits} bits)")
    shape = tensor.shape[: tensor.ndim]
    size = DTYPE_SIZES[name]
    _contiguous(shape, [s * size for s in tensor.strides[: tensor.ndim]] if tensor.strides else None, size, what)
    device = ("cuda", tensor.device.id) if kind in (CUDA, CUDA_MANAGED) else ("host", 0)
    return View((tensor.data or 0) + tensor.byte_offset, shape, name, device, True, keep)


def view_of(array, what="the array"):
    """The memory of an array, nothing copied. Raises WrongType or InvalidArgument (not contiguous, no protocol)."""
    if isinstance(array, TypedView):
        view = view_of(array.array, what)
        if DTYPE_SIZES[view.dtype] != DTYPE_SIZES[array.dtype]:
            raise WrongType(f"{what} has {view.dtype} elements, which cannot be seen as {array.dtype}: the sizes differ")
        view.dtype = array.dtype
        return view
    named = str(getattr(getattr(array, "dtype", None), "name", ""))
    if (interface := getattr(array, "__array_interface__", None)) is not None:
        # ml_dtypes registers bfloat16 with numpy under a typestr without meaning.
        return _from_interface(interface, array, ("host", 0), what, "bf16" if named == "bfloat16" else None)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, what)
    if (interface := getattr(array, "__cuda_array_interface__", None)) is not None:
        return _from_interface(interface, array, ("cuda", 0), what)
    raise WrongType(f"{what} is a {type(array).__name__}, which is no array: it has neither __array_interface__, __dlpack__ nor "
                    "__cuda_array_interface__")


def to_dlpack(handle, shape, dtype, versioned):
    """A DLPack capsule over a buffer of the library, which frees it without Python."""
    managed = ctypes.c_void_p()
    library.buffer_dlpack(handle, DTYPES[dtype], (ctypes.c_int64 * max(len(shape), 1))(*shape), len(shape), versioned, ctypes.byref(managed))
    destructor = ctypes.cast(library.dlpack_capsule_destructor, ctypes.c_void_p)
    return _api.PyCapsule_New(managed, b"dltensor_versioned" if versioned else b"dltensor", destructor)
