"""A function that runs as a trial, in a thread of its own, with its reports on their way out.

Where nobody decides after each report, the function runs on, and reports leave in batches. Otherwise it
waits in ``report`` for the decision, so that no step is made in vain.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from numbers import Number
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.tune import context
from heliostat.tune.aliases import Config, Report
from heliostat.tune.result import DEFAULT_METRIC
from heliostat.tune.trainable.checkpoint_objects import Packed, packed
from heliostat.tune.trainable.spec import Batch, Spec, failure
from heliostat.tune.trainable.timing import Timing

FLUSH_S = 0.05  # for how long a report waits for others to travel with it
BATCH_MAX = 1000


class Stopped(SystemExit):
    """Raised in ``report`` when the trial has to end."""


class FunctionRun:
    """A run of a function."""

    def __init__(self, function: Callable[[Config], object], spec: Spec) -> None:
        self.spec, self.checkpoint = spec, spec.checkpoint
        self._function = function
        self._timing = Timing(spec.iteration, spec.total_s, spec.counts)
        self._saved = spec.checkpoints
        self.packed: Packed | None = None  # the checkpoint that was made last
        self._changed = threading.Condition()
        self._made: list[Report] = []
        self._decision: str | None = None
        self._batch: Batch | None = None  # the last one, when the function has ended
        self._thread = threading.Thread(target=self._main, name="heliostat-trial", daemon=True)

    def begin(self) -> None:
        """Call the function."""
        self._thread.start()

    # --- the function's thread ---

    def _main(self) -> None:
        end = Batch(end="finished")
        try:
            self._call()
        except Stopped:
            end = Batch(end="stopped")
        except BaseException as error:
            end = failure(error)
        with self._changed:
            self._batch = end
            self._changed.notify_all()

    def _call(self) -> None:
        given: Any = self._function(dict(self.spec.config))
        if hasattr(given, "__next__"):
            for output in given:
                self._output(output)
        else:
            self._output(given)

    def _output(self, output: object) -> None:
        """Report the value that the function returns, as its last report."""
        if isinstance(output, dict) and output:
            self.report(output, None)
        elif isinstance(output, Number):
            self.report({DEFAULT_METRIC: output}, None)
        elif output:
            raise ValueError(
                f"A trainable function returns a number or a dict of metrics, not {type(output).__name__}."
            )

    def report(self, metrics: Report, checkpoint: Checkpoint | None) -> None:
        """Hand over a report; in lockstep, wait for what is decided."""
        if self._decision == "STOP":
            raise Stopped
        result = self._timing.fill(dict(metrics), self.spec.trial_id)
        if checkpoint is not None:
            result["checkpoint_dir_name"] = self._save(checkpoint)
        with self._changed:
            self._made.append(result)
            self._changed.notify_all()
            if self.spec.is_lockstep:
                self._changed.wait_for(lambda: self._decision is not None)
                decision, self._decision = self._decision, None
                if decision == "STOP":
                    self._decision = decision  # also for a function that goes on all the same
                    raise Stopped

    def _save(self, checkpoint: Checkpoint) -> str:
        name = f"checkpoint_{self._saved:06d}"
        if self.spec.storage is not None:
            with checkpoint.as_directory() as folder:
                self.checkpoint = self.spec.store(folder, name)
                self.packed = packed(folder, self.checkpoint) if self.spec.hands else None
            self._saved += 1
            return name
        target = os.path.join(self.spec.folder, name)
        part = f"{target}.part"
        shutil.rmtree(part, ignore_errors=True)
        checkpoint.to_directory(part)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(part, target)
        self._saved += 1
        self.checkpoint = target
        return name

    # --- the actor's thread ---

    def next(self, decision: str | None) -> Batch:
        """Pass on a decision; what the function has reported since, or how it ended."""
        with self._changed:
            if decision is not None:
                self._decision = decision
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._made or self._batch is not None)
            if not self.spec.is_lockstep and self._batch is None:
                self._changed.wait_for(
                    lambda: self._batch is not None or len(self._made) >= BATCH_MAX, FLUSH_S
                )
            results, self._made = self._made, []
            if self._batch is None:
                return Batch(results)
            return self._batch._replace(results=results)

    def stop(self) -> Batch:
        """End the function at its next report."""
        with self._changed:
            self._decision = "STOP"
            self._changed.notify_all()
        self._thread.join(self.spec.thread_s)
        return Batch(end="stopped", is_clean=not self._thread.is_alive())

    def close(self) -> None:
        """Leave the process to the next trial."""
        context.leave()
        with contextlib.suppress(OSError):
            os.chdir(self.spec.home)
