"""Times of steps, without any process: the clock of a rank, who is slow, and how it is shown."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

pytest.importorskip("heliostat.train")

from heliostat.train.config import FailureConfig
from heliostat.train.controller.page_row import explained
from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.summary import summary
from heliostat.train.coordinator.steps import StepMonitor
from heliostat.train.steps.clock import StepClock
from heliostat.train.steps.messages import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    FORWARD,
    PHASES,
    REPORT,
    Beat,
    StepTimes,
)
from heliostat.train.steps.pace import MAX_REPLACEMENTS, Pace, compared, sentence
from heliostat.train.view.steps import steps

pytestmark = pytest.mark.heliostat_only("Ray takes no times of steps")


class Hand:
    """Moments that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0
        self.come = float("inf")

    def now(self) -> float:
        return self.at

    def has_come(self, moment: float) -> bool:
        return moment <= self.come

    def seconds(self, first: float, second: float) -> float:
        return second - first


def by_phase(beat: Beat) -> dict[str, float]:
    return {name: spent for name, spent in zip(PHASES, beat.spent, strict=True) if spent}


def take_step(clock: StepClock, hand: Hand) -> None:
    before = clock.batch_wanted()
    hand.at += 3
    clock.enter(before)
    hand.at += 5  # the forward pass
    before = clock.enter(BACKWARD)
    hand.at += 7
    clock.enter(COMMUNICATION)
    hand.at += 11
    clock.enter(before)
    clock.optimizer_begins()
    hand.at += 2
    clock.optimizer_ended()


def test_a_step_is_from_batch_to_batch() -> None:
    hand = Hand()
    clock = StepClock(hand)
    take_step(clock, hand)
    assert clock.beat().count == 0
    with clock.within(REPORT):
        hand.at += 1
        with clock.within(COMMUNICATION):
            hand.at += 4
    clock.reported()
    take_step(clock, hand)
    beat = clock.beat()
    assert (beat.steps, beat.count) == (1, 1)
    assert by_phase(beat) == {
        "data": 3,
        "forward": 5,
        "backward": 7,
        "communication": 11 + 4,
        "optimizer": 2,
        "report": 1,
    }
    clock.batch_wanted()
    assert by_phase(clock.beat())["communication"] == 11
    assert clock.beat().count == 0


def test_micro_batches_are_one_step() -> None:
    hand = Hand()
    clock = StepClock(hand)
    for _ in range(3):
        before = clock.batch_wanted()
        hand.at += 1
        clock.enter(before)
        before = clock.enter(BACKWARD)
        hand.at += 2
        clock.enter(before)
    clock.optimizer_begins()
    clock.optimizer_ended()
    clock.batch_wanted()
    beat = clock.beat()
    assert beat.count == 1
    assert by_phase(beat) == {"data": 3, "backward": 6}


def test_without_batches_a_step_ends_with_the_optimizer_and_without_one_with_the_report() -> None:
    hand = Hand()
    clock = StepClock(hand)
    for _ in range(2):
        hand.at += 1
        clock.optimizer_begins()
        hand.at += 2
        clock.optimizer_ended()
        clock.reported()
    beat = clock.beat()
    assert beat.count == 2
    assert by_phase(beat) == {"forward": 2, "optimizer": 4}
    clock = StepClock(hand)
    with clock.within(REPORT):
        hand.at += 1
    clock.reported()
    assert by_phase(clock.beat()) == {"report": 1}


def test_a_device_that_lags_behind_is_not_waited_for() -> None:
    hand = Hand()
    hand.come = -1.0
    clock = StepClock(hand)
    for _ in range(1000):
        hand.at += 1
        clock.optimizer_begins()
        clock.optimizer_ended()
    assert clock.beat().count == 0
    hand.come = float("inf")
    clock.optimizer_begins()
    clock.optimizer_ended()
    beat = clock.beat()
    assert beat.steps == 1001
    assert 0 < beat.count <= 64, "what waits is bounded"


def test_a_loop_that_never_steps_keeps_little() -> None:
    clock = StepClock()
    for _ in range(200_000):
        clock.enter(clock.enter(DATA))
    assert len(clock._marks) <= 65_536 + 1


def test_other_threads_are_not_timed() -> None:
    hand = Hand()
    clock = StepClock(hand)

    def upload() -> None:
        with clock.within(COMMUNICATION):
            hand.at += 100
        clock.reported()

    thread = threading.Thread(target=upload)
    thread.start()
    thread.join()
    assert clock.phase == FORWARD
    assert clock.beat().steps == 0
    clock.optimizer_begins()
    clock.optimizer_ended()
    assert by_phase(clock.beat()) == {"forward": 100}


# ---- who is slow ----


class Run:
    """Ranks that tell of their steps once a second."""

    def __init__(self, ranks: int, pace: Pace) -> None:
        self.now, self.steps, self.ranks, self.pace = 0.0, 0, ranks, pace
        self.heard: list[Any] = []

    def go(self, seconds: int, slow: dict[int, float] | None = None) -> list[Any]:
        """All ranks work 0.1 s a step, but for those that are slow; fast ones wait for the slow."""
        slow = slow or {}
        longest = max([0.1, *slow.values()])
        heard = []
        for _ in range(seconds):
            self.now += 1
            self.steps += 5
            for rank in range(self.ranks):
                own = slow.get(rank, 0.1)
                spent = [0.0] * len(PHASES)
                spent[FORWARD], spent[COMMUNICATION] = own * 5, (longest - own) * 5
                beat = Beat(self.steps, FORWARD, 0.0, 5, tuple(spent))
                self.pace.beat(rank, beat, self.now)
            found = self.pace.look(self.now)
            if found is not None:
                heard.append((self.now, found.rank, found.replace))
                if found.replace:
                    self.pace.replaced(found.rank)
        return heard


def test_a_rank_is_slow_that_needs_longer_itself_for_long_enough() -> None:
    run = Run(4, Pace(4, 1.5, 10.0))
    assert run.go(60) == []
    heard = run.go(20, {2: 0.3})
    assert [(rank, replace) for _, rank, replace in heard] == [(2, True)]
    assert heard[0][0] >= 60 + 10


def test_a_slow_phase_that_passes_is_none() -> None:
    run = Run(4, Pace(4, 1.5, 60.0))
    for _ in range(5):  # an evaluation of rank 0, say
        assert run.go(30, {0: 1.0}) == []
        assert run.go(60) == []


def test_a_rank_around_the_limit_stays_slow_until_it_is_well_below() -> None:
    """Hysteresis: the factor is 2, so a rank is fast again at 1.5 times the others' median."""
    pace = Pace(3, 2.0, 40.0)
    run = Run(3, pace)
    run.go(20, {1: 0.3})
    run.go(20, {1: 0.18})  # below the factor, above the way back
    assert [rank for _, rank, _ in run.go(20, {1: 0.3})] == [1]
    run = Run(3, Pace(3, 2.0, 40.0))
    run.go(20, {1: 0.3})
    run.go(20, {1: 0.12})
    assert run.go(30, {1: 0.3}) == []


def test_ranks_are_replaced_one_at_a_time_and_all_are_measured_anew() -> None:
    run = Run(5, Pace(5, 1.5, 10.0))
    heard = run.go(60, {1: 0.5, 3: 0.4})
    assert [rank for _, rank, _ in heard[:2]] == [1, 1], "the slowest, which is so again"
    assert heard[1][0] - heard[0][0] >= 10
    # Where all are slow, nobody is.
    run = Run(4, Pace(4, 1.5, 10.0))
    assert run.go(60, dict.fromkeys(range(4), 0.9)) == []
    # Nobody is judged while the times of some rank are not known.
    pace = Pace(3, 1.5, 0.0)
    for at in range(10):
        for rank in (0, 1):
            spent = [0.0] * len(PHASES)
            spent[FORWARD] = 5.0 * (rank + 1)
            pace.beat(rank, Beat(at * 5, FORWARD, 0.0, 5, tuple(spent)), float(at))
        assert pace.look(float(at)) is None


def test_a_rank_that_stays_slow_is_not_replaced_for_ever() -> None:
    counts: dict[int, int] = {}
    replaced, named = 0, []
    for _ in range(4):  # attempts
        run = Run(3, Pace(3, 1.5, 10.0, counts))
        for _, _, replace in run.go(100, {0: 0.6}):
            replaced += replace
            named += [] if replace else [True]
    assert replaced == MAX_REPLACEMENTS
    assert len(named) == 4, "once in each attempt that begins or goes on so"


def test_long_steps_are_compared_too() -> None:
    """Steps of a minute: the window holds some of them nevertheless."""
    pace = Pace(2, 1.5, 60.0)
    heard = []
    for step in range(1, 12):
        for rank in range(2):
            spent = [0.0] * len(PHASES)
            spent[FORWARD] = 60.0 if rank else 20.0
            pace.beat(rank, Beat(step, FORWARD, 0.0, 1, tuple(spent)), step * 60.0)
        found = pace.look(step * 60.0)
        heard += [found.rank] if found else []
    assert heard[0] == 1


def test_without_the_option_a_slow_rank_is_named_once() -> None:
    run = Run(3, Pace(3))
    heard = run.go(200, {1: 0.4})
    assert [(rank, replace) for _, rank, replace in heard] == [(1, False)]


def step_monitor(failures: FailureConfig) -> tuple[StepMonitor, list[tuple[str, Any]]]:
    events: list[tuple[str, Any]] = []

    def emit(kind: str, data: Any) -> None:
        events.append((kind, data))

    made = StepMonitor(2, failures, {}, emit, lambda: emit("save", None))
    return made, events


def tell(made: StepMonitor, now: float, slow: float) -> None:
    for rank in range(2):
        spent = [0.0] * len(PHASES)
        spent[DATA] = 5 * (slow if rank else 0.1)
        made.beat(rank, Beat(int(now * 5), DATA, 0.0, 5, tuple(spent)), now)
    made.look(now)


def test_a_rank_that_catches_up_before_the_next_checkpoint_stays() -> None:
    made, events = step_monitor(FailureConfig(slow_rank_factor=2, slow_rank_after_s=5))
    for now in range(1, 12):
        tell(made, float(now), 0.5)
    notes = [data["text"] for kind, data in events if kind == "note"]
    assert len(notes) == 1
    assert "rank 1 takes 500 ms of its own for a step (most of it data, 500 ms)" in notes[0]
    assert notes[0].endswith("it is replaced after the next checkpoint")
    assert [kind for kind, _ in events].count("save") == 1
    for now in range(12, 60):
        tell(made, float(now), 0.1)
    notes = [data["text"] for kind, data in events if kind == "note"]
    assert notes[-1] == "rank 1 has caught up before it was replaced: it stays"
    assert not made.take_due()
    for now in range(60, 90):
        tell(made, float(now), 0.5)
    assert made.take_due()
    assert [data["rank"] for kind, data in events if kind == "slow"] == [1]
    assert not made.take_due()


@pytest.mark.parametrize("factor", [1, 0.5, -2, "2", float("nan"), True])
def test_a_factor_that_makes_no_sense(factor: Any) -> None:
    with pytest.raises(ValueError, match=r"slow_rank_factor=.* must be a number above 1"):
        FailureConfig(slow_rank_factor=factor)
    with pytest.raises(ValueError, match="slow_rank_after_s"):
        FailureConfig(slow_rank_after_s=-1)


def waits(rank: int, seconds: float) -> Beat:
    return Beat(7, COMMUNICATION if rank else DATA, seconds)


def test_ranks_for_which_others_wait_are_known_before_anything_times_out() -> None:
    pace = Pace(3)
    for rank in range(3):
        pace.beat(rank, waits(rank, 4.0), 100.0)
    assert pace.standstill(100.0, 10.0) is None
    # Rank 0 has stopped to tell: it does what it did.
    for rank in (1, 2):
        pace.beat(rank, waits(rank, 11.0), 107.0)
    assert pace.standstill(108.0, 10.0) == ([1, 2], [0], 12.0)
    # Where all wait, it is another matter.
    pace.beat(0, Beat(7, COMMUNICATION, 30.0), 108.0)
    assert pace.standstill(108.0, 10.0) is None
    made, _ = step_monitor(FailureConfig())
    for rank in range(2):
        made.beat(rank, waits(rank, 60.0), 100.0)
    assert made.standstill(100.0, 10.0) is not None
    assert made.standstill(105.0, 10.0) is None, "once in a while"
    assert made.standstill(111.0, 10.0) is not None


# ---- how it is shown ----


def record(times: list[StepTimes], **more: Any) -> RunRecord:
    made = RunRecord(name="run", run_id="r", path="/runs/run", config={}, **more)
    made.step_times = times
    return made


def uneven(ranks: int) -> list[StepTimes]:
    return [
        StepTimes(r, 40, (0.15 if r == 3 else 0.01, 0.02, 0.03, 0.0 if r == 3 else 0.14, 0.01, 0.0))
        for r in range(ranks)
    ]


def test_the_page_has_a_bar_for_each_rank() -> None:
    page = steps(record(uneven(8)))
    assert page.count('<text x="62') == 8
    assert page.count('class="phase"') == 8 * 5 - 1, "no part where a phase took no time"
    assert "Rank 3 takes 210 ms of its own for a step (most of it data, 150 ms)" in page
    assert steps(record([])) == ""
    page = steps(record(uneven(500)))
    assert page.count('<text x="62') == 64
    assert "rank 3<" in page, "the slowest are drawn"
    assert "436 ranks with shorter steps are not drawn" in page


def test_what_why_says_of_a_run() -> None:
    made = record(uneven(4), state="running", slow_replaced=1)
    made.notes.append((time.time(), "rank 3 is slow"))
    text = explained(made)
    assert "The training run run: running after" in text
    assert "rank 3 takes 210 ms of its own for a step" in text
    assert "3.0 times the median of the others" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["rank"] == ["rank", "steps", "step", "own", *PHASES]
    assert rows["3"][1:8] == ["40", "210", "ms", "210", "ms", "150", "ms"]
    assert "rank 3 is slow" in text
    assert "1 slow rank replaced" in summary(made)
    assert "and 136 ranks with shorter steps" in explained(record(uneven(200)))


def test_even_ranks_are_not_called_slow() -> None:
    times = [StepTimes(r, 9, (0.0, 0.1 + r / 1000, 0.0, 0.01, 0.0, 0.0)) for r in range(3)]
    assert sentence(times) == (
        "the ranks are even: none takes more than 102 ms of its own for a step; "
        "steps take 112 ms, at least 10 ms of it communication"
    )
    assert sentence(times[:1]) == ""
    assert compared(times[0], times[:1]) == 1.0
