"""A stand-in for ``turbopuffer``: documents by id, in namespaces."""

from __future__ import annotations

from typing import Any

import client_state


class RateLimitError(Exception):
    pass


class Turbopuffer:
    def __init__(self, *, api_key: str, region: str = "", base_url: str = "") -> None:
        assert region or base_url

    def namespace(self, name: str) -> Namespace:
        return Namespace(name)


class Namespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, *, upsert_columns: dict[str, list[Any]], distance_metric: str) -> None:
        if client_state.fails("turbopuffer"):
            raise RateLimitError("429")
        names = list(upsert_columns)
        with client_state.changed("turbopuffer", {}) as held:
            there = held.setdefault(self._name, {})
            for values in zip(*upsert_columns.values(), strict=True):
                row = dict(zip(names, values, strict=True))
                there[row["id"]] = row
