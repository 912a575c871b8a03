"""The actors of a run. Starting fills the empty places only, so a restart replaces what failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.train.config import ScalingConfig
from heliostat.train.errors import WorkerStartError
from heliostat.train.group.cluster import why_infeasible, why_waiting
from heliostat.train.group.placement import Reservation, actor_options, labels_of
from heliostat.train.group.ranks import Ranks, order_by_node, ranks_of
from heliostat.train.group.recruits import Recruits
from heliostat.train.messages import WorkerInfo
from heliostat.train.worker.actor import TrainWorker

# First and later looks at a group that does not start, in seconds.
_FIRST_NOTE_S, _NEXT_NOTE_S = 5.0, 30.0
# Room that was free a moment ago and does not come within so many seconds went to somebody else.
_ROOM_S = 2.0
# Room for a worker that moves is there within so many seconds, or the worker stays where it was.
_ELSEWHERE_S = 1.0
# How long workers may take to say that they live.
_ANSWER_S = 5.0
# How long other workers may take to fail as one just has.
_ALIKE_S = 1.0
# How often a run that has lost its room looks for it.
_LOOK_S = 0.5


@dataclass
class Worker:
    """A worker process and where it runs."""

    actor: Any
    info: WorkerInfo
    rank: int | None = None
    fresh: bool = True
    # Workers of an elastic group, and those that have moved, have their room one by one.
    room: Reservation | None = None
    # The worker takes the place of another, and has not said yet where it runs: it may wait for room.
    is_awaited: bool = False


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
        unit: int = 1,
    ) -> None:
        self._scaling = scaling
        # An elastic group has a multiple of so many workers.
        self.unit = unit
        self._runtime_env = runtime_env
        self._preload = preload
        self._start_timeout_s = start_timeout_s
        self._note = note
        self._waiting = waiting
        self._reservation = Reservation()
        self._reserved = 0
        self._starting: list[Any] = []
        # Placement groups of workers that start, each its own; None: a part of the group's.
        self._rooms: list[Reservation | None] = []
        # Nodes that workers leave with the next start, where there is room elsewhere.
        self._left: list[str] = []
        # Workers that start while the others train.
        self.recruits = Recruits(scaling, self._create_in, note)
        self.workers: list[Worker] = []
        self.ranks: list[Ranks] = []

    def __len__(self) -> int:
        return len(self.workers)

    # ---- starting and ending ----

    def start(self, size: int) -> int:
        """Bring the group to ``size`` workers: keep those that are there, create the others.

        Returns how many there are: an elastic group gets fewer when its room went to somebody else.

        Raises:
            WorkerStartError: The cluster can never hold them, or they did not start in time.
        """
        why = why_infeasible(self._scaling, size)
        if why is not None:
            raise WorkerStartError(why)
        for worker in self.workers[size:]:
            _end(worker)
        kept = self.workers[:size] + self._adopt(size - len(self.workers))
        try:
            if self._scaling.elasticity_enabled:
                size = len(kept) + self._reserve_each(size, len(kept))
                size -= self._leave_out(size % self.unit, kept)
            else:
                self._reserve(size)
                self._rooms = [self._place(index) for index in range(len(kept), size)]
            self._starting = [self._create(i, len(kept)) for i in range(len(kept), size)]
            infos = self._wait([a.info.remote() for a in self._starting], size, True)
        except BaseException:
            self._drop_starting()
            raise
        made = zip(self._starting, infos, self._rooms, strict=True)
        found = kept + [Worker(actor, info, room=room) for actor, info, room in made]
        self._starting, self._rooms = [], []
        order = order_by_node([w.info.node_id for w in found], [w.rank for w in found])
        self.workers = [found[i] for i in order]
        self.ranks = ranks_of([w.info.node_id for w in self.workers])
        for rank, worker in enumerate(self.workers):
            worker.rank = rank
        return size

    def _adopt(self, missing: int) -> list[Worker]:
        """The recruits that take places; the others make room for whoever is started now."""
        recruits = self.recruits
        if missing > 0:
            recruits.wait(min(missing, recruits.with_room), self._waiting, self._start_timeout_s)
        adopted = [
            Worker(r.actor, r.info, room=r.room)
            for r in recruits.adopt(missing)
            if r.info is not None
        ]
        recruits.want([])
        return adopted

    def wait_for_room(self, size: int) -> None:
        """Wait until the cluster could hold ``size`` workers, but no longer than a start may take."""
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline and why_infeasible(self._scaling, size) is not None:
            time.sleep(_LOOK_S)
            self._waiting()

    def _reserve(self, size: int) -> None:
        """A group of a fixed size gets its room at once."""
        if self._reserved == size or size == 0:
            return
        ready = self._reservation.reserve(self._scaling, range(size))
        self._reserved = size
        self._wait([ready], size, False)

    def _place(self, index: int) -> Reservation | None:
        """Room on another node for who takes the place of one that leaves its node, if there is some."""
        return self._elsewhere(index, self._left.pop()) if self._left else None

    def _elsewhere(self, index: int, node_id: str) -> Reservation | None:
        """Room on another node, where there is some at once."""
        room = Reservation()
        placed, _ = ray.wait([room.reserve(self._scaling, [index], node_id)], timeout=_ELSEWHERE_S)
        if placed:
            return room
        room.release()
        return None

    def _reserve_each(self, size: int, there: int) -> int:
        """The new workers of an elastic group get what room there is; how many find some.

        Those who take the places of others that leave their nodes get it elsewhere, where there is some.

        Others may have taken room since the cluster was looked at. Only ``min_workers`` wait for more.
        """
        self._rooms = []
        for index in range(there, min(size, there + len(self._left))):
            room = self._place(index)
            if room is not None:
                self._rooms.append(room)
        elsewhere = [*self._rooms]
        first = there + len(elsewhere)
        if first == size:
            return len(elsewhere)
        rooms = [Reservation() for _ in range(first, size)]
        self._rooms += rooms
        refs = [
            room.reserve(self._scaling, range(index, index + 1))
            for index, room in zip(range(first, size), rooms, strict=True)
        ]
        placed, _ = ray.wait(refs, num_returns=len(refs), timeout=_ROOM_S)
        least = min(self._scaling.min_workers - first, len(refs))
        if len(placed) < least:
            placed = self._wait_for(refs, least, size, False)
        has_room = [ref in placed for ref in refs]
        for room in [room for room, has in zip(rooms, has_room, strict=True) if not has]:
            room.release()
        self._rooms = [*elsewhere, *(r for r, has in zip(rooms, has_room, strict=True) if has)]
        if len(placed) < len(refs):
            self._note(
                f"the group starts with {first + len(placed)} of {size} workers: "
                "the rest of the room is in use by others"
            )
        return len(self._rooms)

    def _leave_out(self, count: int, kept: list[Worker]) -> int:
        """Do without so many workers, those first that have no process yet."""
        for _ in range(count):
            room = self._rooms.pop() if self._rooms else None
            if room is not None:
                room.release()
            else:
                _end(kept.pop())
        return count

    def _create(self, index: int, there: int) -> Any:
        room = self._rooms[index - there]
        if room is not None:
            return self._create_in(index, room.options(0))
        return self._create_in(index, self._reservation.options(self._bundle(index)))

    def _create_in(self, index: int, place: dict[str, Any]) -> Any:
        """Start a worker in reserved room."""
        scaling = self._scaling
        options = {**actor_options(scaling.worker_resources), **place}
        if self._runtime_env:
            options["runtime_env"] = self._runtime_env
        if scaling.accelerator_type:
            options["accelerator_type"] = scaling.accelerator_type
        selector = labels_of(scaling, index)
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
        if refs:
            self._wait_for(refs, len(refs), size, placed)
        result: list[Any] = ray.get(refs)
        return result

    def _wait_for(self, refs: list[Any], count: int, size: int, placed: bool) -> list[Any]:
        """The refs that are ready, once ``count`` are."""
        start = time.monotonic()
        next_note = start + _FIRST_NOTE_S
        while True:
            ready, pending = ray.wait(refs, num_returns=len(refs), timeout=0.5)
            self._waiting()
            if len(ready) >= count:
                return ready
            now = time.monotonic()
            if now > next_note:
                next_note = now + _NEXT_NOTE_S
                what = why_waiting(self._scaling, len(pending), placed)
                self._note(f"{size - len(pending)} of {size} workers are ready; {what}.")
            if now - start > self._start_timeout_s:
                what = why_waiting(self._scaling, len(pending), placed)
                raise WorkerStartError(
                    f"{len(pending)} of {size} workers did not start within "
                    f"{self._start_timeout_s:g} s (RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S): {what}."
                )

    def _drop_starting(self) -> None:
        for actor in self._starting:
            _kill(actor)
        for room in self._rooms:
            if room is not None:
                room.release()
        self._starting, self._rooms = [], []

    def renew(self, rank: int, elsewhere: bool = False) -> Any:
        """Put a fresh worker in the place of ``rank``, without waiting for it.

        ``elsewhere``: on another node, where there is room. Returns a ref to its ``WorkerInfo``; until it is
        there, the worker has that of the old one.
        """
        old = self.workers[rank]
        found = self._elsewhere(rank, old.info.node_id) if elsewhere else None
        room = old.room if found is None else found
        if found is not None:
            _end(old)
        else:
            _kill(old.actor)
        place = self._reservation.options(-1) if room is None else room.options(0)
        actor = self._create_in(rank, place)
        self.workers[rank] = Worker(actor, old.info, rank, room=room, is_awaited=True)
        return actor.info.remote()

    def enlarge(self, count: int) -> range:
        """Take in ``count`` recruits beside those who train; returns their ranks.

        None where the group would have more than ``max_workers``, or some have died.
        """
        first = len(self.workers)
        if first + count > self._scaling.max_workers:
            return range(0)
        adopted = self.recruits.adopt(count)
        if len(adopted) < count:
            self.recruits.put_back(adopted)
            return range(0)
        for rank, recruit in enumerate(adopted, first):
            assert recruit.info is not None
            self.workers.append(Worker(recruit.actor, recruit.info, rank, room=recruit.room))
        self.ranks = ranks_of([w.info.node_id for w in self.workers])
        return range(first, len(self.workers))

    def keep(self, ranks: set[int], leaving: Collection[int] = ()) -> None:
        """End the workers whose ranks are not among ``ranks``.

        Those who take the places of the ranks ``leaving`` begin on other nodes, where there is room.
        """
        self._left = [w.info.node_id for w in self.workers if w.rank in leaving]
        for worker in self.workers:
            if worker.rank not in ranks:
                _end(worker)
        self.workers = [w for w in self.workers if w.rank in ranks]
        for worker in self.workers:
            worker.fresh = False

    def stop(self) -> None:
        """End all workers and give their room back."""
        self.keep(set())
        self.recruits.close()
        self._drop_starting()
        self._reservation.release()
        self._reserved = 0

    # ---- what backends use ----

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call ``function`` on every worker; returns the refs in the order of the ranks."""
        return [w.actor.execute.remote(function, *args, **kwargs) for w in self.workers]

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call ``function`` on every worker; returns the results in the order of the ranks."""
        return self.results(self.execute_async(function, *args, **kwargs))

    def results(self, refs: list[Any]) -> list[Any]:
        """Return the results of calls on several workers. Raises the first error, others are not told."""
        try:
            found: list[Any] = ray.get(refs)
        except ray.exceptions.RayError:
            # An error that nobody has read would be printed as unhandled.
            for ref in ray.wait(refs, num_returns=len(refs), timeout=_ALIKE_S)[0]:
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.get(ref)
            raise
        return found

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

    def lose_dead(self) -> list[Worker] | None:
        """Forget the workers that are dead; None where one of them had run the function before."""
        asked = {worker.actor.info.remote(): worker for worker in self.workers}
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)
        dead = []
        for ref in answered:
            try:
                ray.get(ref)
            except ray.exceptions.RayError:
                dead.append(asked[ref])
        self.workers = [worker for worker in self.workers if worker not in dead]
        for worker in dead:
            _end(worker)
        return None if any(not worker.fresh for worker in dead) else dead

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


def _end(worker: Worker) -> None:
    _kill(worker.actor)
    if worker.room is not None:
        worker.room.release()
