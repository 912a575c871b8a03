"""An actor on each node that holds copies of state in the object store of its node."""

from __future__ import annotations

import heliostat as ray
from heliostat.train.memory.versions import Part, Version


class Keeper:
    """Owns what it keeps: the worker that wrote it, and that worker's node, may die."""

    def __init__(self) -> None:
        self._node_id: str = ray.get_runtime_context().get_node_id()
        self._parts: dict[tuple[Version, int], Part] = {}

    def keep(
        self,
        version: Version,
        rank: int,
        world_size: int,
        header: bytes,
        data: list[ray.ObjectRef],
        whole: Version | None,
    ) -> None:
        """Copy the part of ``rank``, and drop what is older than ``whole``, which all ranks have."""
        copy = ray.put(ray.get(data[0]))
        part = Part(version, rank, world_size, self._node_id, header, [copy])
        self._parts[version, rank] = part
        if whole is not None:
            self._parts = {key: p for key, p in self._parts.items() if key[0] >= whole}

    def parts(self) -> list[Part]:
        """All that is kept."""
        return list(self._parts.values())
