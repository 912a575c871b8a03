"""The actor behind ``streaming_split``: runs the plan once an epoch and hands out its blocks."""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data.context import DataContext
from heliostat.data.execute.executor import Executor
from heliostat.data.plan.operators import Bundle, Operator
from heliostat.data.split.row_split import RowSplit

if TYPE_CHECKING:
    import pyarrow as pa


CALLS_PER_CONSUMER = 2  # a request for blocks, and one about them
ALARM_S = 30.0  # after which a consumer that waits for the others is told about
HELD_PART = 0.5  # of the budget may wait here for the consumers


class Epoch:
    """An execution: a thread pulls blocks while there is room, consumers take them."""

    def __init__(
        self,
        plan: Operator,
        context: DataContext,
        n: int,
        equal: bool,
        homes: list[str | None] | None,
        number: int,
    ) -> None:
        self.number = number  # of executions with these settings
        self.executor = Executor(plan, context, "streaming_split", number, f"split({n})")
        self._row_split = RowSplit(n, equal, homes)
        self._changed = threading.Condition()
        self._hungry: set[int] = set()  # consumers that wait for a block
        self._out: list[int] = [0] * n  # bytes of the blocks that consumers work on
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._pull, daemon=True, name="split-executor")
        self._thread.start()

    def _pull(self) -> None:
        bundles = self.executor.run()
        try:
            for bundle in bundles:
                with self._changed:
                    self._row_split.add(bundle)
                    self._changed.notify_all()
                    self._changed.wait_for(self._may_pull)
                    if self._closed:
                        break
                    self.executor.outside_bytes = self._row_split.waiting_bytes + sum(self._out)
        except BaseException as error:
            self._error = error
        finally:
            with contextlib.suppress(Exception):
                bundles.close()
            with self._changed:
                self._row_split.end()
                self._changed.notify_all()

    def _may_pull(self) -> bool:
        """Whether there is room for another block, or somebody has nothing to do without it."""
        if self._closed or any(not self._row_split.hands[i] for i in self._hungry):
            return True
        room = self.executor.stats.budget_bytes * HELD_PART
        return self._row_split.waiting_bytes < room

    def take(self, consumer: int) -> Bundle | None:
        """The consumer's next block; None at the end. Waits."""
        hand = self._row_split.hands[consumer]
        with self._changed:
            self._out[consumer] = 0
            self._hungry.add(consumer)
            self._changed.notify_all()
            self._changed.wait_for(lambda: hand or self._row_split.ended or self._closed)
            self._hungry.discard(consumer)
            if self._error is not None:
                raise _anew(self._error)
            if not hand:
                return None
            bundle = hand.popleft()
            self._out[consumer] = bundle.size
            self._changed.notify_all()
            return bundle

    def close(self) -> None:
        """End the execution: the rest is not wanted."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()


class Coordinator:
    """The actor of a ``streaming_split``. Its methods run in threads, one for each caller."""

    def __init__(
        self,
        holder: list[object],
        n: int,
        equal: bool,
        homes: list[str | None] | None,
    ) -> None:
        self._dataset = ray.get(holder[0])
        self._args = (self._dataset._plan, self._dataset.context, n, equal, homes)
        self._n = n
        self._epoch: Epoch | None = None
        self._number = -1
        self._arrived: set[int] = set()
        self._resumed: int | None = None  # the execution that those who have arrived want
        self._changed = threading.Condition()

    def begin(self, consumer: int, execution: int | None = None) -> tuple[int, int]:
        """Wait until all consumers want a new epoch; returns its number and that of its execution.

        ``execution`` is that of an epoch that a consumer resumes. The others have to resume it, too.
        """
        with self._changed:
            mine = self._number + 1
            if self._arrived and execution != self._resumed:
                raise ValueError(
                    f"consumer {consumer} of streaming_split begins {_named(execution)}, and consumers "
                    f"{sorted(self._arrived)} {_named(self._resumed)}: load states of one epoch into "
                    "all of them, or into none."
                )
            self._resumed = execution
            self._arrived.add(consumer)
            if len(self._arrived) == self._n:
                self._arrived.clear()
                if self._epoch is not None:
                    self._epoch.close()
                number = self._dataset.context._next_execution(execution)
                self._epoch = Epoch(*self._args, number)
                self._number = mine
                self._changed.notify_all()
                return mine, number
            begun, told = time.monotonic(), False
            while self._number < mine:
                self._changed.wait(1.0)
                if not told and time.monotonic() - begun > ALARM_S and self._number < mine:
                    told = True
                    missing = sorted(set(range(self._n)) - self._arrived)
                    print(  # noqa: T201 # a worker's output reaches the driver's terminal
                        f"streaming_split: epoch {mine} waits for consumers {missing} of {self._n}. "
                        "All of them have to iterate at the same time, the same number of times.",
                        flush=True,
                    )
            assert self._epoch is not None
            return mine, self._epoch.number

    def take(self, consumer: int, number: int) -> Bundle | None:
        """The next block of that epoch for a consumer."""
        epoch = self._epoch
        if epoch is None or number != self._number:
            raise ValueError(
                f"epoch {number} is over: the other consumers have begun epoch {self._number}. An "
                "iterator of streaming_split can be used by one loop at a time."
            )
        return epoch.take(consumer)

    def schema(self) -> pa.Schema | None:
        """The dataset's Arrow schema."""
        return self._dataset._arrow_schema()

    def stats(self) -> str:
        """The last epoch in words."""
        return self._epoch.executor.stats.text() if self._epoch is not None else ""


def _anew(error: BaseException) -> BaseException:
    """Return an error to raise for one consumer: raising the same one in each adds to its traceback."""
    try:
        again = copy.copy(error)
    except Exception:  # of a class that cannot be made from its arguments
        return error
    again.__cause__ = error.__cause__
    return again.with_traceback(error.__traceback__)


def _named(execution: int | None) -> str:
    return "a new epoch" if execution is None else f"execution {execution} again"
