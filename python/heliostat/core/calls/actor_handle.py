"""Handles to actors, and the description of a class that a handle carries with it.

A handle's class is made from an :class:`Interface`, which is plain data: so a handle that arrives in
another process can be used there without the actor's class being known.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from heliostat import _heliostat
from heliostat.core.calls import signature
from heliostat.core.calls.options import METHOD, OptionsCache, check_method_options
from heliostat.core.calls.remote_function import warn_of_dynamic

if TYPE_CHECKING:
    from heliostat.core.calls.graph import ClassMethodNode


Given = tuple[tuple[str, Any], ...]
"""Options as they were given: (keyword, value) of each."""

# Options of the actor that its calls take over.
OF_CALLS = (
    "max_task_retries",
    "max_pending_calls",
    "max_concurrency",
    "allow_out_of_order_execution",
    "enable_task_events",
    "_actor_generator_backpressure_num_objects",
)


class Method(NamedTuple):
    """A method of an actor, as callers see it."""

    name: str
    parameters: signature.Parameters | None
    is_generator: bool = False
    options: Given = ()


class Interface(NamedTuple):
    """The facts of an actor's class and of the actor's options that callers need."""

    class_name: str
    methods: tuple[Method, ...]
    options: Given = ()
    is_async: bool = False

    def settled(self) -> _heliostat.ActorOptions:
        """The options that calls take from the actor, each given or by default."""
        return _heliostat.ActorOptions(dict(self.options), self.is_async)


class ActorHandle(_heliostat.ActorHandleBase):
    """A reference to an actor: ``handle.method.remote(...)`` calls it.

    Handles are equal when they name the same actor. They can be sent anywhere.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Log:
        ...     def __init__(self):
        ...         self.lines = []
        ...     def write(self, line):
        ...         self.lines.append(line)
        ...     def read(self):
        ...         return self.lines
        >>> @ray.remote
        ... def work(log):
        ...     ray.get(log.write.remote("done"))
        >>> log = Log.remote()
        >>> ray.get(work.remote(log))
        >>> ray.get(log.read.remote())
        ['done']
    """

    @classmethod
    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    _interface: Interface = Interface("", ())
    _special: dict[str, _heliostat.MethodSlot] = {}  # noqa: RUF012 - made by `handle_class`
    _epoch: int = 0

    def __repr__(self) -> str:
        return f"Actor({self._interface.class_name}, {self._actor_id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._actor_id, self._ref, self._interface)

    def __getattr__(self, name: str) -> Any:
        slot = type(self)._special.get(name)
        if slot is None:
            # A traceback says which method was meant: it compares the name with `dir` of the object.
            raise AttributeError(
                f"'ActorHandle' object has no attribute '{name}'", name=name, obj=self
            )
        return slot.bound(self)

    def __dir__(self) -> list[str]:
        return sorted([method.name for method in self._interface.methods] + list(BUILT_IN))

    @property
    def _ray_actor_id(self) -> _heliostat.ActorID:
        return self._actor_id


# Methods that every actor has.
BUILT_IN = {
    name: Method(name, None) for name in ("__ray_ready__", "__ray_call__", "__ray_terminate__")
}


def make_handle(
    interface: Interface, actor_id: _heliostat.ActorID, ref: _heliostat.ObjectRef | None
) -> ActorHandle:
    """Make a handle of the present session; without ``ref`` it does not keep the actor alive."""
    handle = handle_class(interface)(actor_id, ref)
    handle._epoch = _heliostat.session_epoch()
    return handle


def _arrived(
    actor_id: _heliostat.ActorID, ref: _heliostat.ObjectRef | None, interface: Interface
) -> ActorHandle:
    if _heliostat.is_connected():
        _heliostat.know_actor(actor_id, ref)
    return make_handle(interface, actor_id, ref)


@functools.lru_cache(maxsize=1024)
def handle_class(interface: Interface) -> type[ActorHandle]:
    """The class of handles with that interface: one slot a method.

    Special methods (``__len__``) are found by name only: on the class they would change what the
    handle itself is.
    """
    methods = {**BUILT_IN, **{method.name: method for method in interface.methods}}
    actor = interface.settled()
    slots = {name: make_slot(interface, actor, method) for name, method in methods.items()}
    plain = {n: s for n, s in slots.items() if n in BUILT_IN or not _is_special(n)}
    body = {
        **plain,
        "__module__": __name__,
        "_interface": interface,
        "_special": {n: s for n, s in slots.items() if n not in plain},
    }
    return type("ActorHandle", (ActorHandle,), body)


def _is_special(name: str) -> bool:
    return (name.startswith("__") and name.endswith("__")) or hasattr(ActorHandle, name)


def make_slot(
    interface: Interface, actor: _heliostat.ActorOptions, method: Method
) -> _heliostat.MethodSlot:
    """Return the slot from which calls of that method are made."""
    optioned: OptionsCache[_heliostat.MethodSlot] = OptionsCache()

    def on_options(bound: _heliostat.ActorMethod, **options: Any) -> _heliostat.ActorMethod:
        def make() -> _heliostat.MethodSlot:
            return make_slot(interface, actor, _with_options(method, options))

        return optioned.find(options, make).bound(bound.handle)

    def on_reduce(bound: _heliostat.ActorMethod) -> tuple[Any, ...]:
        return _method_arrived, (bound.handle, interface, method)

    return _heliostat.MethodSlot(
        method.name,
        f"{interface.class_name}.{method.name}",
        _heliostat.MethodOptions(dict(method.options), actor, method.is_generator),
        signature.checker(method.parameters, f"{interface.class_name}.{method.name}"),
        *signature.bounds(method.parameters),
        on_options,
        _node,
        on_reduce,
    )


def _method_arrived(
    handle: ActorHandle, interface: Interface, method: Method
) -> _heliostat.ActorMethod:
    return make_slot(interface, interface.settled(), method).bound(handle)


def _node(
    bound: _heliostat.ActorMethod, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ClassMethodNode:
    from heliostat.core.calls.graph import ClassMethodNode

    return ClassMethodNode(bound, args, kwargs)


def _with_options(method: Method, options: dict[str, Any]) -> Method:
    name = options.pop("name", None)
    unknown = options.keys() - METHOD.keys()
    if unknown:
        raise ValueError(
            f"Invalid option keyword {sorted(unknown)[0]} for actor methods. "
            f"Valid ones are {['name', *METHOD]}."
        )
    check_method_options(options)
    before = dict(method.options)
    check_method_returns(options.get("num_returns", before.get("num_returns")), method.is_generator)
    given = from_options({**options, "name": name or None})
    return method._replace(options=tuple({**before, **dict(given)}.items()))


def from_options(options: dict[str, Any]) -> Given:
    """The options of a :class:`Method`: with ``None`` a method keeps what it has."""
    if options.get("tensor_transport") not in (None, "object_store", "OBJECT_STORE"):
        raise NotImplementedError("tensor_transport: tensors go through the object store only")
    return tuple(
        (keyword, tuple(value) if isinstance(value, list) else value)
        for keyword, value in options.items()
        if value is not None
    )


def check_method_returns(number: int | str | None, is_generator: bool) -> None:
    """Refuse a number of returns that the method cannot have."""
    if isinstance(number, int) and number < 0:
        raise ValueError(f"num_returns must be >= 0, but got {number}.")
    if isinstance(number, str):
        if number not in ("streaming", "dynamic"):
            raise ValueError(
                f"num_returns must be a number, 'streaming' or 'dynamic', not {number!r}"
            )
        if number == "dynamic":
            warn_of_dynamic()
        if not is_generator:
            raise ValueError(
                f"num_returns='{number}' can only be used with generator methods (methods that use "
                "'yield'). The method is not a generator."
            )
