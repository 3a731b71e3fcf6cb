"""Kernels of the library, called with arrays."""

import numbers
import sys
import weakref
from ctypes import byref, c_uint32, c_uint64, sizeof

from . import _library
from ._arrays import View, view_of
from ._device import Array, Stream
from ._library import BUFFER, DTYPE_NAMES, DTYPES, IN, INTEGER, OUT, REAL, SCALAR, InvalidArgument, WrongType, library, made, text
from ._shapes import parse, solve

_KINDS = {IN: "in", OUT: "out", _library.INOUT: "inout", SCALAR: "scalar"}


class Parameter:
    """One parameter of a kernel: `name`, `kind` ("in", "out", "inout", "scalar"), `dtype`, `optional`, `tensor`."""

    __slots__ = ("name", "kind", "dtype", "optional", "tensor", "raw_name")

    def __init__(self, raw):
        self.raw_name = bytes(raw.name)
        self.name, self.kind, self.dtype, self.optional = self.raw_name.decode(), _KINDS[raw.kind], DTYPE_NAMES[raw.dtype], bool(raw.optional)
        self.tensor = bool(raw.tensor)

    def __repr__(self):
        return f"{self.name}: {self.kind} {self.dtype}"


class KernelInfo:
    """An entry of the library: `name`, `family`, `dtype`, `file`, `doc`, `determinism`, `shapes`, `needs`
    (the capability without which a device refuses it)."""

    __slots__ = ("name", "family", "dtype", "file", "doc", "determinism", "shapes", "needs")

    def __init__(self, raw):
        self.name, self.family, self.file, self.doc = text(raw.name), text(raw.family), text(raw.file), text(raw.doc)
        self.determinism, self.shapes, self.dtype = text(raw.determinism), text(raw.shapes), DTYPE_NAMES[raw.dtype]
        self.needs = text(raw.needs)

    def __repr__(self):
        return f"<{self.name} {self.dtype}: {self.doc}>"


class _Handle:
    """A kernel made for one device and one specialisation."""

    def __init__(self, device, name, dtype, specialisation):
        self.device = device
        self.raw = made(library.kernel_create, device.handle, name.encode(), DTYPES[dtype], specialisation.encode() or None)
        weakref.finalize(self, library.kernel_destroy, self.raw)
        info = _library.KernelInfo(size=sizeof(_library.KernelInfo))
        library.kernel_describe(self.raw, byref(info))
        self.info = KernelInfo(info)
        self.parameters = []
        for index in range(info.parameters):
            parameter = _library.Parameter(size=sizeof(_library.Parameter))
            library.kernel_parameter(self.raw, index, byref(parameter))
            self.parameters.append(Parameter(parameter))
        self.by_name = {p.name: p for p in self.parameters}
        self.buffers = [p for p in self.parameters if p.kind != "scalar"]
        self.shapes = parse(self.info.shapes)
        self.specialisation = text(library.kernel_specialisation(self.raw))


def _torch_stream(view):
    """The stream that torch works on now, for memory of a GPU in a program that uses torch."""
    torch = sys.modules.get("torch")
    if torch is None or view.device[0] != "cuda":
        return None
    return torch.cuda.current_stream(view.device[1]).cuda_stream


class Kernel:
    """A kernel of the library for one element type. Call it with arrays, inputs and outputs alike:

        softmax = iron.kernel("softmax", "f32")
        softmax(x, out)                     # buffers by position, in the order of `parameters`
        softmax(x=x, y=out, n=1024)         # or by name; scalars by name

    Scalars that follow from shapes (`shapes`) may be left out. Nothing is copied: arrays are contiguous and where the
    kernel runs. Host arrays run on iron.device()'s default, arrays of a GPU on that GPU, on the stream that torch works
    on now. Optional buffers are given or left out.

    `gemm` without specialisation stands for its family: on a GPU a launch goes to the member that fits device, shape and
    alignment, unless it states a grid. `member` then says which one took the last launch and why; None for other kernels.

    Raises iron.WrongType (element types), iron.InvalidArgument (names, shapes, missing arguments, read-only outputs),
    iron.Refused (accesses outside a buffer, overlap), iron.CompileFailed, iron.DeviceFailed.
    """

    def __init__(self, name, dtype, device, specialisation, open_device):
        if dtype not in DTYPES:
            raise WrongType(f"there is no element type '{dtype}': one of {', '.join(DTYPES)}")
        self._name, self._dtype, self._device, self._open_device = name, dtype, device, open_device
        self._specialisation = dict(specialisation)
        self._handles = {}
        self.member = None
        first = self._handle(device or open_device(None), ())  # a wrong name or field shows now
        self.name, self.family, self.dtype = first.info.name, first.info.family, first.info.dtype
        self.doc, self.shapes, self.determinism, self.file = first.info.doc, first.info.shapes, first.info.determinism, first.info.file
        self.parameters, self.specialisation = tuple(first.parameters), first.specialisation
        self.__doc__ = f"{self.doc}\n\n{self._signature(first)}\nShapes: {self.shapes or 'as the text says'}"

    def __repr__(self):
        return f"<iron.Kernel {self._signature(self._handle(self._device or self._open_device(None), ()))}>"

    def _signature(self, handle):
        return f"{self.name}[{self.dtype}]({', '.join(map(repr, handle.parameters))})"

    def _handle(self, device, present):
        key = (id(device), present)
        if key not in self._handles:
            fields = self._specialisation | {name: "present" for name in present}
            spec = ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in fields.items())
            self._handles[key] = _Handle(device, self._name, self._dtype, spec)
        return self._handles[key]

    def _place(self, views):
        """The device for these arrays."""
        places = {view.device for view in views.values()}
        if len(places) > 1:
            where = ", ".join(f"{name} on {view.device[0]}" for name, view in views.items())
            raise InvalidArgument(f"the arrays of {self.name} are on different devices: {where}")
        where, ordinal = next(iter(places), ("host", 0))
        if self._device is None:
            return self._open_device(None if where == "host" else f"cuda:{ordinal}" if ordinal else "cuda")
        if self._device.host_memory != (where == "host"):
            raise InvalidArgument(f"the arrays of {self.name} are on {'the host' if where == 'host' else 'a GPU'}, the kernel is for "
                                  f"{self._device.backend}")
        return self._device

    def __call__(self, *buffers, groups=None, threads=None, items=0, stream=None, **named):
        views, scalars = {}, {}
        positional = [p.name for p in self.parameters if p.kind != "scalar"]
        if len(buffers) > len(positional):
            raise InvalidArgument(f"{self.name} takes {len(positional)} buffers by position ({', '.join(positional)}), not {len(buffers)}; "
                                  "scalars go by name", "D18")
        for name, array in zip(positional, buffers):
            if name in named:
                raise InvalidArgument(f"argument {name} of {self.name} is given twice", "D18")
            views[name] = self._view(array, name)
        for name, value in named.items():
            if isinstance(value, numbers.Number):  # numpy's scalars are numbers too
                scalars[name] = value
            elif value is not None:
                views[name] = self._view(value, name)
        device = self._place(views)
        handle = self._handle(device, ())
        if extra := tuple(sorted(name for name in views if name not in handle.by_name)):
            handle = self._with_optional(device, extra)
        self._check(handle, views)
        self._fill_scalars(handle, views, scalars)
        options = None
        if groups or threads or items:
            options = _library.LaunchOptions(size=sizeof(_library.LaunchOptions), items=items)
            for field, value in (("groups", groups), ("threads", threads)):
                value = (value,) if isinstance(value, int) else tuple(value or ())
                setattr(options, field, (c_uint32 * 3)(*(value + (1, 1, 1))[:3]))
        stream = self._stream(device, views, stream)
        if stream is not None:
            options = options or _library.LaunchOptions(size=sizeof(_library.LaunchOptions))
            options.stream = stream.handle
        self._launch(handle, views, scalars, options)
        self.member = text(library.kernel_member(handle.raw)) or None
        device.launched(list(views.values()))

    def _stream(self, device, views, stream):
        """The stream to launch on: the one that is named, else the one of the arrays' library, else (None) the device's."""
        if stream is None:
            for view in views.values():
                stream = view.stream if view.stream is not None else _torch_stream(view)
                if stream is not None:
                    break
        if stream is None or isinstance(stream, Stream):
            return stream
        native = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))  # torch, cupy, a number
        if not isinstance(native, int):
            raise WrongType(f"stream is a {type(stream).__name__}: give an iron.Stream, a stream of torch or cupy, or its number")
        for view in views.values():
            if isinstance(view.keep, Array):
                view.keep.used_elsewhere()
        return device.wrap_stream(native)

    def _view(self, array, name):
        if isinstance(array, Array):
            place = ("host", 0) if array.device.host_memory else ("cuda", array.device.ordinal)
            return View(array.pointer, array.shape, array.dtype, place, True, array)
        return view_of(array, f"{name} of {self.name}")

    def _with_optional(self, device, names):
        """The specialisation that has these optional buffers."""
        try:
            return self._handle(device, names)
        except _library.Error:
            known = ", ".join(p.name for p in self.parameters)
            raise InvalidArgument(f"{self.name} has no parameter '{names[0]}': it has {known}", "D18") from None

    def _check(self, handle, views):
        for name, view in views.items():
            parameter = handle.by_name[name]
            if parameter.kind == "scalar":
                raise WrongType(f"{name} of {self.name} is a scalar, not an array", "C12")
            if view.dtype != parameter.dtype:
                raise WrongType(f"{name} of {self.name} holds {parameter.dtype}, not {view.dtype}: convert it, or take the kernel for its "
                                "type; iron.view() shows bits as another type", "D25")
            if parameter.kind != "in" and not view.writable:
                raise InvalidArgument(f"{name} of {self.name} is written, and the array is read-only")

    def _fill_scalars(self, handle, views, scalars):
        given = {name: int(value) for name, value in scalars.items() if isinstance(value, numbers.Integral)}
        sizes = solve(self.name, handle.shapes, {name: view.shape for name, view in views.items()}, given)
        for parameter in handle.parameters:
            if parameter.kind == "scalar" and parameter.name not in scalars and parameter.name in sizes:
                scalars[parameter.name] = sizes[parameter.name]

    def _launch(self, handle, views, scalars, options):
        arguments = (_library.Argument * (len(views) + len(scalars)))()
        at = 0
        for name, view in views.items():
            a = arguments[at]
            a.name, a.kind, a.dtype, a.data, a.bytes = handle.by_name[name].raw_name, BUFFER, DTYPES[view.dtype], view.pointer, view.bytes
            if handle.by_name[name].tensor:
                a.rank, a.dims = len(view.shape), (c_uint64 * len(view.shape))(*reversed(view.shape))
            at += 1
        for name, value in scalars.items():
            a = arguments[at]
            parameter = handle.by_name.get(name)
            a.name = parameter.raw_name if parameter else name.encode()
            if not isinstance(value, numbers.Integral):
                a.kind, a.real = REAL, float(value)
            else:
                whole = int(value)
                if not -(2**63) <= whole < 2**63:
                    raise InvalidArgument(f"scalar {name} of {self.name} is {whole}, which {parameter.dtype if parameter else 'no type'} cannot hold")
                a.kind, a.integer = INTEGER, whole
            at += 1
        library.launch(handle.raw, arguments, at, byref(options) if options else None)
