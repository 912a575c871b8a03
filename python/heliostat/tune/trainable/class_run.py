"""A class trainable that runs as a trial: one step for each call."""

from __future__ import annotations

import os
import shutil
import tempfile

from heliostat.tune import context
from heliostat.tune.result import SHOULD_CHECKPOINT
from heliostat.tune.trainable.checkpoint_objects import Packed, packed
from heliostat.tune.trainable.spec import Batch, RestoreFailed, Spec, failure
from heliostat.tune.trainable.timing import Timing
from heliostat.tune.trainable.trainable import Trainable


class ClassRun:
    """A run of a ``Trainable``; another one may take over its object."""

    def __init__(
        self, trainable: type[Trainable], spec: Spec, earlier: Trainable | None = None
    ) -> None:
        self.spec, self.checkpoint = spec, spec.checkpoint
        self._saved = spec.checkpoints
        self._fresh = True
        self._ended = False
        self.packed: Packed | None = None  # the checkpoint that was made last
        # Set before setup() is called, which may ask for the trial's name.
        trainable._spec = spec
        self.object: Trainable
        if earlier is not None and earlier.reset(dict(spec.config)):
            self.object = earlier
        else:
            if earlier is not None:
                earlier.stop()
            self.object = trainable(config=dict(spec.config))
        self.object._spec = spec
        self.object._timing = Timing(spec.iteration, spec.total_s, spec.counts)
        if spec.checkpoint:
            try:
                with spec.checkpoint_at(spec.checkpoint).as_directory() as folder:
                    self.object.restore(folder)
            except Exception as error:
                raise RestoreFailed from error

    def next(self, decision: str | None) -> Batch:
        """Make one more step."""
        try:
            result = self.object.train()
            every = self.spec.checkpoint_frequency
            is_last = bool(result.get("done"))
            at_end = is_last and self.spec.checkpoint_at_end
            is_due = every and self.object.iteration % every == 0
            if at_end or is_due or result.get(SHOULD_CHECKPOINT):
                result["checkpoint_dir_name"] = self._save()
        except BaseException as error:
            return failure(error)
        return Batch([result], end="finished" if is_last else None)

    def save(self) -> Batch:
        """Save between two steps."""
        try:
            return Batch(checkpoint=self._save())
        except BaseException as error:
            return failure(error)

    def pause(self) -> Batch:
        """Save, to go on elsewhere."""
        try:
            return Batch(end="stopped", checkpoint=self._save())
        except BaseException as error:
            return failure(error)

    def stop(self) -> Batch:
        """End after the last step."""
        try:
            saved = self._save() if self.spec.checkpoint_at_end else None
        except BaseException as error:
            return failure(error)
        return Batch(end="stopped", checkpoint=saved)

    def _save(self) -> str:
        name = f"checkpoint_{self._saved:06d}"
        target = os.path.join(self.spec.folder, name)
        if self.spec.storage is not None:
            target = self.spec.storage.join(os.path.basename(self.spec.folder), name)
        if self.checkpoint == target and self._was_saved_at == self.object.iteration:
            return name
        if self.spec.storage is None:
            shutil.rmtree(target, ignore_errors=True)
            self.object.save(target)
        else:
            with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
                self.object.save(folder)
                target = self.spec.store(folder, name)
                self.packed = packed(folder, target) if self.spec.hands else None
        self._saved += 1
        self.checkpoint, self._was_saved_at = target, self.object.iteration
        return name

    _was_saved_at = -1

    def close(self) -> None:
        """Leave the process to the next trial."""
        context.leave()
