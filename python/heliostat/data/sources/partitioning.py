"""Columns that stand in the names of folders: ``year=2024/month=5/data.parquet``."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Partitioning:
    """How folders name columns.

    Args:
        style: "hive" (``name=value``) or "dir" (values alone; ``field_names`` gives the names).
        base_dir: Where the folders begin.
        field_names: Names of the columns; for "hive" they are checked.
        field_types: Python types of the values by name. Default: str.
        filesystem: Without effect: kept for compatibility.
    """

    style: str = "hive"
    base_dir: str | None = None
    field_names: list[str] | None = None
    field_types: dict[str, Any] = field(default_factory=dict)
    filesystem: Any = None

    def __post_init__(self) -> None:
        self.style = getattr(self.style, "value", self.style)
        if self.style not in ("hive", "dir"):
            raise ValueError(f"Unsupported partition style: {self.style!r}. Use 'hive' or 'dir'.")
        if self.style == "dir" and not self.field_names:
            raise ValueError("Directory partitioning needs `field_names`.")

    def parse(self, path: str) -> dict[str, Any]:
        """The columns that a file's path names."""
        base = (self.base_dir or "").rstrip("/")
        if base and path.startswith(base + "/"):
            path = path[len(base) + 1 :]
        folders = path.split("/")[:-1]
        if self.style == "hive":
            pairs = [f.split("=", 1) for f in folders if "=" in f]
            found = {k: urllib.parse.unquote(v) for k, v in pairs}
        else:
            names = self.field_names or []
            folders = [f for f in folders if f]
            found = dict(zip(names, folders[-len(names) :] if not base else folders, strict=False))
        return {k: self._typed(k, v) for k, v in found.items()}

    def _typed(self, name: str, value: str) -> Any:
        kind = self.field_types.get(name)
        if kind is None or kind is str:
            return value
        return value.lower() in ("1", "true") if kind is bool else kind(value)


@dataclass
class PathPartitionFilter:
    """Reads only files whose partition columns pass a function of a dict."""

    partitioning: Partitioning
    keep: Any

    @classmethod
    def of(cls, filter_fn: Any, style: str = "hive", **options: Any) -> PathPartitionFilter:
        """Make one from a function and the arguments of ``Partitioning``."""
        return cls(Partitioning(style, **options), filter_fn)

    def __call__(self, paths: list[str]) -> list[str]:
        """The paths that pass."""
        return [p for p in paths if self.keep(self.partitioning.parse(p))]
