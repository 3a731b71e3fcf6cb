"""Devices, and arrays in their memory."""

import contextlib
import math
import weakref
from ctypes import byref, sizeof

from . import _library
from ._arrays import CPU, CUDA, to_dlpack, view_of
from ._library import DTYPE_SIZES, InvalidArgument, WrongType, library, made, text

_TYPESTR = {"bool": "|b1", "i8": "|i1", "u8": "|u1", "f16": "<f2", "f32": "<f4", "f64": "<f8"}
_TYPESTR |= {f"{letter}{bits}": f"<{letter}{bits // 8}" for letter in "iu" for bits in (16, 32, 64)}


class Stream:
    """Work in order, beside that of the device and of other streams: `kernel(x, out, stream=s)`. Make it with
    Device.stream(); Device.wrap_stream() gives one over a stream of another library."""

    def __init__(self, device, handle):
        self.device, self.handle = device, handle
        weakref.finalize(self, library.stream_destroy, handle)

    def synchronize(self):
        """Waits for the work enqueued so far."""
        library.stream_synchronize(self.handle)


class Device:
    """One device. Get it with iron.device(). Launches run in order; on a GPU they return before the work is done."""

    def __init__(self, name):
        self.handle = made(library.device_open, name.encode())
        weakref.finalize(self, library.device_close, self.handle)
        info = _library.DeviceInfo(size=sizeof(_library.DeviceInfo))
        library.device_describe(self.handle, byref(info))
        self.backend, self.name = text(info.backend), text(info.name)
        self.api, self.architecture = text(info.api), text(info.architecture)
        self.features = tuple(text(info.features).split())
        self.simd_width, self.units, self.max_threads_per_group = info.simd_width, info.units, info.max_threads_per_group
        self.shared_bytes, self.memory_bytes, self.cache_bytes = info.shared_bytes, info.memory_bytes, info.cache_bytes
        self.host_memory = bool(info.host_memory)
        self.ordinal = int(name.partition(":")[2] or 0)
        self._waiting = None  # arrays of the launches of a batch
        self._wrapped = {}

    def __repr__(self):
        return f"<iron.Device {self.backend}: {self.name}>"

    def synchronize(self):
        """Waits until everything launched on the device is done."""
        library.device_synchronize(self.handle)

    def synchronize_all(self):
        """Waits for the device's work and for that of every wrapped stream."""
        self.synchronize()
        for wrapped in list(self._wrapped.values()):
            wrapped.synchronize()

    def stream(self):
        """A new stream, which sees what was enqueued on the device before its first work."""
        return Stream(self, made(library.stream_create, self.handle))

    def wrap_stream(self, native):
        """The stream of another library by its number (torch: `stream.cuda_stream`, cupy: `stream.ptr`). It outlives the
        work put on it. Raises iron.Unsupported on devices without such streams."""
        if native not in self._wrapped:
            self._wrapped[native] = Stream(self, made(library.stream_wrap, self.handle, native))
        return self._wrapped[native]

    @contextlib.contextmanager
    def batch(self):
        """Launches inside run together at the end (CPU): for many short kernels. Results are there when it ends."""
        if self._waiting is not None:
            raise InvalidArgument("a batch of this device is open already")
        self._waiting = []
        try:
            yield self
        finally:
            try:
                self.synchronize()
            finally:
                self._waiting = None

    def launched(self, views):
        """After a launch: host memory is ready for its owner again, or stays alive until the batch ends."""
        if self._waiting is not None:
            self._waiting.append(views)
        elif self.host_memory:
            self.synchronize()

    def empty(self, shape, dtype):
        """An array of the device. Its contents are undefined."""
        return Array(self, (shape,) if isinstance(shape, int) else shape, dtype)

    def array(self, values):
        """An array of the device with a copy of `values`, a contiguous host array."""
        view = view_of(values, "the values")
        if view.device[0] != "host":
            raise InvalidArgument("the values are on a GPU already: pass them to kernels as they are")
        made_array = Array(self, view.shape, view.dtype)
        made_array.upload(values)
        return made_array


def _free(handle, elsewhere):
    if elsewhere:  # the library orders its own streams only
        elsewhere[0].synchronize_all()
    library.buffer_destroy(handle)


class Array:
    """Memory of a device with a shape: contiguous, freed with the object. numpy.asarray(a) (host), torch.from_dlpack(a) and
    cupy.asarray(a) see it without a copy and keep it alive."""

    def __init__(self, device, shape, dtype):
        if dtype not in DTYPE_SIZES:
            raise WrongType(f"there is no element type '{dtype}': one of {', '.join(DTYPE_SIZES)}")
        self.device, self.shape, self.dtype = device, tuple(int(extent) for extent in shape), dtype
        if any(extent < 0 for extent in self.shape):
            raise InvalidArgument(f"the shape {self.shape} has a negative size")
        self.size = math.prod(self.shape)
        self.nbytes = self.size * DTYPE_SIZES[dtype]
        self.handle = made(library.buffer_create, device.handle, self.nbytes)
        self._elsewhere = []  # holds the device once work on a stream of another library may use the memory
        weakref.finalize(self, _free, self.handle, self._elsewhere)
        self.pointer = library.buffer_data(self.handle)

    def __repr__(self):
        return f"<iron.Array {list(self.shape)} {self.dtype} on {self.device.backend}>"

    def used_elsewhere(self):
        """Work on a stream of another library uses it: its memory is given back after that stream's work."""
        if not self._elsewhere:
            self._elsewhere.append(self.device)

    def upload(self, values):
        """Copies a contiguous host array of the same type and number of elements into it."""
        view = view_of(values, "the values")
        self._same(view, "uploaded from")
        library.buffer_upload(self.handle, 0, view.pointer, view.bytes)

    def download(self, to):
        """Copies it into a contiguous, writable host array of the same type and number of elements; waits for launches."""
        view = view_of(to, "the target")
        self._same(view, "downloaded into")
        if not view.writable:
            raise InvalidArgument("the target is read-only")
        library.buffer_download(self.handle, 0, view.pointer, view.bytes)

    def numpy(self):
        """A numpy array with a copy of it. bf16 has no numpy type: it comes as u16."""
        import numpy

        out = numpy.empty(self.shape, numpy.dtype(_TYPESTR["u16" if self.dtype == "bf16" else self.dtype]))
        library.buffer_download(self.handle, 0, out.ctypes.data, self.nbytes)
        return out

    def _same(self, view, what):
        if view.device[0] != "host":
            raise InvalidArgument(f"an array cannot be {what} GPU memory")
        if view.dtype != self.dtype or view.bytes != self.nbytes:
            raise WrongType(f"an array of {self.size} {self.dtype} cannot be {what} {math.prod(view.shape)} {view.dtype}")

    def _interface(self):
        if self.dtype not in _TYPESTR:
            raise AttributeError(f"{self.dtype} has no numpy type: use DLPack")
        return {"shape": self.shape, "typestr": _TYPESTR[self.dtype], "data": (self.pointer, False), "strides": None, "version": 3}

    @property
    def __array_interface__(self):
        if not self.device.host_memory:
            raise AttributeError("the memory is on a GPU: use numpy() or __cuda_array_interface__")
        return self._interface()

    @property
    def __cuda_array_interface__(self):
        if self.device.host_memory:
            raise AttributeError("the memory is on the host")
        self.device.synchronize()
        return self._interface() | {"stream": None}  # all work on it is done

    def __dlpack_device__(self):
        return (CPU, 0) if self.device.host_memory else (CUDA, self.device.ordinal)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("an iron.Array is seen where it is: no copies")
        self.device.synchronize()
        return to_dlpack(self.handle, self.shape, self.dtype, max_version is not None and max_version[0] >= 1)
