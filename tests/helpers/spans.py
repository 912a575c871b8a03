"""Spans of traces that Serve has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.harness import wait_until
from tests.helpers.serving import session_dir

Row = dict[str, Any]


def written(text: str) -> list[Row]:
    """JSON objects that stand one after the other."""
    rows, at, decoder = [], 0, json.JSONDecoder()
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        try:
            row, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            break  # the last one is being written
        rows.append(row)
    return rows


def spans(folder: Path | None = None) -> list[Row]:
    """The spans that replicas have written to their files."""
    folder = folder or Path(session_dir()) / "logs/serve/spans"
    return [row for path in sorted(folder.glob("*")) for row in written(path.read_text())]


def of(trace_id: str, number: int, folder: Path | None = None) -> dict[str, Row]:
    """So many spans of a trace, by name, once they are there."""

    def there() -> dict[str, Row] | None:
        found = [row for row in spans(folder) if row["context"]["trace_id"] == f"0x{trace_id}"]
        return {row["name"]: row for row in found} if len(found) >= number else None

    found = wait_until(there)
    assert len(found) == number
    return found
