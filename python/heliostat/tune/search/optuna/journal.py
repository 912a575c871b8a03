"""The journal of an Optuna storage in the key-value table of the cluster's head.

Each operation has a key, ``<name>/<number>``. The head puts a key only where there is none, so that of two
processes that append at once one is refused and takes the next number. A number is tried only when the one
before is taken: there are no gaps, and the first number without a key is the end.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from optuna.storages import JournalStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import TrialState

from heliostat.experimental import internal_kv

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

NAMESPACE = "_optuna_journals"
BEATS = "_optuna_heartbeats"


class HeadJournal(BaseJournalBackend):  # type: ignore[misc] # not typed
    """Appends to a journal that all processes of the cluster share, and reads it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._end = 0  # every number below is taken

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """The operations from that number on."""
        number = log_number_from
        while (
            text := internal_kv._internal_kv_get(self._key(number), namespace=NAMESPACE)
        ) is not None:
            number += 1
            self._end = max(self._end, number)
            yield json.loads(text)["log"]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations; when this returns, the head has them."""
        for log in logs:
            # The mark tells an operation from an equal one of another process.
            text = json.dumps({"log": log, "mark": uuid.uuid4().hex}).encode()
            while not self._put(text):
                pass

    def _put(self, text: bytes) -> bool:
        """Whether the operation has the next number."""
        key = self._key(self._end)
        taken = internal_kv._internal_kv_put(key, text, overwrite=False, namespace=NAMESPACE)
        self._end += 1
        # A put that was sent again, to a head that restarted, finds itself.
        return not taken or internal_kv._internal_kv_get(key, namespace=NAMESPACE) == text

    def _key(self, number: int) -> str:
        return f"{self._name}/{number:012d}"


class HeadStorage(JournalStorage, BaseHeartbeat):  # type: ignore[misc] # not typed
    """A storage whose journal is with the head, as the last sign of life of each running trial is.

    Of the signs there is one key for each trial, ``<name>/<trial's number in the storage>``, with the time
    by the clock of its process. It goes with the trial.
    """

    def __init__(
        self,
        name: str,
        interval_s: int | None,
        grace_s: int | None,
        failed: Callable[[Study, FrozenTrial], None] | None,
    ) -> None:
        super().__init__(HeadJournal(name))
        self._name, self._interval_s, self._failed = name, interval_s, failed
        self._grace_s = grace_s or 2 * (interval_s or 0)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """As the journal's own; the sign of life of a trial that has ended goes."""
        done = bool(super().set_trial_state_values(trial_id, state, values))
        if self._interval_s is not None and state.is_finished():
            internal_kv._internal_kv_del(self._beat(trial_id), namespace=BEATS)
        return done

    def record_heartbeat(self, trial_id: int) -> None:
        """The process of a trial lives."""
        now = str(time.time()).encode()
        internal_kv._internal_kv_put(self._beat(trial_id), now, overwrite=True, namespace=BEATS)

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        """The running trials that have given no sign of life for too long; not those that never gave one."""
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        oldest = time.time() - self._grace_s
        stale = []
        for trial in running:
            seen = internal_kv._internal_kv_get(self._beat(trial._trial_id), namespace=BEATS)
            if seen is not None and float(seen) < oldest:
                stale.append(trial._trial_id)
        return stale

    def get_heartbeat_interval(self) -> int | None:
        """Seconds between two signs of life; None: there are none."""
        return self._interval_s

    def get_heartbeat_stale_trial_callback(self) -> Callable[[Study, FrozenTrial], None] | None:
        """The callback for a trial that has failed for want of heartbeats."""
        return self._failed

    def get_failed_trial_callback(self) -> Callable[[Study, FrozenTrial], None] | None:
        """The same, by the name that Optuna had for it before version 4.9."""
        return self._failed

    def _beat(self, trial_id: int) -> str:
        return f"{self._name}/{trial_id}"
