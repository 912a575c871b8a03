"""The messages between driver, coordinator and workers. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.memory.versions import MemoryOffer
    from heliostat.train.replicas.messages import Seat
    from heliostat.train.validation import ValidationConfig, ValidationTaskConfig


# The collective that asks which nodes will be taken away.
PREEMPTION = "preemption"
# The beginning of the command to save; the number of the round follows.
SAVE = "save:"


@dataclass
class ReportEntry:
    """The part of a report that one rank brings."""

    metrics: dict[str, Any]
    # Files were staged for this report.
    staged: bool = False
    # Their paths in the checkpoint; None: nobody asks, since no report is complete without all ranks.
    files: list[str] | None = None
    # The name that the user chose for the checkpoint's folder.
    dir_name: str | None = None
    # The checkpoint already lies at this path of the storage, where it stays.
    external: tuple[str, Any] | None = None
    # How the checkpoint shall be validated.
    validation: ValidationTaskConfig | None = None
    # Why this rank could not store its files: without them there is no checkpoint, and training goes on.
    failed: str = ""
    # Training goes on, too, when the checkpoint cannot be published.
    may_fail: bool = False
    # Steps that the run has made, where that is known; the same on every rank.
    step: int | None = None


@dataclass
class Reply:
    """The coordinator's answer to a rank."""

    # False: the attempt is over, the training function has to end.
    go_on: bool = True
    value: Any = None
    # Name (or (path, filesystem) outside of the run) of the checkpoint that was published.
    checkpoint: Any = None
    # Why the checkpoint was not stored, where training goes on without it.
    failed: str = ""
    # How many reports the other ranks have made, for one that counts on from there.
    made: int | None = None
    # The error of the call, to be raised in the training function.
    error: Exception | None = None


@dataclass
class ReportedRow:
    """A complete report, as the driver gets it."""

    index: int
    time: float
    metrics: dict[str, Any]
    checkpoint: Any = None
    # Metrics of all ranks, only when there are callbacks.
    all_metrics: list[dict[str, Any]] | None = None
    # Seconds that publishing took.
    publish_s: float = 0.0
    # Seconds from the first rank that began to store its files until the checkpoint was there.
    in_flight_s: float = 0.0


@dataclass
class Event:
    """Something that the driver shows: kinds are those of ``view.events``."""

    kind: str
    time: float
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class WorkerInfo:
    """The place at which a worker runs."""

    node_id: str
    node_ip: str
    hostname: str
    pid: int
    gpu_ids: list[str]
    # Their pages in the head's page are found by these.
    worker_id: str = ""
    actor_id: str = ""


@dataclass
class Assignment:
    """The role of a worker in one attempt."""

    attempt: int
    world_rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    experiment_name: str
    storage: Any
    checkpoint: Any
    settings: Any
    working_dir: str | None
    log_level: str
    # Dataset shards of this rank by name.
    shards: dict[str, Any] = field(default_factory=dict)
    # The worker's place among the replica groups, where there are any.
    seat: Seat | None = None
    # Every so many steps the state goes to these keepers: that of this node, and that of another one.
    memory_every: int | None = None
    keepers: list[Any] = field(default_factory=list)
    # State that can be taken from memory.
    memory: MemoryOffer | None = None
    # Reports may be complete without some rank, which may have left files.
    may_lose_ranks: bool = False
    # How many workers had saved ``checkpoint``; None: nobody, or it is not known.
    saved_by: int | None = None
    # How many workers the largest group has.
    max_workers: int = 1
    run_id: str = ""


@dataclass
class Outcome:
    """The end of a training function on a rank."""

    ok: bool
    value: Any = None
    error: Exception | None = None
    traceback: str = ""
    # The function was ended from outside (another rank failed, the group is resized).
    unwound: bool = False
    # The process may run another attempt.
    reusable: bool = True
    seconds: float = 0.0
    # Something that the user should hear of.
    note: str = ""


@dataclass
class Job:
    """The job of every worker; sent once through the object store."""

    function: Callable[..., Any]
    config: dict[str, Any] | None
    takes_config: bool
    backend_config: Any
    validation: ValidationConfig | None = None
