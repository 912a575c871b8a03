"""Options that all readers take, and what is said of those that they do not."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from heliostat.core.platform.spelling import nearest
from heliostat.data import checks

if TYPE_CHECKING:
    from heliostat.data.aliases import RemoteArgs, Value


REMOTE = (
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "label_selector",
    "fallback_strategy",
    "max_calls",
    "accelerator_type",
    "runtime_env",
)
TASKS = ("parallelism", "override_num_blocks", "concurrency", "ray_remote_args", *REMOTE)
# The parameters that `inspect` and `help` show in the place of ``**options``, with the defaults.
OF_TASKS: dict[str, object] = {"parallelism": -1, **dict.fromkeys(TASKS[1:])}
OF_FILES: dict[str, object] = {
    "filesystem": None,
    "arrow_open_stream_args": None,
    "partition_filter": None,
    "partitioning": None,
    "include_paths": False,
    "ignore_missing_paths": False,
    "shuffle": None,
    "file_extensions": None,
    **OF_TASKS,
}  # The text of `help` for each.
_EXPLAINED = {
    "accelerator_type": "The kind of accelerator that the node must have. Default: any.",
    "arrow_open_file_args": "An older name of ``arrow_open_stream_args``.",
    "arrow_open_stream_args": "Arguments of opening a file, such as ``compression``. Default: none.",
    "catalog": "A ``Catalog`` that knows where the table is. Default: none.",
    "compute": "Has no effect: sources are read by tasks.",
    "concurrency": "Tasks at a time. Default: as many as there is room for.",
    "fallback_strategy": "What to ask for where no node has the labels, in this order. Default: wait.",
    "file_extensions": "Endings of the files that are read; None: any.",
    "filename_provider": "Gives the files' names, a ``FilenameProvider``. Default: unique ones.",
    "filesystem": "The files' filesystem, of pyarrow or fsspec. Default: by the path.",
    "filter": "A ``pyarrow.dataset`` expression that leaves out rows. Default: none.",
    "ignore_missing_paths": "Leave out paths at which there is nothing. Default False.",
    "include_paths": 'Add the column "path". Default False.',
    "include_row_hash": "Has no effect.",
    "label_selector": "Labels that the node of a task must have. Default: none.",
    "max_calls": "Tasks after which a worker is replaced. Default: any number.",
    "memory": "Heap bytes of each task, for scheduling. Default: not counted.",
    "min_bytes_per_file": "Blocks are joined until a file has so many bytes of memory. Default: not.",
    "min_rows_per_file": "Blocks are joined until a file has so many rows. Default: not.",
    "mode": "What to do where the folder is there, a ``SaveMode``. Default: add files.",
    "num_cpus": "CPUs of each task. Default 1.",
    "num_gpus": "GPUs of each task. Default 0.",
    "num_rows_per_file": "An older name of ``min_rows_per_file``.",
    "override_num_blocks": "Tasks to read in. Default: by the size and the CPUs.",
    "parallelism": "An older name of ``override_num_blocks``.",
    "partition_filter": "Says which of a list of paths are read. Default: all.",
    "partitioning": "The columns that the folders' names give, a ``Partitioning``; None: none.",
    "ray_remote_args": "Further options of ``ray.remote`` for the tasks. Default: none.",
    "resources": "Amounts of the cluster's own resources, by name. Default: none.",
    "runtime_env": "The environment of the tasks, on top of the job's. Default: the job's.",
    "schema": "Has no effect.",
    "shuffle": '"files" or a ``FileShuffleConfig``: in random order. Default: in theirs.',
    "skip_paths": "A path or several of files that are not read. Default: none.",
    "tensor_column_schema": "Has no effect.",
    "try_create_dir": "Make the folder where there is none. Default True.",
}


F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)
_own: dict[str, list[str]] = {}  # the names that a reader or writer takes as its own, by its name


def spelled(function: F) -> F:
    """Have a keyword that a reader or writer does not take told at the call, with the nearest that it takes.

    One that hands further options on calls :func:`refuse` itself, where it knows whose they are.
    """
    kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
    is_open = inspect.Parameter.VAR_KEYWORD in kinds.values()
    own = [n for n, kind in kinds.items() if kind is not inspect.Parameter.VAR_KEYWORD]
    _own[function.__name__] = own

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        if not is_open:
            refuse(function.__name__, [k for k in keywords if k not in own], own, ())
        return function(*args, **keywords)

    made: F = call  # type: ignore[assignment] # of the same signature
    return made


class shows:  # a decorator
    """Write out the options that a reader or writer takes by ``**``, in its signature and its docstring.

    Args:
        defaults: The options, with their defaults.
        rest: What the further options are called, which are for whoever it hands them on to. Default: there
            are none.
        **more: More of the options, or other defaults.
    """

    def __init__(
        self, defaults: Mapping[str, object], rest: str | None = None, **more: object
    ) -> None:
        self._defaults, self._rest = {**defaults, **more}, rest

    def __call__(self, function: F) -> F:
        """The function itself, with another signature and docstring."""
        known = inspect.signature(function)
        own = [p for p in known.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in own}
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in self._defaults.items()
            if name not in names
        ]
        if self._rest is not None:
            shown.append(inspect.Parameter(self._rest, inspect.Parameter.VAR_KEYWORD))
        if function.__doc__:  # `python -OO` has none
            (star,) = (p.name for p in known.parameters.values() if p.kind is p.VAR_KEYWORD)
            added = [p.name for p in shown if p.name != self._rest]
            function.__doc__ = _explained(
                inspect.cleandoc(function.__doc__), star, added, self._rest
            )
        signature = known.replace(parameters=[*own, *shown])
        function.__signature__ = signature  # type: ignore[attr-defined] # as `inspect` looks for it
        return function


def _explained(doc: str, star: str, names: Iterable[str], rest: str | None) -> str:
    """A docstring in which options are explained in the place of the entry ``**star``.

    What the entry says is what is said of ``**rest`` then, where there are such.
    """
    added = "".join(f"    {name}: {_EXPLAINED[name]}\n" for name in names)
    entry = re.search(rf"^    \*\*{star}: (.*\n(?:        .*\n)*)", doc, re.MULTILINE)
    assert entry is not None, f"a docstring has no **{star}"
    if rest is not None:
        added += f"    **{rest}: {entry[1]}"
    return f"{doc[: entry.start()]}{added}{doc[entry.end() :]}"


def spelled_methods(name: str) -> Callable[[C], C]:
    """Do as :func:`spelled` does for all public methods of a class that hand nothing on.

    Args:
        name: What programs know the class by; errors of Python's about missing arguments have it.
    """

    def changed(cls: C) -> C:
        for attribute, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not attribute.startswith("_"):
                inspect.unwrap(method).__qualname__ = f"{name}.{attribute}"
                kinds = {p.kind for p in inspect.signature(method).parameters.values()}
                is_open = inspect.Parameter.VAR_KEYWORD in kinds
                made = spelled(method)
                setattr(cls, attribute, method if is_open else made)
        return cls

    return changed


def of_tasks(options: dict[str, Value]) -> RemoteArgs:
    """Take the options for the tasks out of the options and return them."""
    args = dict(options.pop("ray_remote_args", None) or {})
    for name in REMOTE:
        value = options.pop(name, None)
        if value is not None:
            args[name] = value
    return args


def blocks(options: dict[str, Value], stacklevel: int) -> int | None:
    """Take the number of tasks out of the options; None: as many as suit."""
    parallelism = options.pop("parallelism", -1)
    if parallelism != -1:
        warnings.warn(
            "`parallelism` is deprecated, use `override_num_blocks`.",
            DeprecationWarning,
            stacklevel=stacklevel + 1,
        )
    wanted = options.pop("override_num_blocks", None)
    checks.integers(parallelism=parallelism, override_num_blocks=wanted)
    if wanted is None:
        wanted = parallelism if parallelism > 0 else None
    if wanted is not None and wanted < 1:
        raise ValueError(f"override_num_blocks is {wanted}: it has to be 1 or more.")
    return None if wanted is None else int(wanted)


def refuse(
    name: str,
    options: Iterable[str],
    known: Iterable[str] = (),
    also: Iterable[str] = TASKS,
    inside: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Raise for options that a function does not take.

    Args:
        name: The function's.
        options: The names that were given and not used.
        known: The names that it takes, of which the nearest are told.
        also: Further such names. Default: those of the tasks that read.
        inside: Gives what to write for names that belong into the value of another keyword.

    Raises:
        TypeError: There are such.
    """
    unknown = list(options)
    if not unknown:
        return
    deeper = inside()
    there = sorted({*also, *known, *_own.get(name, ()), *deeper})
    said = []
    for one in unknown:
        near = nearest(one, there)
        meant = deeper.get(near[0], repr(near[0])) if near else ""
        said.append(repr(one) + (f" (did you mean {meant}?)" if near else ""))
    what = "an unexpected keyword argument" if len(unknown) == 1 else "unexpected keyword arguments"
    raise TypeError(f"{name}() got {what} {', '.join(said)}")
