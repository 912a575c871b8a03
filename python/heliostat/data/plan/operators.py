"""The logical plan: an immutable tree of operators. Nothing here runs."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from heliostat.data import checks
from heliostat.data.expressions.expr import Expr
from heliostat.data.plan.transforms import Transform

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat import ObjectRef
    from heliostat.data.aliases import RemoteArgs


@dataclass(frozen=True)
class Bundle:
    """A block in the object store, or rows ``start`` to ``start + rows`` of it."""

    ref: ObjectRef
    rows: int
    size: int
    schema: pa.Schema | None = None
    start: int = 0
    total_rows: int = -1  # of the block; -1: `rows`
    files: tuple[str, ...] = ()
    node: str = ""  # where it was made
    given: bool = False  # existed before the execution, and will after it: no part of its budget

    @property
    def is_whole(self) -> bool:
        """Whether it shows all of its block."""
        return self.start == 0 and self.total_rows in (-1, self.rows)

    @property
    def cost(self) -> int:
        """Bytes that it takes from the budget of the execution."""
        return 0 if self.given else self.size

    def slice(self, start: int, rows: int) -> Bundle:
        """A part of it, without touching the block."""
        total = self.rows if self.total_rows < 0 else self.total_rows
        size = self.size * rows // self.rows if self.rows else 0
        return replace(self, rows=rows, size=size, start=self.start + start, total_rows=total)

    def cut(self, table: pa.Table) -> pa.Table:
        """The rows of its block, given the block."""
        return table if self.is_whole else table.slice(self.start, self.rows)


@dataclass
class ReadPart:
    """A part of a source: ``read()`` gives its tables. Rows and bytes are estimates, -1: unknown."""

    read: Callable[[], Iterator[pa.Table]]
    rows: int = -1
    size: int = -1
    files: list[str] = field(default_factory=list)


class Ordered(abc.ABC):
    """The tasks of a source whose order may differ from one execution to the next."""

    @abc.abstractmethod
    def __call__(self) -> list[ReadPart]:
        """The tasks."""

    @abc.abstractmethod
    def of_execution(self, number: int) -> Callable[[], list[ReadPart]]:
        """The tasks of an execution, given by its number."""


class Pushable(abc.ABC):
    """The tasks of a source that can be told to read less."""

    @abc.abstractmethod
    def __call__(self) -> list[ReadPart]:
        """The tasks."""

    @abc.abstractmethod
    def with_filter(self, condition: Expr) -> Pushable | None:
        """The source without the rows that do not meet a condition; None: it cannot evaluate that."""

    @abc.abstractmethod
    def with_limit(self, rows: int) -> Pushable | None:
        """Only the first rows; None: it does not know where they end."""

    @abc.abstractmethod
    def with_columns(self, needed: frozenset[str]) -> Pushable | None:
        """Only these of its columns; None: it reads all in any case."""

    def for_rows(self) -> Pushable:
        """The source for a function of rows that runs in its tasks: text may come as dictionaries."""
        return self

    @abc.abstractmethod
    def counted(self) -> tuple[int, Pushable | None]:
        """The rows that are certain without reading, and the tasks that read the others if any."""

    @abc.abstractmethod
    def pushed(self) -> str:
        """Return the pushed-down parts, in words."""


class TaskPoolStrategy:
    """Run a map in tasks.

    Args:
        size: How many at a time. Default: as many as there is room for.

    Raises:
        ValueError: ``size`` is below 1.

    Examples:
        >>> import ray
        >>> from ray.data import TaskPoolStrategy
        >>> ds = ray.data.range(3).map(lambda row: {"id": -row["id"]}, compute=TaskPoolStrategy(size=2))
        >>> ds.take_all()
        [{'id': 0}, {'id': -1}, {'id': -2}]
    """

    def __init__(self, size: int | None = None) -> None:
        checks.integers(size=size)
        if size is not None and size < 1:
            raise ValueError(f"`size` must be at least 1, got {size}.")
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskPoolStrategy) and self.size == other.size

    def __hash__(self) -> int:
        return hash(self.size)


class ActorPoolStrategy:
    """Run a map in a pool of actors.

    Args:
        size: How many actors. Default: see ``min_size`` and ``max_size``.
        min_size: How many at least. Default 1.
        max_size: How many at most. Default: as many as there is room for.
        initial_size: How many are started first. Default: ``min_size``.
        max_tasks_in_flight_per_actor: Calls that an actor has at a time at most, the one that runs
            included. Default 2.
        max_concurrent_calls_per_actor: Has no effect: an actor runs one call at a time, and has its next
            inputs there already.
        enable_true_multi_threading: Has no effect.

    Raises:
        ValueError: A size is below 1, ``size`` is given beside the others, or they contradict each
            other.

    Examples:
        >>> import ray
        >>> from ray.data import ActorPoolStrategy
        >>> class Model:
        ...     def __init__(self):
        ...         self.weight = 3  # loaded once in each actor
        ...     def __call__(self, batch):
        ...         return {"score": batch["id"] * self.weight}
        >>> pool = ActorPoolStrategy(min_size=1, max_size=2)
        >>> ray.data.range(3).map_batches(Model, compute=pool).take_all()
        [{'score': 0}, {'score': 3}, {'score': 6}]
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        checks.integers(size=size, min_size=min_size, max_size=max_size, initial_size=initial_size)
        if size is not None:
            if size < 1:
                raise ValueError(f"size must be >= 1, got {size}.")
            if min_size is not None or max_size is not None:
                raise ValueError("min_size and max_size cannot be set at the same time as `size`.")
            min_size = max_size = size
        if min_size is not None and min_size < 1:
            raise ValueError(f"min_size must be >= 1, got {min_size}.")
        if max_size is not None and max_size < (min_size or 1):
            raise ValueError(f"min_size must be <= max_size, got {min_size or 1} and {max_size}.")
        if max_tasks_in_flight_per_actor is not None and max_tasks_in_flight_per_actor < 1:
            raise ValueError("max_tasks_in_flight_per_actor must be >= 1.")
        self.min_size: int = min_size or 1
        self.max_size: float = max_size or float("inf")
        self.initial_size: int = initial_size or self.min_size
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor or 2
        self.max_concurrent_calls_per_actor = max_concurrent_calls_per_actor
        self.enable_true_multi_threading = bool(enable_true_multi_threading)


Compute = TaskPoolStrategy | ActorPoolStrategy


@dataclass(frozen=True)
class Operator:
    """A node of the plan."""

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that it reads."""
        return ()

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return type(self).__name__

    @property
    def details(self) -> str:
        """The details that a description of the plan adds to the name."""
        return ""


@dataclass(frozen=True)
class FromOne(Operator):
    """An operator that reads one other."""

    source: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that it reads."""
        return (self.source,)


@dataclass(frozen=True)
class FromSeveral(Operator):
    """An operator that reads others, in their order."""

    sources: tuple[Operator, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that it reads."""
        return self.sources


@dataclass(frozen=True)
class InputBlocks(Operator):
    """Blocks that are there already."""

    bundles: tuple[Bundle, ...]

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return "Input"


@dataclass(frozen=True)
class Read(Operator):
    """A source, split into tasks when it is executed. ``rows`` and ``schema`` where they are known."""

    label: str
    tasks: Callable[[], list[ReadPart]]
    rows: int | None = None
    schema: pa.Schema | None = None
    size: int | None = None
    remote_args: dict[str, object] = field(default_factory=dict)
    concurrency: int | None = None
    files: Callable[[], list[str]] | None = None

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return f"Read{self.label}"

    @property
    def details(self) -> str:
        """The parts that the source was told to leave out."""
        return self.tasks.pushed() if isinstance(self.tasks, Pushable) else ""


@dataclass(frozen=True)
class Map(FromOne):
    """A step on each block."""

    transform: Transform
    compute: Compute = field(default_factory=TaskPoolStrategy)
    remote_args: dict[str, object] = field(default_factory=dict)
    min_rows: int = 0  # blocks are joined until they have that many rows
    keeps_rows: bool = False  # one row out for each row in, so that counting need not run it
    remote_args_fn: Callable[[], RemoteArgs] | None = None
    begins_stage: bool = False  # never joined with the step before it
    min_bytes: int = 0  # blocks are joined until they have that many bytes, too

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return self.transform.name


def is_plain(step: Map) -> bool:
    """Whether the step may run with the one before it: nothing was said of where it runs."""
    return (
        step.compute == TaskPoolStrategy()
        and not step.remote_args
        and step.remote_args_fn is None
        and not step.begins_stage
        and not step.min_rows
        and not step.min_bytes
    )


@dataclass(frozen=True)
class Limit(FromOne):
    """The first rows."""

    rows: int

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return f"Limit[{self.rows}]"


@dataclass(frozen=True)
class Exchange(FromSeveral):
    """An operator that sees all blocks before it gives any: shuffles, sorts, joins.

    ``run`` is given the bundles of each input and what starts tasks; see ``execute/exchange.py``. It
    may have ``passes_filters``, true if leaving out rows before is the same as after, and
    ``reads(needed)``, the columns of each input that it needs to give the ``needed`` ones; and
    ``ends_in_tasks``, true if all that it gives is made by ``Tasks.blocks``.
    """

    label: str
    run: Callable[..., Generator[Bundle | None, None, object]]
    keeps_rows: bool = False

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return self.label


@dataclass(frozen=True)
class Union(FromSeveral):
    """The blocks of several plans, one after the other."""


class MixStoppingCondition(enum.Enum):
    """The end of a mix: with its shortest dataset, or with the longest while the others drop out.

    Examples:
        >>> import ray
        >>> from ray.data import MixStoppingCondition
        >>> condition = MixStoppingCondition.STOP_ON_SHORTEST
    """

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


@dataclass(frozen=True)
class Mix(FromSeveral):
    """The blocks of several plans by turns, so that their rows come in the ratio of the weights."""

    weights: tuple[float, ...]
    stopping: MixStoppingCondition

    @property
    def details(self) -> str:
        """The share of each plan."""
        shares = ", ".join(f"{weight / sum(self.weights):.2f}" for weight in self.weights)
        return f"[weights={shares}]"


@dataclass(frozen=True)
class Rebundle(FromOne):
    """Blocks of exactly ``rows`` rows, made while blocks arrive; the last may have fewer."""

    rows: int

    @property
    def name(self) -> str:
        """The name in plans and statistics."""
        return f"StreamingRepartition[{self.rows}]"


def describe(operator: Operator) -> str:
    """The plan as text, the last operator first."""
    return "\n".join(_lines(operator, ""))


def _lines(operator: Operator, indent: str) -> Iterator[str]:
    said = operator.name + operator.details
    yield indent + said if not indent else f"{indent[:-3]}+- {said}"
    for source in operator.inputs:
        yield from _lines(source, indent + "   ")
