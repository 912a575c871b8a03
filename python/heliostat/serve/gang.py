"""Gangs: replicas of a deployment that start together, end together and know of each other."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GangContext"]


@dataclass
class GangContext:
    """What a replica knows of its gang.

    ``rank``: its own, from 0 on; ``world_size``: how many replicas the gang has; ``member_replica_ids``: the
    ids of all of them, by rank; ``pg_name``: of the gang's placement group. A gang that is started again has
    another ``gang_id``.
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""
