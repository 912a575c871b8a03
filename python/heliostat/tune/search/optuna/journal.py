"""The journal of an Optuna storage in the key-value table of the cluster's head.

Each operation has a key, ``<name>/<number>``. The head puts a key only where there is none, so that of two
processes that append at once one is refused and takes the next number. A number is tried only when the one
before is taken: there are no gaps, and the first number without a key is the end.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from optuna.storages.journal import BaseJournalBackend

from heliostat.experimental import internal_kv

NAMESPACE = "_optuna_journals"


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
