"""The checkpoints of a run, the choice of those that are kept, and the file that lists them. Pure."""

from __future__ import annotations

import json
import numbers
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.metrics import lookup
from heliostat.train.reported import ReportedCheckpointStatus as Status

# The lists of the snapshot file that hold what became of validations.
_ENDED = {
    Status.VALIDATED: "validated_checkpoint_dir_names",
    Status.VALIDATION_TIMEOUT: "timed_out_validation_checkpoint_dir_names",
    Status.VALIDATION_FAILED: "failed_validation_checkpoint_dir_names",
}
# Ours: Ray's snapshots do not have it.
_LEAVING = "leaving_checkpoint_dir_names"
_WORLD_SIZES = "checkpoint_world_sizes"


@dataclass
class Entry:
    """A published checkpoint: the name of its folder in the run, and its metrics."""

    name: str
    metrics: dict[str, Any]
    report_index: int
    status: Status = Status.COMMITTED
    # How it is to be validated, while that has not happened: ``fn_kwargs`` and ``timeout_s``.
    pending: dict[str, Any] | None = None
    # How many workers had saved it; None: not known.
    world_size: int | None = None


@dataclass
class CheckpointBook:
    """All checkpoints of a run in the order in which they were reported."""

    num_to_keep: int | None = None
    score_attribute: str | None = None
    score_order: str = "max"
    entries: list[Entry] = field(default_factory=list)
    reports: int = 0
    # No longer kept, while their folders may still be there: whoever dies meanwhile leaves them to
    # the next coordinator.
    leaving: list[str] = field(default_factory=list)
    # Kept beside those: workers that are replaced begin from it. No snapshot says so.
    held: str | None = None

    @property
    def latest(self) -> Entry | None:
        """The checkpoint from which a restart begins."""
        return self.entries[-1] if self.entries else None

    def ranked(self) -> list[Entry]:
        """The kept checkpoints, worst first: by score, or by time when nothing scores them."""
        if self.score_attribute is None:
            return list(self.entries)
        return sorted(self.entries, key=self._score)

    def _score(self, entry: Entry) -> tuple[bool, float]:
        value = lookup(entry.metrics, self.score_attribute or "")
        # Without a usable score a checkpoint ranks below every one that has it.
        if not isinstance(value, numbers.Real) or value != value:
            return (False, 0.0)
        return (True, float(value) if self.score_order == "max" else -float(value))

    def add(
        self,
        name: str,
        metrics: dict[str, Any],
        index: int,
        pending: dict[str, Any] | None = None,
        world_size: int | None = None,
    ) -> list[str]:
        """Record the checkpoint of report ``index``; returns the names that are no longer kept.

        The latest is always kept, even where it is not among the best, and so is one that waits
        for its validation (``pending`` says how).
        """
        self.entries = [e for e in self.entries if e.name != name]
        self.leaving = [n for n in self.leaving if n != name]
        status = Status.COMMITTED if pending is None else Status.PENDING_VALIDATION
        self.entries.append(Entry(name, metrics, index, status, pending, world_size))
        return self._drop()

    def validated(self, name: str, status: Status, metrics: dict[str, Any]) -> list[str]:
        """Record how a validation ended; returns the names that are no longer kept."""
        for entry in self.entries:
            if entry.name == name:
                entry.status, entry.pending = status, None
                entry.metrics = {**entry.metrics, **metrics}
        return self._drop()

    def release(self) -> list[str]:
        """Let go of the held checkpoint, needed no more; return the names that are no longer kept."""
        self.held = None
        return self._drop()

    def _drop(self) -> list[str]:
        if self.num_to_keep is None or not self.entries:
            return []
        kept = {id(e) for e in self.ranked()[-self.num_to_keep :]} | {id(self.entries[-1])}
        kept |= {id(e) for e in self.entries if e.pending is not None or e.name == self.held}
        dropped = [e.name for e in self.entries if id(e) not in kept]
        self.entries = [e for e in self.entries if id(e) in kept]
        self.leaving += dropped
        return dropped

    def to_json(self) -> bytes:
        """The content of the snapshot file, in the layout that Ray 2.60 writes."""
        rows = [_row(e) for e in self.entries]
        return json.dumps(
            {
                "ray_version": "2.60.0",
                "checkpoint_results": rows,
                "checkpoint_report_indices": [e.report_index for e in self.entries],
                "latest_checkpoint_result": rows[-1] if rows else None,
                "pending_training_results": [],
                "pending_validation_specs": [
                    {"checkpoint_dir_name": e.name, **e.pending}
                    for e in self.entries
                    if e.pending is not None
                ],
                "current_report_index": self.reports,
                _LEAVING: self.leaving,
                _WORLD_SIZES: {e.name: e.world_size for e in self.entries},
                **{
                    key: [e.name for e in self.entries if e.status is status]
                    for status, key in _ENDED.items()
                },
            }
        ).encode()

    def load(self, data: bytes) -> None:
        """Take over what a snapshot file records.

        Raises:
            ValueError: The file is none of ours and none of Ray's.
        """
        try:
            content = json.loads(data)
            rows = content["checkpoint_results"]
            indices = content.get("checkpoint_report_indices") or range(len(rows))
            entries = [
                Entry(row["checkpoint_dir_name"], row["metrics"] or {}, index)
                for row, index in zip(rows, indices, strict=False)
            ]
            latest = content.get("latest_checkpoint_result")
            if latest:
                # `entries` is in order of reports: the latest comes last.
                name = latest["checkpoint_dir_name"]
                entries.sort(key=lambda e: (e.name == name, e.report_index))
            sizes = content.get(_WORLD_SIZES) or {}
            for entry in entries:
                entry.world_size = sizes.get(entry.name)
            _load_validations(content, {e.name: e for e in entries})
            self.entries = entries
            kept = {entry.name for entry in entries}
            self.leaving = [name for name in content.get(_LEAVING, []) if name not in kept]
            self.reports = int(content.get("current_report_index", len(rows)))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the checkpoint snapshot cannot be read: {error!r}") from error


def _load_validations(content: dict[str, Any], entries: dict[str, Entry]) -> None:
    for status, key in _ENDED.items():
        for name in content.get(key, []):
            if name in entries:
                entries[name].status = status
    for spec in content.get("pending_validation_specs", []):
        entry = entries.get(spec.get("checkpoint_dir_name"))
        if entry is not None:  # Ray's own specs hold other fields
            entry.status = Status.PENDING_VALIDATION
            entry.pending = {k: spec.get(k) for k in ("fn_kwargs", "timeout_s")}


def _row(entry: Entry) -> dict[str, Any]:
    return {"version": 0, "checkpoint_dir_name": entry.name, "metrics": entry.metrics}
