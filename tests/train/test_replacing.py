"""When the driver starts a replica group again, without processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

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

    group: Any = Group(renew=lambda rank, elsewhere: object(), recruits=SimpleNamespace(ready=0))
    yes: Any = lambda *_: True  # noqa: E731
    nothing: Any = lambda _: None  # noqa: E731
    replacer = replacing.Replacer(
        group, Replicas(1, 1, None, 30.0), 5.0, yes, start, yes, nothing, nothing, grow=nothing
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


@pytest.mark.contract("F9.09")
def test_a_group_that_is_lost_behind_the_last_step_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot join any more: its peers' last report is complete without it."""
    from heliostat.train.coordinator import actor
    from heliostat.train.coordinator.checkpoint_book import CheckpointBook
    from heliostat.train.messages import ReportEntry
    from heliostat.train.replicas.messages import Join, Progress
    from heliostat.train.settings import TrainSettings
    from heliostat.train.storage.local import LocalStorage

    monkeypatch.setattr(actor, "open_store", lambda: ("host", 1, None))

    async def scenario() -> None:
        storage = LocalStorage(str(tmp_path / "run"), None, False)
        storage.prepare()
        settings = replace(TrainSettings.from_environment(), view="off")
        coordinator = actor.TrainCoordinator(storage, CheckpointBook(), settings, False)
        await coordinator.begin(0, 2)
        await coordinator.begin_replicas(2, 1, 1, True)
        same = (("w", (1,), "float"),)
        joins = [coordinator.replica_join(0, r, 0, Join(same, f"at {r}")) for r in range(2)]
        await asyncio.wait_for(asyncio.gather(*joins), 60)
        await coordinator.replica_finish(0, 0, 0, Progress(0))
        report = asyncio.ensure_future(coordinator.report(0, 0, 0, ReportEntry({"a": 1})))
        # One that is there still goes on, and comes to the report.
        assert not await coordinator.replica_lost(0, 1, is_gone=False)
        await asyncio.sleep(0)
        assert not report.done()
        assert not await coordinator.replica_lost(0, 1)
        assert (await asyncio.wait_for(report, 60)).go_on
        await coordinator.end()

    asyncio.run(scenario())


@pytest.mark.contract("F9.09")
def test_who_died_is_named_though_peers_tell_of_their_broken_connections_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from heliostat.train.controller import attempt
    from heliostat.train.messages import Outcome

    died, broken = object(), object()
    answers: dict[Any, Any] = {
        broken: Outcome(ok=False, error=RuntimeError("Connection closed by peer")),
        died: ray.exceptions.RayActorError("killed by signal 9"),
    }

    def get(ref: Any) -> Any:
        if isinstance(answers[ref], Exception):
            raise answers[ref]
        return answers[ref]

    def wait(refs: list[Any], *, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        """One after the other, however many are asked for."""
        first = broken if broken in refs else died
        return ([first] if first in refs else []), []

    told: list[tuple[int, str]] = []
    monkeypatch.setattr(
        attempt, "ray", SimpleNamespace(wait=wait, get=get, exceptions=ray.exceptions)
    )
    workers = [SimpleNamespace(rank=rank, info=None) for rank in range(2)]
    nothing: Any = lambda *_: None  # noqa: E731
    runner = attempt.AttemptRunner(
        SimpleNamespace(workers=workers),  # type: ignore[arg-type]
        SimpleNamespace(end=SimpleNamespace(remote=nothing)),
        SimpleNamespace(listen=lambda: 1.0, pending=None),  # type: ignore[arg-type]
        60.0,
        nothing,
        lambda worker, how: told.append((worker.rank, how)),  # type: ignore[attr-defined]
        nothing,
        SimpleNamespace(tick=nothing, refs=list, is_overdue=False, take=nothing),  # type: ignore[arg-type]
    )
    result = runner.wait([died, broken])
    assert {(f.rank, f.died) for f in result.failures} == {(0, True), (1, False)}
    assert told == [(1, "failed"), (0, "died")]


def test_groups_that_were_not_back_are_named_with_the_one_that_ends_the_attempt() -> None:
    from heliostat.train.config import FailureConfig
    from heliostat.train.controller.failures import FailurePolicy, describe

    losses = [RankFailure(rank, OSError("killed by signal 9"), died=True) for rank in range(2)]
    text = describe(losses[:1], 2, FailurePolicy(FailureConfig()), not_replaced=losses[1:])
    assert "1 of 2 workers died" in text
    assert "rank 1 died: killed by signal 9, before that, and was not replaced yet" in text


def test_what_is_more_than_a_broken_connection_comes_first() -> None:
    from heliostat.train.controller.failures import by_cause

    broken = RankFailure(0, RuntimeError("[pair.cc:561] Connection closed by peer [10.0.0.1]:2"))
    cause = RankFailure(1, ValueError("of the loop"))
    death = RankFailure(2, OSError("killed by signal 9"), died=True)
    assert by_cause([broken, cause, death]) == [death, cause, broken]
    assert broken.title() == "rank 0 raised RuntimeError: its connection to another rank broke"


def test_what_all_ranks_raise_is_shown_once() -> None:
    from heliostat.train.config import FailureConfig
    from heliostat.train.controller.failures import FailurePolicy, describe

    error = RuntimeError(
        'Error(s) in loading state_dict:\n\tMissing key(s): "bias".\n\tsize mismatch'
    )
    same = "Traceback (most recent call last):\nRuntimeError: Error(s)"
    failures = [RankFailure(rank, error, same) for rank in range(3)]
    failures.append(RankFailure(3, ValueError("of the loop"), "Traceback of rank 3"))
    text = describe(failures, 4, FailurePolicy(FailureConfig()))
    title = 'raised RuntimeError: Error(s) in loading state_dict: Missing key(s): "bias".'
    assert failures[0].title() == f"rank 0 {title}"
    assert text.count(same) == 1
    loaded = IndexError(
        "Caught it in worker 0.\nOriginal Traceback (most ...):\n  File\nIndexError: row 3"
    )
    assert (
        RankFailure(0, loaded)
        .title()
        .endswith("IndexError: Caught it in worker 0. IndexError: row 3")
    )
    assert f"\nRanks 0, 1, 2:\n{same}" in text
    assert "\nRank 3:\nTraceback of rank 3" in text
