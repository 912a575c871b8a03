"""The actor that runs trials, one after the other."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from heliostat.core.platform import settings
from heliostat.tune import context
from heliostat.tune.trainable.checkpoint_objects import Packed
from heliostat.tune.trainable.class_run import ClassRun
from heliostat.tune.trainable.function_run import FunctionRun
from heliostat.tune.trainable.output import Copied
from heliostat.tune.trainable.spec import Batch, Spec, failure
from heliostat.tune.trainable.trainable import Trainable
from heliostat.tune.trainable.util import is_class


class TrialActor:
    """Runs the trials of one trainable."""

    def __init__(self, trainable: Any) -> None:
        self._trainable = trainable
        self._home = os.getcwd()
        self._run: Any = None
        self._object: Trainable | None = None
        self._output: Copied | None = None
        self._made: Packed | None = None

    def both(self, method: str, *given: object) -> tuple[Batch, Packed | None]:
        """Return the result of a method, and the files of the checkpoint that it has made."""
        batch: Batch = getattr(self, method)(*given)
        made = self._made
        self._made = None
        return batch, made

    def start(self, spec: Spec, handed: Packed | None = None) -> Batch:
        """Begin a trial, perhaps with the files of its checkpoint; its first reports."""
        spec = replace(spec, home=self._home, handed=handed)
        try:
            os.makedirs(spec.folder, exist_ok=True)
            if settings.flag("CHDIR_TO_TRIAL_DIR"):
                os.environ["TUNE_ORIG_WORKING_DIR"] = self._home
                os.chdir(spec.folder)
            if spec.log_files is not None:
                self._output = Copied(spec.folder, spec.log_files)
            context.enter(_Starting(spec))
            if is_class(self._trainable):
                self._run = ClassRun(self._trainable, spec, self._object)
                self._object = self._run.object
                context.enter(self._run)
            else:
                self._run = FunctionRun(self._trainable, spec)
                context.enter(self._run)
                self._run.begin()
        except BaseException as error:
            return self._ended(failure(error))
        return self.next(None)

    def next(self, decision: str | None) -> Batch:
        """Go on after a decision; the next reports."""
        return self._ended(self._run.next(decision))

    def stop(self) -> Batch:
        """End the trial."""
        return self._ended(self._run.stop())

    def save(self) -> Batch:
        """Save a class trainable, which then goes on."""
        return self._ended(self._run.save())

    def pause(self) -> Batch:
        """End the run of the trial, which goes on later from its last checkpoint."""
        pause = getattr(self._run, "pause", self._run.stop)
        return self._ended(pause())

    def _ended(self, batch: Batch) -> Batch:
        if self._run is not None:
            self._made, self._run.packed = self._run.packed, None
        if batch.end is not None:
            if self._run is not None:
                self._run.close()
                self._run = None
            if self._output is not None:
                self._output.close()
                self._output = None
        return batch

    def close(self) -> None:
        """No more trials."""
        if self._object is not None:
            self._object.stop()


class _Starting:
    """A trial whose object is being made."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.checkpoint = spec, spec.checkpoint
