"""The parts of serialization that are Python: cloudpickle, custom serializers, torch, and blame.

The codec itself is Rust (``crates/helio-py/src/codec``); it calls in here only when ``pickle.dumps`` is
not enough. Serializers live in a dispatch table of the runtime's own picklers, never in ``copyreg``: another
pickler, also one that runs inside a ``__getstate__`` while a value is pickled for the runtime, pickles as if
nothing were registered.
"""

from __future__ import annotations

import collections
import copyreg
import functools
import importlib
import io
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from heliostat import _heliostat

T = TypeVar("T")


class _DispatchTable(dict[type, Callable[[Any], Any]]):
    """The reducers of the runtime's own picklers; for all other classes what ``copyreg`` has."""

    __missing__ = copyreg.dispatch_table.__getitem__


_reducers = _DispatchTable()
_register_lock = threading.Lock()


# Modules that our classes say they are from. They are imported only when somebody asks for them, and
# cloudpickle would copy a class whose module is not imported.
_FACES = ("heliostat.actor", "heliostat.exceptions", "heliostat.remote_function")


@functools.cache
def _cloudpickle() -> Any:
    for face in _FACES:
        importlib.import_module(face)
    return importlib.import_module("heliostat.cloudpickle")


def pickle_function(definition: Any) -> bytes:
    """A function or class as bytes; what lives in the script or a notebook goes by value."""
    cloudpickle = _cloudpickle()
    try:
        return bytes(cloudpickle.dumps(definition))
    except (TypeError, pickle.PicklingError) as error:
        kind = "actor class" if isinstance(definition, type) else "function"
        name = f"{definition.__module__}.{definition.__qualname__}"
        raise TypeError(f"Could not serialize the {kind} {name}:\n{_blame(definition)}") from error


def table_dumps(value: Any, keywords: Mapping[str, Any]) -> bytes:
    """Pickle with the C pickler and the runtime's reducers; `keywords` name the callback for buffers."""
    with io.BytesIO() as file:
        pickler = pickle.Pickler(file, 5, **keywords)
        pickler.dispatch_table = _reducers
        pickler.dump(value)
        return file.getvalue()


class _PackagesFirst(pickle.Unpickler):
    """Imports the packages around a module before the module.

    CPython locks a module before it imports the packages around it. If another thread is importing such a
    package, and that import comes to the module, each thread waits for the other's lock. CPython sees that
    and lets one thread go on with half a module: ``numpy`` then raises an ImportError about its C extensions.
    """

    def find_class(self, module: str, name: str, /) -> Any:
        if module not in sys.modules:
            for end in (place for place, letter in enumerate(module) if letter == "."):
                importlib.import_module(module[:end])
        return super().find_class(module, name)


def orderly_loads(pickled: Any, *, buffers: Any = ()) -> Any:
    """Load a pickle, a bytes-like object, in a process whose threads import modules side by side."""
    return _PackagesFirst(io.BytesIO(pickled), buffers=buffers).load()


def cloud_dumps(value: Any, keywords: Mapping[str, Any]) -> bytes:
    """Pickle with cloudpickle and the runtime's reducers; `keywords` as in :func:`table_dumps`."""
    with io.BytesIO() as file:
        _cloud_pickler()(file, protocol=5, **keywords).dump(value)
        return file.getvalue()


@functools.cache
def _cloud_pickler() -> Any:
    base = _cloudpickle().Pickler
    # A class attribute: the C pickler of a subclass looks the table up once, when it is made.
    table = collections.ChainMap(_reducers, base.dispatch_table)
    return type("Pickler", (base,), {"dispatch_table": table})


def unserializable(value: Any, error: BaseException, what: str, name: str) -> BaseException:
    """The exception for a value that cannot be pickled; names the member that is to blame."""
    if not isinstance(error, (TypeError, AttributeError, pickle.PicklingError)):
        return error  # raised by the value's own code: its caller knows best
    described = {
        "put": f"Could not serialize the put value {_short(value)}",
        "argument": f"Could not serialize the argument {_short(value)} for a task or actor {name}",
        "result": f"Could not serialize the result {_short(value)} of {name}",
        "value": f"Could not serialize {_short(value)}",
    }[what]
    made = TypeError(f"{described}:\n{_blame(value)}\n{type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 1000 else text[:1000] + "..."


def _blame(value: Any) -> str:
    from heliostat.core.debug.serializability import inspect_serializability

    said = io.StringIO()
    inspect_serializability(value, print_file=said)
    return said.getvalue()


def register_serializer(
    cls: type[T], *, serializer: Callable[[T], Any], deserializer: Callable[[Any], T]
) -> None:
    """Send objects of exactly this class as what a function makes of them. Holds in this process.

    Args:
        serializer: Takes an object; returns what is pickled instead.
        deserializer: Takes that; returns an object.
        cls: The class. Classes derived from it are not meant.

    Examples:
        >>> import ray.util
        >>> class Door:
        ...     def __init__(self, path):
        ...         self.path, self.file = path, lambda: None
        >>> ray.util.register_serializer(Door, serializer=lambda d: d.path, deserializer=Door)
        >>> ray.get(ray.put(Door("a"))).path
        'a'
        >>> ray.util.deregister_serializer(Door)
    """
    _register(cls, lambda value: (deserializer, (serializer(value),)))


def deregister_serializer(cls: type) -> None:
    """Forget :func:`register_serializer` of that class.

    Args:
        cls: The class. Nothing happens if it has none.

    Examples:
        >>> from ray.util import deregister_serializer, register_serializer
        >>> class Plain:
        ...     pass
        >>> register_serializer(Plain, serializer=lambda p: b"", deserializer=lambda b: Plain())
        >>> deregister_serializer(Plain)
    """
    with _register_lock:
        if _reducers.pop(cls, None) is not None and _is_ndarray(cls):
            _heliostat._use_numpy_fast_path(True)


def _register(cls: type, reduce: Callable[[Any], Any]) -> None:
    with _register_lock:
        _reducers[cls] = reduce
        _heliostat._use_dispatch_table()
        if _is_ndarray(cls):
            _heliostat._use_numpy_fast_path(False)


def _is_ndarray(cls: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and cls is numpy.ndarray


def register_torch() -> bool:
    """Let plain CPU tensors travel as buffers; torch's own way copies them several times.

    Whether it is done: while torch is being imported it has no tensors yet.
    """
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None or not hasattr(torch, "frombuffer"):
        return False
    if tensor not in _reducers:
        _register(tensor, _reduce_tensor)
    return True


def _reduce_tensor(tensor: Any) -> Any:
    import torch

    plain = (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.is_contiguous()
        and not tensor.__dict__
    )
    if not plain:
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    try:
        array = tensor.reshape(-1).view(torch.uint8).numpy()
    except RuntimeError:  # numpy is not installed, without which torch gives no buffers
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    return _load_tensor, (pickle.PickleBuffer(array), tensor.dtype, tuple(tensor.shape))


def _load_tensor(data: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of its own: unlike arrays, tensors have no read-only state, so the bytes are copied.

    Its memory is torch's, which begins at a multiple of 64 bytes and can grow.
    """
    import ctypes

    import torch

    try:
        import numpy
    except ImportError:  # though it was there where the tensor was pickled
        with memoryview(data) as view:
            given = bytearray(view)
        return (
            torch.frombuffer(given, dtype=dtype).reshape(shape)
            if given
            else torch.empty(shape, dtype=dtype)
        )
    made = torch.empty(shape, dtype=dtype)
    if made.nbytes:
        given = numpy.frombuffer(data, numpy.uint8, made.nbytes)
        ctypes.memmove(made.data_ptr(), given.__array_interface__["data"][0], made.nbytes)
    return made
