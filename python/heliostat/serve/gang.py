"""Gangs: replicas of a deployment that start together, end together and know of each other."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GangContext"]


@dataclass
class GangContext:
    """The context of a replica in its gang.

    Attributes:
        gang_id: The gang; one that is started again has another.
        rank: The replica's number in it, from 0.
        world_size: How many replicas it has.
        member_replica_ids: The ids of all of them, by rank.
        pg_name: The name of its placement group.
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""
