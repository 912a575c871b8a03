"""Starting the training function on a group whose workers are there."""

from __future__ import annotations

import io
import os
import reprlib
import tempfile
from dataclasses import replace
from typing import Any

import heliostat as ray
from heliostat.train.backend import Backend, Replicas
from heliostat.train.controller.spec import RunSpec
from heliostat.train.data_config import made
from heliostat.train.errors import ControllerError
from heliostat.train.group.worker_group import WorkerGroup
from heliostat.train.memory.keepers import Keepers
from heliostat.train.memory.versions import MemoryOffer
from heliostat.train.messages import Assignment, Job
from heliostat.train.replicas.messages import Seat
from heliostat.util import inspect_serializability


class CoordinatorLost(Exception):
    """The coordinator failed while an attempt began; another one takes over.

    Attributes:
        error: What its call raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _unsent(job: Job) -> str:
    """The sentence that workers cannot get a job, with the parts that cannot be pickled; "": they can."""
    name = f"`{getattr(job.function, '__name__', 'train_loop_per_worker')}`"
    parts = {name: job.function, f"The train_loop_config of {name}": job.config}
    for what, part in parts.items():
        fine, failures = inspect_serializability(part, what, print_file=io.StringIO())
        if not fine:
            found = sorted((".".join(one.path[1:]), reprlib.repr(one.obj)) for one in failures)
            names = ", ".join(f"{inner or 'it'} ({value})" for inner, value in found)
            return (
                f"{what} cannot be sent to the workers, because {names} cannot be pickled. Make locks, "
                "open files, connections and models on a GPU inside the function: then each worker "
                "has its own."
            )
    return ""


class Launcher:
    """Prepares the backend and the datasets, then sends each worker what it is."""

    def __init__(
        self, spec: RunSpec, backend: Backend, group: WorkerGroup, keepers: Keepers
    ) -> None:
        self._spec = spec
        self._backend = backend
        self._group = group
        self._assignments: list[Assignment] = []
        self._job: Any = None
        self._coordinator: Any = None
        self._first_seat: Seat | None = None
        self._keepers = keepers
        # State that the workers can take from memory.
        self.memory: MemoryOffer | None = None
        self._saved_by: int | None = None
        self._number = -1
        self._latest: str | None = None
        self._memory_every: int | None = None
        self._keepers_of: dict[str, list[Any]] = {}
        failures = spec.run_config.failure_config
        self._relaxes = failures is not None and failures.relax_collectives_on_preemption

    @staticmethod
    def store(job: Job) -> Any:
        """Put the function into the object store, once for all workers and attempts."""
        try:
            return ray.put(job)
        except Exception as error:
            raise ControllerError(TypeError(_unsent(job) or f"{error}")) from None

    def prepare(self, begun: Any) -> str | None:
        """Set up the framework on the workers; returns the checkpoint to begin from.

        Raises:
            CoordinatorLost: The coordinator ended before it had said that.
        """
        if self._backend.share_cuda_visible_devices:
            self._group.share_gpus()
        self._backend.on_start(self._group, self._spec.backend_config)
        self._backend.on_training_start(self._group, self._spec.backend_config)
        try:
            latest: str | None
            latest, self._saved_by = ray.get(begun)
        except ray.exceptions.RayError as error:
            raise CoordinatorLost(error) from error
        return latest

    def run(self, number: int, latest: str | None, job: Any, coordinator: Any) -> list[Any]:
        """Start the function everywhere; returns the refs of the outcomes, by rank."""
        spec, group = self._spec, self._group
        shards: list[dict[str, Any]] = [{} for _ in group.workers]
        if spec.datasets:
            shards = spec.data_config.configure(
                {k: made(k, v) for k, v in spec.datasets.items()},
                world_size=len(group),
                worker_handles=[w.actor for w in group.workers],
                worker_node_ids=[w.info.node_id for w in group.workers],
            )
        options = spec.run_config.checkpoint_config
        self._memory_every = options.memory_every_n_steps if options is not None else None
        self._keepers_of = {}
        if self._memory_every is not None:
            self.memory = self._keepers.offer()
            self._open_keepers()
        self._number, self._latest = number, latest
        self._job, self._coordinator = job, coordinator
        self._assignments = [self._assignment(rank, shard) for rank, shard in enumerate(shards)]
        return [self.start(rank, 0) for rank in range(len(group))]

    def add(self, rank: int) -> Any:
        """Start the function on a worker that has joined the group; returns the ref of its outcome."""
        assert rank == len(self._assignments)
        if self._memory_every is not None:
            self._open_keepers()
        self._assignments.append(self._assignment(rank, {}))
        return self.start(rank, 0)

    def _open_keepers(self) -> None:
        """Have keepers where the workers are."""
        nodes = [worker.info.node_id for worker in self._group.workers]
        self._keepers_of = self._keepers.open(nodes)

    def _assignment(self, rank: int, shards: dict[str, Any]) -> Assignment:
        spec, group = self._spec, self._group
        ranks, worker = group.ranks[rank], group.workers[rank]
        return Assignment(
            attempt=self._number,
            world_rank=ranks.world_rank,
            world_size=len(group),
            local_rank=ranks.local_rank,
            local_world_size=ranks.local_world_size,
            node_rank=ranks.node_rank,
            experiment_name=spec.storage.name,
            storage=spec.storage,
            checkpoint=self._latest,
            settings=spec.settings,
            working_dir=self._working_dir(),
            log_level=getattr(spec.run_config.logging_config, "log_level", "INFO"),
            shards=shards,
            seat=self._seat(rank),
            memory_every=self._memory_every,
            keepers=self._keepers_of.get(worker.info.node_id, []),
            memory=self.memory,
            may_lose_ranks=self._first_seat is not None or self._relaxes,
            saved_by=self._saved_by,
            max_workers=spec.scaling.max_workers,
            run_id=spec.run_id,
        )

    def start(self, rank: int, incarnation: int) -> Any:
        """Start the function on the worker that has ``rank`` now; returns the ref of its outcome."""
        assignment = self._assignments[rank]
        if incarnation and assignment.seat is not None:
            seat = replace(assignment.seat, incarnation=incarnation)
            assignment = replace(assignment, seat=seat)
        worker = self._group.workers[rank]
        return worker.actor.run.remote(assignment, [self._job], self._coordinator)

    def open_replicas(self, coordinator: Any) -> Replicas | None:
        """Have the coordinator look after the replica groups, where the backend has any.

        Raises:
            CoordinatorLost: It has ended.
        """
        size = len(self._group)
        replicas = self._backend.replicas(size, self._spec.backend_config)
        if replicas is None:
            return None
        begun = coordinator.begin_replicas.remote(
            size // replicas.size,
            replicas.size,
            replicas.least,
            replicas.has_quorum,
            self._spec.scaling.elasticity_enabled,
        )
        try:
            store = ray.get(begun)
        except ray.exceptions.RayError as error:
            raise CoordinatorLost(error) from error
        gpus = any(w.info.gpu_ids for w in self._group.workers)
        self._first_seat = Seat(
            group=0,
            shard=0,
            size=replicas.size,
            groups=self._spec.scaling.max_workers // replicas.size,
            incarnation=0,
            store=store,
            backend=replicas.backend or ("nccl" if gpus else "gloo"),
            timeout_s=replicas.timeout_s,
            environment=replicas.environment,
        )
        return replicas

    def _seat(self, rank: int) -> Seat | None:
        seat = self._first_seat
        if seat is None:
            return None
        return replace(seat, group=rank // seat.size, shard=rank % seat.size)

    def _working_dir(self) -> str | None:
        """A folder per run on each node, removed by whoever cleans temporary files."""
        if not self._spec.settings.change_directory:
            return None
        root = os.path.join(tempfile.gettempdir(), f"heliostat-train-{os.getuid()}")
        return os.path.join(root, self._spec.run_id, "working_dir")
