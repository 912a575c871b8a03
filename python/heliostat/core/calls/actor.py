"""``@remote`` classes: actors."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from heliostat import _heliostat
from heliostat.core import session
from heliostat.core.calls import scheduling, signature
from heliostat.core.calls.actor_handle import (
    BUILT_IN,
    OF_CALLS,
    ActorHandle,
    Interface,
    Method,
    check_method_returns,
    from_options,
    make_handle,
)
from heliostat.core.calls.options import check_actor_options, check_gpus, check_method_options
from heliostat.core.calls.remote_function import checked_pickle, inherited_env, module_name
from heliostat.core.errors import ActorHandleNotFoundError
from heliostat.core.platform import preload

if TYPE_CHECKING:
    from heliostat.core.calls.actor_metadata import ActorClassMetadata
    from heliostat.core.calls.graph import ClassNode
    from heliostat.core.native_types import ActorPlan

T = TypeVar("T")

_METHOD_OPTIONS = "_heliostat_method_options"


class ActorClassInheritanceException(TypeError):
    """An actor class was used as a base class.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Base:
        ...     pass
        >>> try:
        ...     class Derived(Base):
        ...         pass
        ... except ray.actor.ActorClassInheritanceException:
        ...     print("derive from the undecorated class")
        derive from the undecorated class
    """


@dataclasses.dataclass(frozen=True)
class _Definition:
    """The user's class and what is derived from it once, whatever the options."""

    cls: type
    methods: tuple[Method, ...]
    constructor: signature.Parameters | None
    is_async: bool
    concurrency_groups: dict[str, int]

    @functools.cached_property
    def data(self) -> _heliostat.Definition:
        """The pickled class, made at the first creation."""
        name = f"{self.cls.__module__}.{self.cls.__qualname__}"
        return checked_pickle(self.cls, "actor class", name)

    @functools.cached_property
    def module(self) -> str:
        """The name of the class's module, as people know it."""
        return module_name(self.cls)

    @functools.cached_property
    def modules(self) -> list[str]:
        """Return the modules that its worker is to have loaded."""
        return preload.mentioned(self.cls)


class ActorClass(Generic[T]):
    """A class whose instances live in processes of their own, made by ``@ray.remote``.

    Examples:
        >>> import ray
        >>> @ray.remote(num_cpus=0.5)
        ... class Counter:
        ...     def __init__(self, start):
        ...         self.n = start
        ...     def add(self, n):
        ...         self.n += n
        ...         return self.n
        >>> counter = Counter.options(name="counter").remote(10)
        >>> ray.get(counter.add.remote(1))
        11
        >>> ray.get(ray.get_actor("counter").add.remote(1))
        12
    """

    def __new__(cls, *args: Any) -> ActorClass[T]:
        if len(args) == 3 and isinstance(args[1], tuple):  # `class Child(A):` calls us as metaclass
            base = next(b for b in args[1] if isinstance(b, ActorClass))
            raise ActorClassInheritanceException(
                f"Attempted to define subclass '{args[0]}' of actor class '{base.__name__}'. "
                "Inheriting from actor classes is not currently supported. You can instead inherit "
                "from a non-actor base class and make the derived class an actor class "
                "(with @ray.remote)."
            )
        if cls is ActorClass and args:
            # Each is of a type of its own, by which error messages and `type(A)` name it.
            body = {"__module__": args[0].__module__, "__doc__": args[0].__doc__}
            return super().__new__(type(f"ActorClass({args[0].__name__})", (cls,), body))
        return super().__new__(cls)

    def __init__(self, cls: type[T], options: Mapping[str, Any]) -> None:
        check_actor_options(options, in_options=False)
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(vars(cls)["__abstractmethods__"]))
            raise TypeError(
                f"Can't make an actor class of the abstract class {cls.__name__} with abstract "
                f"methods {missing}: decorate a class that defines them."
            )
        self._bind(cls, dict(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.__ray_actor_class__, self._default_options)

    def _bind(self, cls: type[T], options: dict[str, Any]) -> None:
        self.__ray_actor_class__ = cls
        self.__name__, self.__qualname__ = cls.__name__, cls.__qualname__
        self.__module__, self.__doc__ = cls.__module__, cls.__doc__
        self._default_options = options

    @functools.cached_property
    def _definition(self) -> _Definition:
        return _define(self.__ray_actor_class__, self._default_options)

    @functools.cached_property
    def __ray_metadata__(self) -> ActorClassMetadata:
        """The plain class, its name, its methods and the options, for tests and libraries that look."""
        from heliostat.core.calls import actor_metadata

        cls = self.__ray_actor_class__
        return actor_metadata.describe(cls, self._default_options, _METHOD_OPTIONS)

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor. Returns at once; the constructor runs in the actor's process.

        Args:
            *args: Positional arguments of the constructor. References among them become values.
            **kwargs: Keyword arguments of the constructor.

        Returns:
            The actor's handle. The actor ends when its last handle is gone, unless it is detached.

        Raises:
            TypeError: The arguments do not fit the constructor.
            ActorAlreadyExistsError: Another actor has the name.
        """
        return _create(self._definition, self._default_options, args, kwargs)

    def _remote(
        self, args: Any = (), kwargs: Mapping[str, Any] | None = None, **actor_options: Any
    ) -> ActorHandle:
        """The older way to give options: ``A.options(...).remote(...)`` in one."""
        return self.options(**actor_options).remote(*(args or ()), **(kwargs or {}))

    def options(self, **actor_options: Any) -> ActorClassWithOptions[T]:
        """The same class with other options.

        Args:
            **actor_options: Those of ``ray.remote`` for classes, without ``concurrency_groups``.

        Returns:
            What has ``remote(...)`` and ``bind(...)``, with these options.

        Raises:
            ValueError: An option is unknown, or has a value that it cannot have.
            TypeError: An option has a value of another type.
        """
        check_actor_options(actor_options, in_options=True)
        return ActorClassWithOptions(self, actor_options)

    def bind(self, *args: Any, **kwargs: Any) -> ClassNode:
        """A node of a task graph.

        Args:
            *args: Positional arguments of the constructor, which may be nodes.
            **kwargs: Keyword arguments of the constructor, likewise.

        Returns:
            A node. Its methods have ``bind(...)``, too.
        """
        from heliostat.core.calls.graph import ClassNode

        cls = self.__ray_actor_class__
        return ClassNode(cls, self.remote, args, kwargs, self._default_options)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "Actors cannot be instantiated directly. "
            f"Instead of '{self.__name__}()', use '{self.__name__}.remote()'."
        )

    def __getattr__(self, name: str) -> Any:
        cls = self.__dict__.get("__ray_actor_class__")
        if cls is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, types.FunctionType | property):
            # Bound, as on Ray: were the function itself found here, picklers would send it by this name.
            return found.__get__(self)
        if not hasattr(cls, name):
            raise AttributeError(f"'ActorClass({self.__name__})' object has no attribute '{name}'")
        return getattr(cls, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.__ray_actor_class__), *BUILT_IN})

    def __repr__(self) -> str:
        return f"ActorClass({self.__name__})"


def _arrived(cls: type[T], options: dict[str, Any]) -> ActorClass[T]:
    made: ActorClass[T] = ActorClass.__new__(ActorClass, cls)
    made._bind(cls, options)
    return made


class ActorClassWithOptions(Generic[T]):
    """The result of ``A.options(...)``: only good for ``.remote`` and ``.bind``."""

    def __init__(self, of: ActorClass[T], actor_options: Mapping[str, Any]) -> None:
        self._actor_class = of
        self._actor_options = dict(actor_options)
        self._options = {**of._default_options, **actor_options}

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor; returns its handle at once."""
        return _create(self._actor_class._definition, self._options, args, kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> ClassNode:
        """A node of a task graph."""
        from heliostat.core.calls.graph import ClassNode

        cls = self._actor_class.__ray_actor_class__
        return ClassNode(cls, self.remote, args, kwargs, self._actor_options)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClassWithOptions, (self._actor_class, self._actor_options)


# --- the class -------------------------------------------------------------------------------------


def method(*args: Any, **kwargs: Any) -> Any:
    """Give a method of an actor class options of its own, such as ``@ray.method(num_returns=2)``.

    Args:
        *args: The method, when there are no parentheses.
        **kwargs: ``num_returns`` (default 1; ``"streaming"`` for generators), ``concurrency_group`` (a
            name of the class's ``concurrency_groups``), ``max_task_retries`` (default: the actor's; -1:
            without end), ``retry_exceptions`` (default False; True, or a list of exceptions that are
            tried again, too) and ``enable_task_events`` (default: the actor's).

    Returns:
        The method, or a decorator of it.

    Raises:
        AssertionError: An option is unknown, or is not given by keyword.
        ValueError: An option has a value that it cannot have.
        TypeError: An option has a value of another type.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Splitter:
        ...     @ray.method(num_returns=2)
        ...     def split(self, text):
        ...         return text[:1], text[1:]
        >>> head, tail = Splitter.remote().split.remote("ray")
        >>> ray.get([head, tail])
        ['r', 'ay']
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    if args:
        raise AssertionError("@ray.method takes keyword arguments only")
    check_method_options(kwargs)

    def annotate(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _METHOD_OPTIONS, kwargs)
        return function

    return annotate


def _define(cls: type, options: Mapping[str, Any]) -> _Definition:
    groups = _groups(options.get("concurrency_groups"))
    found = list(_functions(cls))
    methods = tuple(_method(name, function, bound, groups) for name, function, bound in found)
    is_async = inspect.iscoroutinefunction(cls.__init__) or any(  # type: ignore[misc] # as below
        inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for _, f, _ in found
    )
    constructor: signature.Parameters | None = ()
    if cls.__init__ is not object.__init__:  # type: ignore[misc] # looked at, not called
        constructor = signature.parameters(cls.__init__, bound=True)  # type: ignore[misc] # only read, of the class itself
    elif getattr(cls, "__new__", None) is not object.__new__:
        constructor = None
    return _Definition(cls, methods, constructor, is_async, groups)


def _functions(cls: type) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """(name, function, whether it takes the instance or the class first) of every method."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):  # `object` has none
        members |= vars(base)
    for name, member in sorted(members.items(), key=operator.itemgetter(0)):
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if isinstance(member, functools.partialmethod):
            function = getattr(cls, name)
        if inspect.isfunction(function) and name != "__init__":
            yield name, function, not isinstance(member, staticmethod)


def _method(
    name: str, function: Callable[..., Any], bound: bool, groups: Mapping[str, int]
) -> Method:
    options = dict(getattr(function, _METHOD_OPTIONS, {}))
    group = options.get("concurrency_group")
    if group and group not in groups:
        raise ValueError(
            f"The method {name!r} names the concurrency group {group!r}, which is none of {sorted(groups)}"
        )
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    check_method_returns(options.get("num_returns"), is_generator)
    return Method(name, signature.parameters(function, bound), is_generator, from_options(options))


def _groups(given: Any) -> dict[str, int]:
    if isinstance(given, list):
        given = {group["name"]: group["max_concurrency"] for group in given}
    groups = dict(given or {})
    for name, bound in groups.items():
        if not isinstance(name, str) or not isinstance(bound, int) or bound < 1:
            raise ValueError(
                f"A concurrency group is a name and a positive number, got {name!r}: {bound!r}"
            )
    return groups


# --- the actor -------------------------------------------------------------------------------------


def _create(
    definition: _Definition,
    options: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ActorHandle:
    check = signature.checker(definition.constructor, definition.cls.__name__)
    if check is not None:
        check(args, kwargs)
    interface, settled, placement, plan = plan_of(definition, options)
    created = _heliostat.create_actor(settled, placement, plan, args, kwargs)
    if created["existing"] is not None:
        existing: ActorHandle = _heliostat.deserialize(created["existing"])
        return existing
    return make_handle(interface, created["actor_id"], created["ref"])


def plan_of(
    definition: _Definition, options: dict[str, Any]
) -> tuple[Interface, _heliostat.ActorOptions, _heliostat.Placement, ActorPlan]:
    """Return the plan of a new actor, whatever its arguments."""
    if options.get("name") == "":
        raise ValueError("Actor name cannot be an empty string.")
    _check_namespace(options.get("namespace"))
    settled = _heliostat.ActorOptions(options, definition.is_async)
    _check_order(settled, definition.is_async)
    placing, held = settled.placement_resources, settled.resources
    check_gpus(held)
    interface = Interface(
        definition.cls.__name__,
        definition.methods,
        tuple((k, options[k]) for k in OF_CALLS if options.get(k) is not None),
        definition.is_async,
    )
    needs = {"run": held, "start": placing}
    placement = scheduling.placement_of(settled, needs, definition.cls.__name__)

    session.ensure()
    if placement.may_be_captured:
        scheduling.check_captured(needs, definition.cls.__name__)
    actor_id = _heliostat.new_actor_id()
    lifetime = settled["lifetime"] or session.default_actor_lifetime()
    modules = settled["_preload"]
    plan: ActorPlan = {
        "actor_id": actor_id,
        "cls": definition.data,
        "class_name": definition.cls.__name__,
        "module": definition.module,
        "detached": lifetime == "detached",
        "runtime_env": inherited_env(settled["runtime_env"]),
        "handle": _heliostat.serialize(make_handle(interface, actor_id, None)),
        "modules": definition.modules if modules is None else modules,
    }
    return interface, settled, placement, plan


def _check_namespace(namespace: Any) -> None:
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')


def _check_order(options: _heliostat.ActorOptions, is_async: bool) -> None:
    if options["allow_out_of_order_execution"] is not False:
        return
    if is_async or options["max_concurrency"] > 1:
        kind = "async actors" if is_async else "threaded actors (max_concurrency > 1)"
        raise ValueError(
            f"{kind} cannot run their calls in order. "
            "Set `allow_out_of_order_execution=True` to allow out-of-order execution."
        )


def _namespaces_of(name: str) -> str:
    """A sentence that names the namespaces with an actor of that name."""
    found = sorted(space for other, space in _heliostat.list_named_actors(True) if other == name)
    if not found:
        return " No namespace has an actor of that name."
    return (
        f" There is one in the namespace {', '.join(map(repr, found))}: pass it as get_actor(name, "
        "namespace=...)."
    )


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Look up an actor by its name. The handle does not keep the actor alive.

    Args:
        name: What ``options(name=...)`` said.
        namespace: Where the name was given. Default: that of this job.

    Returns:
        A handle. It calls the same actor as the handle of the process that made it.

    Raises:
        ValueError: There is no such actor, or it has ended; the name or the namespace is empty.
        TypeError: The name or the namespace is not a string.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Store:
        ...     def size(self):
        ...         return 0
        >>> store = Store.options(name="store").remote()
        >>> ray.get(ray.get_actor("store").size.remote())
        0
        >>> ray.kill(store)
    """
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    if not isinstance(name, str):
        raise TypeError(f"the name of an actor is a string, not {type(name)}")
    _check_namespace(namespace)
    session.ensure()
    found = _heliostat.get_named_actor(name, namespace or "")
    if found is None:
        raise ValueError(
            f"Failed to look up actor with name '{name}'. This could be because 1. You are trying to "
            "look up a named actor you didn't create. 2. The named actor died. 3. You did not use a "
            f"namespace matching the namespace of the actor.{_namespaces_of(name)}"
        )
    handle: ActorHandle = _heliostat.deserialize(found[1])
    return handle


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor at once, in the middle of a call. The calls that it has not answered fail.

    Args:
        actor: Its handle.
        no_restart: False: it is started again, if ``max_restarts`` allows.

    Raises:
        ValueError: It is not a handle.
        ActorHandleNotFoundError: The handle belongs to a session that is over.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Worker:
        ...     def ping(self):
        ...         return "pong"
        >>> worker = Worker.remote()
        >>> ray.get(worker.ping.remote())
        'pong'
        >>> ray.kill(worker)
        >>> try:
        ...     ray.get(worker.ping.remote())
        ... except ray.exceptions.ActorDiedError:
        ...     print("it has ended")
        it has ended
    """
    session.ensure()
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            "ray.kill() only supported for actors. For tasks, try ray.cancel(). "
            f"Got: {type(actor)}."
        )
    if actor._epoch != _heliostat.session_epoch():
        raise ActorHandleNotFoundError(
            f"The handle {actor!r} belongs to a session that is over. Make the actor again, or look "
            "it up by name, in the present session."
        )
    _heliostat.kill_actor(actor._actor_id, no_restart)


def exit_actor() -> None:
    """Leave from within an actor: its process ends after this call.

    The caller of the present call gets ``ActorDiedError``; later calls fail with it as well. The actor is not
    restarted. Nothing after ``exit_actor()`` runs.

    Raises:
        TypeError: This process is not an actor.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Worker:
        ...     def leave(self):
        ...         ray.actor.exit_actor()
        >>> worker = Worker.remote()
        >>> try:
        ...     ray.get(worker.leave.remote())
        ... except ray.exceptions.ActorDiedError:
        ...     print("the actor has left")
        the actor has left
    """
    _heliostat.exit_actor()
