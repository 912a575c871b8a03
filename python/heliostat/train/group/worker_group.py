"""The actors of a run. Starting fills the empty places only, so a restart replaces what failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.train.config import ScalingConfig
from heliostat.train.errors import WorkerStartError
from heliostat.train.group.cluster import why_infeasible, why_waiting
from heliostat.train.group.placement import Reservation, actor_options
from heliostat.train.group.ranks import Ranks, order_by_node, ranks_of
from heliostat.train.messages import WorkerInfo
from heliostat.train.worker.actor import TrainWorker

# First and later looks at a group that does not start, in seconds.
_FIRST_NOTE_S, _NEXT_NOTE_S = 5.0, 30.0


@dataclass
class Worker:
    """A worker process and where it runs."""

    actor: Any
    info: WorkerInfo
    rank: int | None = None
    fresh: bool = True


class WorkerGroup:
    """The workers of one run, in the order of their ranks."""

    def __init__(
        self,
        scaling: ScalingConfig,
        runtime_env: dict[str, Any] | None,
        preload: list[str],
        start_timeout_s: float,
        note: Callable[[str], None],
        waiting: Callable[[], None],
    ) -> None:
        self._scaling = scaling
        self._runtime_env = runtime_env
        self._preload = preload
        self._start_timeout_s = start_timeout_s
        self._note = note
        self._waiting = waiting
        self._reservation = Reservation()
        self._reserved = 0
        self._starting: list[Any] = []
        self.workers: list[Worker] = []
        self.ranks: list[Ranks] = []

    def __len__(self) -> int:
        return len(self.workers)

    # ---- starting and ending ----

    def start(self, size: int) -> None:
        """Bring the group to ``size`` workers: keep those that are there, create the others.

        Raises:
            WorkerStartError: The cluster can never hold them, or they did not start in time.
        """
        why = why_infeasible(self._scaling, size)
        if why is not None:
            raise WorkerStartError(why)
        for worker in self.workers[size:]:
            _kill(worker.actor)
        kept = self.workers[:size]
        self._reserve(size, kept)
        self._starting = [self._create(i) for i in range(len(kept), size)]
        try:
            infos = self._wait([a.info.remote() for a in self._starting], size, True)
        except BaseException:
            self._drop_starting()
            raise
        found = kept + [Worker(a, i) for a, i in zip(self._starting, infos, strict=True)]
        self._starting = []
        order = order_by_node([w.info.node_id for w in found], [w.rank for w in found])
        self.workers = [found[i] for i in order]
        self.ranks = ranks_of([w.info.node_id for w in self.workers])
        for rank, worker in enumerate(self.workers):
            worker.rank = rank

    def _reserve(self, size: int, kept: list[Worker]) -> None:
        """A group of a fixed size gets its room at once; an elastic one grows actor by actor."""
        if self._scaling.elasticity_enabled or self._reserved == size or size == 0:
            return
        ready = self._reservation.reserve(
            self._scaling.worker_resources, size, self._scaling.placement_strategy
        )
        self._reserved = size
        if ready is not None:
            self._wait([ready], size, False)

    def _create(self, index: int) -> Any:
        scaling = self._scaling
        options = actor_options(scaling.worker_resources)
        options.update(self._reservation.options(self._bundle(index)))
        if self._runtime_env:
            options["runtime_env"] = self._runtime_env
        if scaling.accelerator_type:
            options["accelerator_type"] = scaling.accelerator_type
        selector = scaling.label_selector
        if isinstance(selector, list):
            selector = selector[index % len(selector)]
        if selector:
            options["label_selector"] = selector
        return (
            ray.remote(TrainWorker).options(**options, _preload=self._preload).remote(self._preload)
        )

    def _bundle(self, index: int) -> int:
        """Any part of the reserved room: the one that a lost worker left is free again."""
        return index if not self.workers else -1

    def _wait(self, refs: list[Any], size: int, placed: bool) -> list[Any]:
        """The results; says now and then what it waits for: room, or processes in their place."""
        start = time.monotonic()
        next_note = start + _FIRST_NOTE_S
        pending = refs
        while pending:
            _, pending = ray.wait(pending, num_returns=len(pending), timeout=0.5)
            self._waiting()
            now = time.monotonic()
            if pending and now > next_note:
                next_note = now + _NEXT_NOTE_S
                what = why_waiting(self._scaling, len(pending), placed)
                self._note(f"{size - len(pending)} of {size} workers are ready; {what}.")
            if pending and now - start > self._start_timeout_s:
                what = why_waiting(self._scaling, len(pending), placed)
                raise WorkerStartError(
                    f"{len(pending)} of {size} workers did not start within "
                    f"{self._start_timeout_s:g} s (RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S): {what}."
                )
        result: list[Any] = ray.get(refs)
        return result

    def _drop_starting(self) -> None:
        for actor in self._starting:
            _kill(actor)
        self._starting = []

    def keep(self, ranks: set[int]) -> None:
        """End the workers whose ranks are not among ``ranks``."""
        for worker in self.workers:
            if worker.rank not in ranks:
                _kill(worker.actor)
        self.workers = [w for w in self.workers if w.rank in ranks]
        for worker in self.workers:
            worker.fresh = False

    def stop(self) -> None:
        """End all workers and give their room back."""
        self.keep(set())
        self._drop_starting()
        with contextlib.suppress(Exception):
            self._reservation.release()
        self._reserved = 0

    # ---- what backends use ----

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call ``function`` on every worker; returns the refs in the order of the ranks."""
        return [w.actor.execute.remote(function, *args, **kwargs) for w in self.workers]

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call ``function`` on every worker; returns the results in the order of the ranks."""
        result: list[Any] = ray.get(self.execute_async(function, *args, **kwargs))
        return result

    def execute_single_async(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call ``function`` on one worker; returns the ref."""
        return self.workers[rank].actor.execute.remote(function, *args, **kwargs)

    def execute_single(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call ``function`` on one worker; returns the result."""
        return ray.get(self.execute_single_async(rank, function, *args, **kwargs))

    def get_workers(self) -> list[Worker]:
        """The workers in the order of their ranks."""
        return list(self.workers)

    def share_gpus(self) -> None:
        """Let every worker see the GPUs of all workers on its node, its own one by local rank."""
        by_node: dict[str, list[str]] = {}
        for worker in self.workers:
            ids = by_node.setdefault(worker.info.node_id, [])
            ids += [g for g in worker.info.gpu_ids if g not in ids]
        if not any(by_node.values()):
            return
        ray.get(
            [
                w.actor.execute.remote(_see_gpus, by_node[w.info.node_id], w.info.gpu_ids)
                for w in self.workers
                if by_node[w.info.node_id]
            ]
        )


def _see_gpus(all_ids: list[str], own_ids: list[str]) -> None:
    """On a worker, before CUDA starts."""
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(all_ids)
    os.environ["HELIOSTAT_TRAIN_GPU_INDICES"] = ",".join(str(all_ids.index(i)) for i in own_ids)


def _kill(actor: Any) -> None:
    with contextlib.suppress(Exception):
        ray.kill(actor)
