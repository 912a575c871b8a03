"""When the driver starts a replica group again, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.heliostat_only("inside of the driver")

from heliostat.train.backend import Replicas  # noqa: E402
from heliostat.train.controller import replacing  # noqa: E402
from heliostat.train.controller.failures import RankFailure  # noqa: E402


@pytest.mark.contract("F9.09")
def test_a_group_that_fails_again_before_it_is_in_is_given_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its restarts are used up within moments, where its storage is away."""
    now = [100.0]
    monkeypatch.setattr(replacing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    started: list[float] = []

    class Group(SimpleNamespace):
        def __len__(self) -> int:
            return 2

    def start(rank: int, incarnation: int) -> Any:
        started.append(now[0])
        return object()

    group: Any = Group(renew=lambda rank: object())
    yes: Any = lambda *_: True  # noqa: E731
    replacer = replacing.Replacer(
        group, Replicas(1, 1, None, 30.0), 5.0, yes, start, yes, lambda f: None, lambda r: None
    )
    refs: dict[Any, int] = {object(): 0}

    def fails(died: bool = False) -> float | None:
        for ref in [ref for ref, rank in refs.items() if rank == 1]:
            del refs[ref]
        assert replacer.lost(RankFailure(1, OSError("away"), died=died), refs, True)
        return replacer.tick(refs)

    assert fails() is None, "the first time it is started again at once"
    assert fails() is None
    assert fails() == 1.0
    assert len(started) == 2
    now[0] += 1.0
    assert replacer.tick(refs) is None
    assert started == [100.0, 100.0, 101.0]
    assert fails(died=True) is None, "who has died has not failed"
    replacer.admitted([1])
    assert fails() is None, "it was in"
