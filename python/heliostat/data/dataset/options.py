"""Keywords that many methods of datasets share: where the tasks or actors of a step run.

Each is typed and explained once, here. This module imports nothing of the package: the reference is built
from it without running the rest.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypedDict, TypeVar

if TYPE_CHECKING:
    from heliostat.data.plan.operators import Compute

F = TypeVar("F", bound=Callable[..., object])

PLACE = (
    "num_cpus",
    "num_gpus",
    "memory",
    "label_selector",
    "fallback_strategy",
    "max_calls",
    "resources",
    "accelerator_type",
    "runtime_env",
)
ARGUMENTS = ("fn_args", "fn_kwargs", "fn_constructor_args", "fn_constructor_kwargs")
CALL = ("compute", *ARGUMENTS, *PLACE, "concurrency", "ray_remote_args_fn")


class RemoteOptions(TypedDict, total=False):
    """Options of ``ray.remote`` for the tasks or actors of a step, and how many there are.

    Attributes:
        num_cpus: CPUs of each task or actor. Default 1.
        num_gpus: GPUs of each task or actor. Default 0.
        memory: Heap bytes of each task or actor, for scheduling. Default: not counted.
        label_selector: Labels that the node of a task or actor must have. Default: none.
        fallback_strategy: What to ask for where no node has them, in this order. Default: wait.
        max_calls: Tasks after which a worker is replaced. Default 0: any number.
        resources: Amounts of the cluster's own resources, by name. Default: none.
        accelerator_type: The kind of accelerator that the node must have. Default: any.
        runtime_env: The environment of the tasks or actors, on top of the job's. Default: the job's.
        compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
            pool for classes.
        concurrency: Tasks or actors at a time; ``(min, max)`` for a pool of actors that grows. Default: as
            many as there is room for.
        ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.
    """

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    compute: Compute | None
    concurrency: int | tuple[int, ...] | None
    ray_remote_args: dict[str, object] | None
    label_selector: dict[str, str] | None
    fallback_strategy: list[dict[str, object]] | None
    max_calls: int | None
    resources: dict[str, float] | None
    accelerator_type: str | None
    runtime_env: dict[str, object] | None
    # Further names of `ray_remote_args`.
    max_concurrency: int
    max_restarts: int
    max_retries: int
    max_task_retries: int
    name: str
    retry_exceptions: bool | list[type[BaseException]]
    scheduling_strategy: object


class CallOptions(RemoteOptions, total=False):
    """Options of a step that calls the program's function or class, with what it is called with.

    Attributes:
        fn_args: Further positional arguments of ``fn``. Default: none.
        fn_kwargs: Keyword arguments of ``fn``. Default: none.
        fn_constructor_args: Positional arguments of the class, if ``fn`` is one. Default: none.
        fn_constructor_kwargs: Keyword arguments of the class. Default: none.
        ray_remote_args_fn: Gives further options of ``ray.remote`` when the dataset is executed.
            Default: none.
    """

    fn_args: Iterable[object] | None
    fn_kwargs: dict[str, object] | None
    fn_constructor_args: Iterable[object] | None
    fn_constructor_kwargs: dict[str, object] | None
    ray_remote_args_fn: Callable[[], dict[str, object]] | None


REST = "ray_remote_args"  # what ``**`` is called in signatures
_KINDS: dict[str, str] = {
    name: getattr(kind, "__forward_arg__", str(kind))
    for name, kind in CallOptions.__annotations__.items()
}
_ENTRY = re.compile(r"^    (?=\S)", re.MULTILINE)


def _explanations() -> dict[str, str]:
    """By option, the lines that explain it, indented as in a section of a docstring."""
    found: dict[str, str] = {}
    for options in (RemoteOptions, CallOptions):
        text = inspect.cleandoc(options.__doc__ or "")
        for entry in _ENTRY.split(text.partition("Attributes:\n")[2])[1:]:
            found[entry.partition(":")[0]] = f"    {entry.rstrip()}\n"
    return found


class takes:  # a decorator
    """Write out the options that a method takes by ``**``, in its signature and its docstring.

    Args:
        names: The options that are shown by name, in order; the others are ``**ray_remote_args``.
        **after: Of the method's own keywords, the one before it. Default: they come first.
    """

    def __init__(self, names: Iterable[str], **after: str) -> None:
        self._names, self._after = tuple(names), after

    def ordered(self, own: Iterable[str]) -> list[str]:
        """All keywords as the signature shows them, given the method's own ones."""
        given = list(own)
        shown = [*(name for name in given if name not in self._after), *self._names]
        for name in given:
            if name in self._after:
                shown.insert(shown.index(self._after[name]) + 1, name)
        return shown

    @staticmethod
    def kind(name: str) -> str:
        """The type of an option, as its annotation is written."""
        return _KINDS[name]

    def explained(self, doc: str) -> str:
        """A docstring, cleaned of its indent, in which the options are explained behind the arguments."""
        texts = _explanations()
        added = "".join(texts[name] for name in self._names)
        added += texts[REST].replace(REST, f"**{REST}", 1)
        before, _, after = doc.partition("\nArgs:\n")
        entries, gap, rest = after.partition("\n\n")
        return f"{before}\nArgs:\n{entries}\n{added.rstrip()}{gap}{rest}"

    def __call__(self, method: F) -> F:
        """The method itself, with another signature and docstring."""
        known = inspect.signature(method)
        parts = known.parameters
        named = {n: p for n, p in parts.items() if p.kind is p.KEYWORD_ONLY}
        begin = [p for p in parts.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        shown = [
            named.get(n) or inspect.Parameter(n, _ONLY, default=None, annotation=self.kind(n))
            for n in self.ordered(named)
        ]
        rest = inspect.Parameter(REST, inspect.Parameter.VAR_KEYWORD, annotation="Any")
        signature = known.replace(parameters=[*begin, *shown, rest])
        method.__signature__ = signature  # type: ignore[attr-defined] # as `inspect` looks for it
        if method.__doc__:  # `python -OO` has none
            method.__doc__ = self.explained(inspect.cleandoc(method.__doc__))
        return method


_ONLY = inspect.Parameter.KEYWORD_ONLY
