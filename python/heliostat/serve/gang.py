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

    Examples:
        >>> from ray import serve
        >>> from ray.serve.config import GangSchedulingConfig
        >>> @serve.deployment(
        ...     num_replicas=2,
        ...     gang_scheduling_config=GangSchedulingConfig(gang_size=2),
        ...     ray_actor_options={"num_cpus": 0.1},
        ... )
        ... def place(_):
        ...     gang = serve.get_replica_context().gang_context
        ...     return gang.rank in (0, 1), gang.world_size
        >>> serve.run(place.bind(), name="gang", route_prefix=None).remote(None).result()
        (True, 2)
        >>> serve.delete("gang")
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""
