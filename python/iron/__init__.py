"""Iron's kernels from Python: arrays in and out without copies.

    import iron, numpy
    x = numpy.random.default_rng(0).normal(size=(4, 1000)).astype("float32")
    y = numpy.empty_like(x)
    iron.kernel("softmax", "f32")(x, y)

iron.kernels() lists what there is; help(iron.kernel("softmax", "f32")) shows one kernel's parameters and shapes. The
package is pure Python over libiron.so, which it takes from IRON_LIBRARY, from its own folder or from a build tree.
"""

import threading
from ctypes import byref, sizeof

from . import _library
from ._arrays import TypedView
from ._device import Array, Device, Stream
from ._kernel import Kernel, KernelInfo, Parameter
from ._library import (CompileFailed, DeviceFailed, Error, InternalError, InvalidArgument, NotFound, OutOfMemory, Refused, Unavailable,
                       Unsupported, WrongType)

__all__ = ["Array", "CompileFailed", "Device", "DeviceFailed", "Error", "InternalError", "InvalidArgument", "Kernel", "KernelInfo",
           "NotFound", "OutOfMemory", "Parameter", "Refused", "Stream", "Unavailable", "Unsupported", "WrongType", "array", "backends", "device",
           "dtypes", "empty", "kernel", "kernels", "library_path", "set_device", "synchronize", "version", "view"]

_devices = {}
_lock = threading.Lock()
_default = None


def version():
    """The version of libiron.so, such as "0.1.0"."""
    return _library.text(_library.library.version())


def library_path():
    """The path of the libiron.so that is loaded."""
    return str(_library.library.path)


def dtypes():
    """Names of the element types: "f32", "bf16", "u8", ..."""
    return tuple(_library.DTYPES)


def backends():
    """Names of the devices that this library was built for, whether or not they can start here."""
    return tuple(_library.text(_library.library.backend_name(i)) for i in range(_library.library.backend_count()))


def device(name=None):
    """The device of that name: "cpu", "cuda", "cuda:1", "interpreter". Without a name the default: what set_device() said,
    else the CPU, else (in a library without its compiler) the interpreter. Raises iron.Unavailable with the reason."""
    if name is None:
        name = _default or ("cpu" if "cpu" in backends() else "interpreter")
    if isinstance(name, Device):
        return name
    with _lock:
        if name not in _devices:
            _devices[name] = Device(name)
        return _devices[name]


def set_device(name):
    """Makes a device the default for host arrays and for empty() and array(). None: back to the usual one."""
    global _default
    if name is not None:
        device(name)
    _default = name


def synchronize():
    """Waits for everything launched on the devices opened so far."""
    for opened in list(_devices.values()):
        opened.synchronize()


def kernels(family=None, dtype=None):
    """The library's kernels, one KernelInfo a kernel and element type; of one family or element type if named."""
    found = []
    for index in range(_library.library.library_count()):
        raw = _library.KernelInfo(size=sizeof(_library.KernelInfo))
        _library.library.library_entry(index, byref(raw))
        info = KernelInfo(raw)
        if family in (None, info.family) and dtype in (None, info.dtype):
            found.append(info)
    return found


def kernel(name, dtype, device=None, **specialisation):
    """The kernel of that name for an element type: iron.kernel("softmax", "f32"). `device` binds it to one device; else it
    runs where its arrays are. Other names set specialisation fields. Raises iron.NotFound, which names kernels near it, and
    iron.WrongType, which names the element types it has."""
    return Kernel(name, dtype, _open(device) if device is not None else None, specialisation, _open)


def _open(name):
    return device(name)


def empty(shape, dtype, device=None):
    """An iron.Array in a device's memory; its contents are undefined."""
    return _open(device).empty(shape, dtype)


def array(values, device=None):
    """An iron.Array with a copy of a host array."""
    return _open(device).array(values)


def view(array, dtype):
    """The same memory as elements of another type of equal size: iron.view(bits, "bf16") for a numpy array of uint16."""
    return TypedView(array, dtype)
