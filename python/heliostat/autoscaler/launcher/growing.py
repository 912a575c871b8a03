"""The autoscaler beside the head of a cluster in a cloud: makes its other machines, sets them up, ends them.

``Growing`` is the provider of the loop in ``heliostat/autoscaler/loop.py``. Threads do what takes long.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from heliostat.autoscaler.launcher.cloud import Cloud, CloudMachine
from heliostat.autoscaler.launcher.config import Config
from heliostat.autoscaler.launcher.node_types import NodeTypes
from heliostat.autoscaler.launcher.providers import Host
from heliostat.autoscaler.launcher.remote import RemoteError
from heliostat.autoscaler.model import Failure, Instance, NodeType

logger = logging.getLogger(__name__)

# So many machines are set up at once.
_AT_ONCE = 32
# How long a machine that was set up may be without a node until it is set up again, in seconds.
RECOVER_S = 60.0
# How often that is done before the machine is ended.
_RECOVERIES_MAX = 2
# How long no more of a kind is asked for after it failed: the first time, and at most, in seconds.
_PAUSE_S = 5.0
_PAUSE_S_MAX = 300.0
# A failure is shown for so long, in seconds.
_SHOWN_S = 1800.0
# A cloud may not know yet for so long what it has just made, in seconds.
_UNKNOWN_S = 120.0
# So many machines are asked for at once, however few there are.
_LAUNCHES_MIN = 5


@dataclass
class _Kept:
    """The state of one machine beside what its cloud tells."""

    instance: Instance
    made_at: float
    is_busy: bool = False
    # When its node was last there, or when it was set up.
    well_at: float = 0.0
    recoveries: int = 0


@dataclass
class _Pause:
    until: float
    failures: int


class Growing:
    """See ``Provider`` of the autoscaler. ``set_up`` starts a machine's node and raises ``RemoteError``."""

    def __init__(
        self,
        config: Config,
        kinds: NodeTypes,
        cloud: Cloud,
        *,
        addressed: Callable[[str], Host],
        set_up: Callable[[Host], None],
        now: Callable[[], float] = time.monotonic,
        moment: Callable[[], float] = time.time,
    ) -> None:
        most = [kind.most for kind in kinds.workers.values()]
        self._workers_max = sum(most) if config.max_workers is None else config.max_workers
        self._config, self._kinds, self._cloud = config, kinds, cloud
        self._addressed, self._set_up = addressed, set_up
        self._now, self._moment = now, moment
        self._pool = ThreadPoolExecutor(_AT_ONCE, "machine")
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        # Asked of the cloud by a thread, which has no answer yet.
        self._under_way: Counter[str] = Counter()
        self._ending: dict[str, float] = {}
        self._pauses: dict[str, _Pause] = {}
        self._failures: list[Failure] = []

    # --- what there may be

    def types(self) -> dict[str, NodeType]:
        """The kinds of machines; of one that has just failed no more are to be had than there are."""
        found = {}
        there = self._counts()
        for name, kind in self._kinds.workers.items():
            own = NodeType(
                name,
                {key: value for key, value in self._cloud.resources(kind).items() if value > 0},
                dict(kind.labels),
                least=kind.least,
                most=kind.most,
            )
            with self._lock:
                pause = self._pauses.get(name)
            if pause is not None and self._now() < pause.until:
                has = there[name]
                own = replace(own, least=min(own.least, has), most=min(own.most, has))
            found[name] = own
        return found

    def idle_timeout_s(self) -> float:
        """``idle_timeout_minutes``, in seconds."""
        return self._config.idle_timeout_s

    def more_max(self) -> int | None:
        """The number of further machines that ``max_workers`` and ``upscaling_speed`` allow."""
        with self._lock:
            has = len(self._kept) + self._under_way.total()
            coming = self._under_way.total() + sum(one.well_at == 0 for one in self._kept.values())
        step = max(_LAUNCHES_MIN, math.ceil(self._config.upscaling_speed * (has - coming)))
        return max(min(self._workers_max - has, step - coming), 0)

    def failures(self) -> list[Failure]:
        """The failures of the last half hour."""
        with self._lock:
            shown = self._moment() - _SHOWN_S
            self._failures = [one for one in self._failures if one.moment >= shown]
            return list(self._failures)

    # --- what there is

    def asked(self) -> dict[str, int]:
        """Return the number of machines of each kind that are there or were asked for."""
        self._look()
        return dict(self._counts())

    def instances(self) -> list[Instance]:
        """Return the machines that are there or begin to be."""
        with self._lock:
            return [one.instance for one in self._kept.values()]

    def _counts(self) -> Counter[str]:
        with self._lock:
            counts = Counter(one.instance.type for one in self._kept.values())
            counts.update(self._under_way)
            return +counts

    def _look(self) -> None:
        """Ask the cloud what there is; what nobody has set up is."""
        found = {one.id: one for one in self._cloud.machines() if not one.is_head}
        now = self._now()
        with self._lock:
            for name in list(self._ending):
                if name not in found and now - self._ending[name] > _UNKNOWN_S:
                    del self._ending[name]
            for name, kept in list(self._kept.items()):
                is_new = now - kept.made_at < _UNKNOWN_S and kept.well_at == 0
                if name not in found and not is_new and not kept.is_busy:
                    logger.info("%s (%s) is gone.", name, kept.instance.type)
                    del self._kept[name]
            new = [one for one in found.values() if self._is_new(one)]
            for one in new:
                # The machine's node is there, or comes by itself: else the machine is set up again.
                self._kept[one.id] = _Kept(Instance(one.id, one.kind), now, well_at=now)

    def _is_new(self, one: CloudMachine) -> bool:
        is_known = one.id in self._kept or one.id in self._ending
        return one.kind in self._kinds.workers and not is_known

    def joined(self, instances: Collection[str]) -> None:
        """A machine whose node stays away is set up again, and ended if that does not help."""
        now = self._now()
        begin, end = [], []
        with self._lock:
            for name, kept in self._kept.items():
                if name in instances:
                    kept.well_at, kept.recoveries = now, 0
                    self._pauses.pop(kept.instance.type, None)
                elif not kept.is_busy and kept.well_at and now - kept.well_at > RECOVER_S:
                    if kept.recoveries == _RECOVERIES_MAX:
                        end.append(kept.instance)
                        continue
                    kept.recoveries += 1
                    kept.is_busy = True
                    begin.append(kept)
        for kept in begin:
            logger.info("%s has no node: it is set up again.", kept.instance.id)
            self._pool.submit(self._begin, kept)
        for one in end:
            self._failed(
                one.type, f"{one.id} was set up {_RECOVERIES_MAX + 1} times, and no node came."
            )
        if end:
            self.terminate(end)

    # --- made and ended

    def launch(self, wanted: Mapping[str, int]) -> None:
        """Ask the cloud, and set up what it makes."""
        for name, count in wanted.items():
            with self._lock:
                self._under_way[name] += count
            self._pool.submit(self._make, name, count)

    def _make(self, name: str, count: int) -> None:
        try:
            made = self._cloud.run(self._kinds.workers[name], count)
        except Exception as error:
            self._failed(name, _words(error))
            made = []
        now = self._now()
        kept = [_Kept(Instance(one, name), now, is_busy=True) for one in made]
        with self._lock:
            self._under_way[name] -= count
            self._kept.update({one.instance.id: one for one in kept})
        for one in kept:
            self._pool.submit(self._begin, one)

    def _begin(self, kept: _Kept) -> None:
        """Set one machine up. One that cannot be is ended."""
        one = kept.instance
        try:
            self._set_up(self._addressed(one.id))
        except Exception as error:
            self._failed(one.type, _words(error))
            self.terminate([one])
        else:
            logger.info("%s (%s) is set up.", one.id, one.type)
        with self._lock:
            kept.well_at, kept.is_busy = self._now(), False

    def terminate(self, instances: Sequence[Instance]) -> None:
        """Have the cloud end them, or put them aside."""
        with self._lock:
            for one in instances:
                self._kept.pop(one.id, None)
                self._ending[one.id] = self._now()
        self._pool.submit(self._end, [one.id for one in instances])

    def _end(self, ids: list[str]) -> None:
        try:
            self._cloud.release(ids)
        except OSError as error:
            logger.warning("%s: not ended: %s", ", ".join(ids), error)
            with self._lock:
                # The machines are found again, and ended when they are idle.
                for name in ids:
                    self._ending.pop(name, None)

    def _failed(self, kind: str, why: str) -> None:
        logger.warning("%s: %s", kind, why)
        with self._lock:
            before = self._pauses.get(kind)
            failures = 1 if before is None else before.failures + 1
            pause = min(_PAUSE_S * 2 ** (failures - 1), _PAUSE_S_MAX)
            self._pauses[kind] = _Pause(self._now() + pause, failures)
            self._failures = [*self._failures[-9:], Failure(kind, why, self._moment())]

    def close(self) -> None:
        """Stop: work under way ends with the process, and a new autoscaler sets the machines up."""
        with contextlib.suppress(RuntimeError):
            self._pool.shutdown(wait=False, cancel_futures=True)


def _words(error: Exception) -> str:
    """Return the words of a cloud's or a machine's error; an unexpected one goes to the log with
    its stack.
    """
    if isinstance(error, (OSError, RemoteError)):
        return str(error)
    logger.error("An unexpected error.", exc_info=error)
    return repr(error)
