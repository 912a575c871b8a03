"""Which checkpoints a run has, which of them are kept, and the file that says so. Pure."""

from __future__ import annotations

import json
import numbers
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.metrics import lookup


@dataclass
class Entry:
    """One published checkpoint: the name of its folder in the run, and its metrics."""

    name: str
    metrics: dict[str, Any]
    report_index: int


@dataclass
class CheckpointBook:
    """All checkpoints of a run in the order in which they were reported."""

    num_to_keep: int | None = None
    score_attribute: str | None = None
    score_order: str = "max"
    entries: list[Entry] = field(default_factory=list)
    reports: int = 0

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

    def add(self, name: str, metrics: dict[str, Any], index: int) -> list[str]:
        """Record the checkpoint of report ``index``; returns the names that are no longer kept.

        The latest is always kept, even where it is not among the best.
        """
        self.entries = [e for e in self.entries if e.name != name]
        self.entries.append(Entry(name, metrics, index))
        if self.num_to_keep is None:
            return []
        kept = {id(e) for e in self.ranked()[-self.num_to_keep :]} | {id(self.entries[-1])}
        dropped = [e.name for e in self.entries if id(e) not in kept]
        self.entries = [e for e in self.entries if id(e) in kept]
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
                "pending_validation_specs": [],
                "current_report_index": self.reports,
                "validated_checkpoint_dir_names": [],
                "timed_out_validation_checkpoint_dir_names": [],
                "failed_validation_checkpoint_dir_names": [],
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
            self.entries = entries
            self.reports = int(content.get("current_report_index", len(rows)))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the checkpoint snapshot cannot be read: {error!r}") from error


def _row(entry: Entry) -> dict[str, Any]:
    return {"version": 0, "checkpoint_dir_name": entry.name, "metrics": entry.metrics}
