"""The C interface of libiron.so through ctypes: where it is, what its functions take, how its errors become exceptions."""

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

ABI = 1
FILE = "libiron.so"


class Error(RuntimeError):
    """Anything that Iron refuses or that fails. `code` is stable ("D25"); the text has the place and the remedy."""

    def __init__(self, message, code=""):
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """An argument that is missing, unknown or out of range."""


class NotFound(Error, LookupError):
    """No kernel, device or specialisation field of that name."""


class WrongType(Error, TypeError):
    """An element type that the kernel does not take."""


class Refused(Error, ValueError):
    """A launch that would leave a buffer, overlap an argument, or not fit the device. Nothing ran."""


class Unavailable(Error):
    """The device, its driver or its compiler is not on this machine."""


class OutOfMemory(Error, MemoryError):
    """The device has no memory left for this."""


class CompileFailed(Error):
    """The kernel could not be recorded or compiled."""


class Unsupported(Error):
    """The device lacks what was asked for."""


class DeviceFailed(Error):
    """The device reported an error while running, or the interpreter a finding."""


class InternalError(Error):
    """A fault of Iron's own: please report it."""


_BY_STATUS = {1: InvalidArgument, 2: NotFound, 3: WrongType, 4: Refused, 5: Unavailable, 6: OutOfMemory, 7: CompileFailed,
              8: Unsupported, 9: DeviceFailed, 10: InternalError}


class DeviceInfo(Structure):
    _fields_ = [("size", c_size_t), ("backend", c_char_p), ("name", c_char_p), ("api", c_char_p), ("architecture", c_char_p),
                ("features", c_char_p), ("simd_width", c_uint32), ("units", c_uint32), ("max_threads_per_group", c_uint32),
                ("host_memory", c_uint32), ("shared_bytes", c_uint64), ("memory_bytes", c_uint64), ("cache_bytes", c_uint64)]


class KernelInfo(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("family", c_char_p), ("file", c_char_p), ("doc", c_char_p),
                ("determinism", c_char_p), ("shapes", c_char_p), ("dtype", c_int), ("parameters", c_uint32), ("has_grid", c_uint32),
                ("needs", c_char_p)]


class Parameter(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("kind", c_int), ("dtype", c_int), ("optional", c_uint32), ("tensor", c_uint32)]


class Argument(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("dtype", c_int), ("data", c_void_p), ("bytes", c_uint64),
                ("integer", c_int64), ("real", c_double), ("rank", c_uint32), ("dims", POINTER(c_uint64)), ("strides", POINTER(c_uint64))]


class LaunchOptions(Structure):
    _fields_ = [("size", c_size_t), ("groups", c_uint32 * 3), ("threads", c_uint32 * 3), ("items", c_uint64),
                ("stream", c_void_p), ("overlap", c_uint32)]


BUFFER, INTEGER, REAL = range(3)
IN, OUT, INOUT, SCALAR = range(4)

# What a function returns and takes; `Status` marks those whose result is checked.
Status = object()
_FUNCTIONS = {
    "iron_abi_version": (c_uint32, []),
    "iron_version": (c_char_p, []),
    "iron_last_error": (c_char_p, []),
    "iron_last_error_code": (c_char_p, []),
    "iron_dtype_name": (c_char_p, [c_int]),
    "iron_dtype_from_name": (c_int, [c_char_p]),
    "iron_dtype_size": (c_size_t, [c_int]),
    "iron_backend_count": (c_size_t, []),
    "iron_backend_name": (c_char_p, [c_size_t]),
    "iron_device_open": (Status, [c_char_p, POINTER(c_void_p)]),
    "iron_device_close": (None, [c_void_p]),
    "iron_device_describe": (Status, [c_void_p, POINTER(DeviceInfo)]),
    "iron_device_synchronize": (Status, [c_void_p]),
    "iron_buffer_create": (Status, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "iron_buffer_destroy": (None, [c_void_p]),
    "iron_buffer_data": (c_void_p, [c_void_p]),
    "iron_buffer_bytes": (c_uint64, [c_void_p]),
    "iron_buffer_upload": (Status, [c_void_p, c_uint64, c_void_p, c_uint64]),
    "iron_buffer_download": (Status, [c_void_p, c_uint64, c_void_p, c_uint64]),
    "iron_buffer_fill": (Status, [c_void_p, c_uint8]),
    "iron_buffer_dlpack": (Status, [c_void_p, c_int, POINTER(c_int64), c_size_t, c_int, POINTER(c_void_p)]),
    "iron_dlpack_capsule_destructor": (None, [c_void_p]),
    "iron_library_count": (c_size_t, []),
    "iron_library_entry": (Status, [c_size_t, POINTER(KernelInfo)]),
    "iron_kernel_create": (Status, [c_void_p, c_char_p, c_int, c_char_p, POINTER(c_void_p)]),
    "iron_kernel_destroy": (None, [c_void_p]),
    "iron_kernel_describe": (Status, [c_void_p, POINTER(KernelInfo)]),
    "iron_kernel_specialisation": (c_char_p, [c_void_p]),
    "iron_kernel_member": (c_char_p, [c_void_p]),
    "iron_kernel_parameter": (Status, [c_void_p, c_size_t, POINTER(Parameter)]),
    "iron_kernel_grid": (Status, [c_void_p, POINTER(Argument), c_size_t, POINTER(LaunchOptions)]),
    "iron_kernel_compile": (Status, [c_void_p, POINTER(Argument), c_size_t, POINTER(LaunchOptions)]),
    "iron_stream_create": (Status, [c_void_p, POINTER(c_void_p)]),
    "iron_stream_wrap": (Status, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "iron_stream_destroy": (None, [c_void_p]),
    "iron_stream_synchronize": (Status, [c_void_p]),
    "iron_launch": (Status, [c_void_p, POINTER(Argument), c_size_t, POINTER(LaunchOptions)]),
}


def find():
    """The path of libiron.so: what IRON_LIBRARY names, else the file beside this package, else the newest one of a build
    tree around it. Raises ImportError that says where it looked."""
    if named := os.environ.get("IRON_LIBRARY"):
        path = Path(named)
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise ImportError(f"IRON_LIBRARY names {path}, which is not there: name {FILE} or the folder that holds it")
        return path
    package = Path(__file__).resolve().parent
    if (package / FILE).is_file():
        return package / FILE
    root = package.parent.parent
    built = sorted(root.glob(f"build/*/src/capi/{FILE}"), key=lambda path: path.stat().st_mtime)
    if built:
        return built[-1]
    raise ImportError(f"{FILE} is not here: looked beside the package ({package}) and in {root}/build/*/src/capi/. Build it "
                      "(cmake --build build/dev --target iron_c), or name it in IRON_LIBRARY")


class Library:
    """The functions of one libiron.so, without their prefix: `library.device_open(...)`. Functions that return a status
    raise the exception for it instead."""

    def __init__(self, path):
        self.path = Path(path)
        try:
            self._dll = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"{path} cannot be loaded: {error}") from None
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._dll, name)
            except AttributeError:
                raise ImportError(f"{path} lacks {name}: it is older than this package, build it again") from None
            function.argtypes = arguments
            if result is Status:
                function.restype, function.errcheck = c_int, self._check
            else:
                function.restype = result
            setattr(self, name.removeprefix("iron_"), function)
        if (abi := self.abi_version()) != ABI:
            raise ImportError(f"{path} has version {abi} of the C interface, this package speaks {ABI}: update one of them")

    def _check(self, status, _function, _arguments):
        if status:
            raise _BY_STATUS.get(status, InternalError)(self.last_error().decode(errors="replace"), self.last_error_code().decode())
        return status


library = Library(find())

DTYPES = {library.dtype_name(value).decode(): value for value in range(1, 14)}
DTYPE_NAMES = {value: name for name, value in DTYPES.items()}
DTYPE_SIZES = {name: library.dtype_size(value) for name, value in DTYPES.items()}


def text(raw):
    return raw.decode() if raw else ""


def made(function, *arguments):
    """The handle that a *_create or *_open function leaves in its last argument."""
    handle = c_void_p()
    function(*arguments, byref(handle))
    return handle
