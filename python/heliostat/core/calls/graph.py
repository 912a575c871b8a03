"""Task graphs: ``f.bind(x)`` describes a call, ``node.execute()`` makes it and those it needs.

A node is made once an execution, however many others use it. A node that is an argument by itself,
or inside of lists, tuples and dictionaries, becomes the reference to its result.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from heliostat.core.platform.annotations import RayDeprecationWarning


class DAGInputData:
    """The arguments of ``execute`` when they are not exactly one value.

    Args:
        *args: The positional ones.
        **kwargs: The keyword ones.

    Examples:
        >>> import ray
        >>> from ray.dag import DAGInputData, InputNode
        >>> @ray.remote
        ... def describe(given):
        ...     return given[0] + given["unit"]
        >>> with InputNode() as given:
        ...     graph = describe.bind(given)
        >>> ray.get(graph.execute("5", unit="km"))
        '5km'
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._args, self._kwargs = list(args), kwargs

    def __getitem__(self, key: int | str) -> Any:
        return self._args[key] if isinstance(key, int) else self._kwargs[key]


class _Execution:
    """A run of a graph: its input, and the results of its nodes so far."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.args, self.kwargs = args, dict(kwargs)
        self._made: dict[str, Any] = {}

    def value(self, thing: Any) -> Any:
        """The thing with each node in it made."""
        if isinstance(thing, DAGNode):
            key = thing.get_stable_uuid()
            if key not in self._made:
                self._made[key] = thing._make(self)
            return self._made[key]
        if type(thing) in (list, tuple):
            return type(thing)(self.value(part) for part in thing)
        if type(thing) is dict:
            return {key: self.value(part) for key, part in thing.items()}
        return thing


class DAGNode:
    """A call that is described and not made yet.

    Examples:
        >>> import ray
        >>> from ray.dag import DAGNode, InputNode
        >>> @ray.remote
        ... def add(x, y):
        ...     return x + y
        >>> with InputNode() as given:
        ...     node = add.bind(add.bind(given, 1), 10)
        >>> isinstance(node, DAGNode), node.get_args()[1]
        (True, 10)
        >>> ray.get(node.execute(100))
        111
    """

    def __init__(
        self,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._args, self._kwargs = args, dict(kwargs or {})
        self._options = dict(options or {})
        self._stable_uuid = uuid.uuid4().hex

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Make the call and those it needs; the arguments are those of the :class:`InputNode`.

        Args:
            *args: Positional arguments of the graph's :class:`InputNode`.
            **kwargs: Its keyword arguments.

        Returns:
            A reference to the value of the call; of an actor's node, its handle; of several outputs, a
            list.
        """
        warnings.warn(
            "DAGNode.execute() is deprecated: call the remote functions themselves.",
            RayDeprecationWarning,
            stacklevel=2,
        )
        return _Execution(args, kwargs).value(self)

    def experimental_compile(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: compiled graphs are not supported.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "compiled graphs are not in this release: use .execute(), or call the methods"
        )

    def get_args(self) -> tuple[Any, ...]:
        """The positional arguments, as bound."""
        return self._args

    def get_kwargs(self) -> dict[str, Any]:
        """The keyword arguments, as bound."""
        return dict(self._kwargs)

    def get_options(self) -> dict[str, Any]:
        """The options of the call."""
        return dict(self._options)

    def get_stable_uuid(self) -> str:
        """Return the name of the node within its graph."""
        return self._stable_uuid

    def _make(self, run: _Execution) -> Any:
        raise NotImplementedError

    def _call(self, run: _Execution, remote: Callable[..., Any]) -> Any:
        args = [run.value(part) for part in self._args]
        return remote(*args, **{name: run.value(part) for name, part in self._kwargs.items()})

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be called: use .execute()")

    def __reduce__(self) -> NoReturn:
        raise ValueError(f"A {type(self).__name__} lives in its driver and cannot be serialized.")


class FunctionNode(DAGNode):
    """A call of a remote function.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def add(x, y):
        ...     return x + y
        >>> node = add.bind(add.bind(1, 2), 3)
        >>> isinstance(node, ray.dag.FunctionNode)
        True
        >>> ray.get(node.execute())
        6
    """

    def __init__(self, remote: Callable[..., Any], *rest: Any) -> None:
        super().__init__(*rest)
        self._remote = remote

    def _make(self, run: _Execution) -> Any:
        return self._call(run, self._remote)


class ClassNode(DAGNode):
    """An actor, made anew in each execution; its methods are bound through it.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Adder:
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def add(self, x):
        ...         return x + self.n
        >>> adder = Adder.bind(10)
        >>> isinstance(adder, ray.dag.ClassNode)
        True
        >>> ray.get(adder.add.bind(5).execute())
        15
    """

    def __init__(self, cls: type, remote: Callable[..., Any], *rest: Any) -> None:
        super().__init__(*rest)
        self._cls, self._remote = cls, remote
        self._last: ClassMethodNode | None = None

    def _make(self, run: _Execution) -> Any:
        return self._call(run, self._remote)

    def __getattr__(self, name: str) -> _UnboundMethod:
        if name.startswith("_") or not hasattr(self._cls, name):
            raise AttributeError(f"actor class {self._cls.__name__!r} has no method {name!r}")
        return _UnboundMethod(self, name, {})


class _UnboundMethod:
    """``node.method``: a method of an actor that is still to be made."""

    def __init__(self, of: ClassNode, name: str, options: Mapping[str, Any]) -> None:
        self._of, self._name, self._options = of, name, dict(options)

    def bind(self, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """A call of the method, after those that were bound before it."""
        node = ClassMethodNode(self, args, kwargs, self._options)
        node._before, self._of._last = self._of._last, node
        return node

    def options(self, **options: Any) -> _UnboundMethod:
        """The method with other options."""
        return _UnboundMethod(self._of, self._name, {**self._options, **options})

    def of_handle(self, run: _Execution) -> Any:
        """The method of the actor that the execution has made."""
        method = getattr(run.value(self._of), self._name)
        return method.options(**self._options) if self._options else method


class ClassMethodNode(DAGNode):
    """A call of an actor's method.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Adder:
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def add(self, x):
        ...         return x + self.n
        >>> node = Adder.bind(10).add.bind(5)
        >>> isinstance(node, ray.dag.ClassMethodNode)
        True
        >>> ray.get(node.execute())
        15
    """

    def __init__(self, method: Any, *rest: Any) -> None:
        super().__init__(*rest)
        self._method = method
        self._before: ClassMethodNode | None = None

    def _make(self, run: _Execution) -> Any:
        run.value(self._before)
        method = self._method
        bound = method.of_handle(run) if isinstance(method, _UnboundMethod) else method
        return self._call(run, bound.remote)


class InputNode(DAGNode):
    """The arguments of ``execute``; ``node[0]`` and ``node.name`` are parts of them.

    Args:
        args: Has no effect.
        kwargs: Has no effect.
        options: Has no effect.

    Examples:
        >>> import ray
        >>> from ray.dag import InputNode
        >>> @ray.remote
        ... def double(x):
        ...     return 2 * x
        >>> with InputNode() as given:
        ...     graph = double.bind(given)
        >>> ray.get(graph.execute(21))
        42
    """

    def __enter__(self) -> InputNode:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _make(self, run: _Execution) -> Any:
        if len(run.args) == 1 and not run.kwargs:
            return run.args[0]
        return DAGInputData(*run.args, **run.kwargs)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        return InputAttributeNode(self, key)

    def __getattr__(self, name: str) -> InputAttributeNode:
        if name.startswith("_"):
            raise AttributeError(name)
        return InputAttributeNode(self, name, is_attribute=True)


class InputAttributeNode(DAGNode):
    """A part of the input: an argument, or a part of the only one.

    Examples:
        >>> import ray
        >>> from ray.dag import InputNode
        >>> @ray.remote
        ... def area(width, height):
        ...     return width * height
        >>> with InputNode() as given:
        ...     graph = area.bind(given[0], given.height)
        >>> ray.get(graph.execute(3, height=4))
        12
    """

    def __init__(self, of: InputNode, key: int | str, is_attribute: bool = False) -> None:
        super().__init__()
        self._of, self._key, self._is_attribute = of, key, is_attribute

    def _make(self, run: _Execution) -> Any:
        if isinstance(self._key, int) and self._key < len(run.args) and not self._only(run):
            return run.args[self._key]
        if self._key in run.kwargs:
            return run.kwargs[str(self._key)]
        whole = run.value(self._of)
        return getattr(whole, str(self._key)) if self._is_attribute else whole[self._key]

    def _only(self, run: _Execution) -> bool:
        """Whether the input is one value, which is then what the key is for."""
        return len(run.args) == 1 and not run.kwargs


class MultiOutputNode(DAGNode):
    """Several nodes at once: ``execute`` returns the list of their references.

    Args:
        args: The nodes.

    Examples:
        >>> import ray
        >>> from ray.dag import InputNode, MultiOutputNode
        >>> @ray.remote
        ... def add(x, n):
        ...     return x + n
        >>> with InputNode() as given:
        ...     graph = MultiOutputNode([add.bind(given, 1), add.bind(given, 2)])
        >>> ray.get(graph.execute(10))
        [11, 12]
    """

    def __init__(self, args: list[DAGNode] | tuple[DAGNode, ...]) -> None:
        super().__init__(tuple(args))

    def _make(self, run: _Execution) -> list[Any]:
        return [run.value(node) for node in self._args]
