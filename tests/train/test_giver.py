"""Handing state to keepers: what a rank tells them to drop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.heliostat_only("inside of the workers")
pytest.importorskip("torch")

from heliostat.train.memory import sender as sending  # noqa: E402
from heliostat.train.memory.versions import Version  # noqa: E402


class Keeper:
    """Notes what it is told to be whole."""

    def __init__(self) -> None:
        self.wholes: list[Version | None] = []
        self.keep = SimpleNamespace(remote=self._keep)

    def _keep(self, version: Version, rank: int, size: int, header: bytes, *more: Any) -> None:
        self.wholes.append(more[1])


def test_keepers_drop_only_what_is_older_than_a_whole_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TRAIN-MEMORY-1. What this rank has handed over since is not whole: others may die before."""
    monkeypatch.setattr(sending, "ray", SimpleNamespace(get=lambda call: call))
    keeper, answers = Keeper(), iter([None, Version(1, 0), None, Version(3, 0)])
    session: Any = SimpleNamespace(
        assignment=SimpleNamespace(memory_every=1, keepers=[keeper]),
        memory_kept=lambda version, part, parts: next(answers),
    )
    sender = sending.Sender(session, 0, 2)
    for step in (1, 2, 3, 4):
        sender.begin(Version(step, 0), b"", None)
    sender.wait()
    assert keeper.wholes == [None, None, Version(1, 0), Version(1, 0)]
