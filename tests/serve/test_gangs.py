"""Replicas that start and end together, and actors that the replicas of a deployment share."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.config import (
    DeploymentActorConfig,
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    GangSchedulingConfig,
)

from tests.helpers.harness import IS_HELIOSTAT
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + S
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def groups() -> set[str]:
    table = ray.util.placement_group_table()
    return {row["name"] for row in table.values() if row["state"] != "REMOVED"}


class Told:
    """What a replica says of itself."""

    def __init__(self) -> None:
        context = serve.get_replica_context()
        gang = context.gang_context
        group = ray.util.get_current_placement_group()
        assert gang is not None
        assert group is not None
        self.told = (
            os.getpid(),
            context.replica_tag,
            gang.gang_id,
            gang.rank,
            gang.world_size,
            gang.member_replica_ids,
            gang.pg_name,
            group.id.hex(),
        )

    def __call__(self) -> Any:
        return self.told


def gangs_of(handle: Any) -> dict[str, list[Any]]:
    """What the replicas say, by gang and rank."""
    found: dict[str, list[Any]] = {}
    for told in handle.broadcast("__call__").results(timeout_s=S):
        found.setdefault(told[2], []).append(told)
    return {name: sorted(rows, key=lambda row: row[3]) for name, rows in found.items()}


@pytest.mark.contract("F12.01")
def test_a_gang_starts_and_ends_together(web: Client) -> None:
    pair = serve.deployment(
        num_replicas=4,
        gang_scheduling_config=GangSchedulingConfig(gang_size=2, gang_placement_strategy="SPREAD"),
        ray_actor_options={"num_cpus": 1},
    )(Told)
    handle = serve.run(pair.bind(), name="gangs", route_prefix=None)
    gangs = gangs_of(handle)
    assert [len(rows) for rows in gangs.values()] == [2, 2]
    for rows in gangs.values():
        assert [row[3] for row in rows] == [0, 1]
        assert {row[4] for row in rows} == {2}
        assert all(row[5] == [one[1] for one in rows] for row in rows)
        assert len({row[7] for row in rows}) == 1, "they have one placement group"
    names = {rows[0][6] for rows in gangs.values()}
    assert names <= groups()
    assert len(names) == 2

    lost, kept = gangs
    victim, other = (row[0] for row in gangs[lost])
    os.kill(victim, signal.SIGKILL)

    def is_whole_again() -> bool:
        try:
            now = gangs_of(handle)
        except Exception:  # of a replica that was ending
            return False
        pids = {row[0] for rows in now.values() for row in rows}
        return len(pids) == 4 and lost not in now and {victim, other}.isdisjoint(pids)

    until(is_whole_again)
    now = gangs_of(handle)
    assert now[kept] == gangs[kept], "the other gang was left alone"
    until(lambda: gangs[lost][0][6] not in groups())

    # A whole gang less.
    serve.run(pair.options(num_replicas=2).bind(), name="gangs", route_prefix=None)
    until(lambda: [len(rows) for rows in gangs_of(handle).values()] == [2])
    serve.delete("gangs")
    until(lambda: not {one for one in groups() if one.startswith("SERVE_GANG::gangs_")})


@pytest.mark.contract("F12.01")
def test_a_gang_without_room_does_not_start_in_part(web: Client) -> None:
    gang = serve.deployment(
        num_replicas=3,
        gang_scheduling_config={"gang_size": 3},
        ray_actor_options={"num_cpus": 2},
    )(Told)
    taker = ray.remote(num_cpus=3)(_Holder).remote()
    ray.get(taker.__ray_ready__.remote())
    serve.run_many(
        [serve.RunTarget(gang.bind(), "gang", None)], wait_for_applications_running=False
    )
    until(lambda: any(one.startswith("SERVE_GANG::gang_") for one in groups()))
    # Two of its replicas would find room: they take none of it.
    assert ray.get(_answers.options(num_cpus=5).remote(), timeout=S)
    assert serve.status().applications["gang"].status == "DEPLOYING"
    ray.kill(taker)
    until(lambda: serve.status().applications["gang"].status == "RUNNING")
    assert len(gangs_of(serve.get_app_handle("gang"))) == 1
    serve.delete("gang")


class _Holder:
    pass


@ray.remote
def _answers() -> bool:
    return True


@pytest.mark.contract("F12.01")
def test_gangs_that_cannot_be_are_refused() -> None:
    def refused(match: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=match):
            serve.deployment(gang_scheduling_config={"gang_size": 2}, **options)(Told)

    refused(r"num_replicas \(3\) must be a multiple of gang_size \(2\)", num_replicas=3)
    refused("max_replicas_per_node", num_replicas=2, max_replicas_per_node=1)
    refused(
        "placement_group_strategy",
        num_replicas=2,
        placement_group_bundles=[{"CPU": 1}],
        placement_group_strategy="PACK",
    )
    with pytest.raises(ValueError, match="gang_size"):
        GangSchedulingConfig(gang_size=0)
    with pytest.raises(NotImplementedError):
        GangSchedulingConfig(
            gang_size=2, runtime_failure_policy=GangRuntimeFailurePolicy.RESTART_REPLICA
        )
    assert GangSchedulingConfig(gang_size=2).gang_placement_strategy is GangPlacementStrategy.PACK


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self, first: int, step: int = 1) -> None:
        self.number, self.step = first, step
        self.context = serve.get_deployment_actor_context()

    def next(self) -> int:
        self.number += self.step
        return self.number

    def told(self) -> tuple[int, str, str, str]:
        told = self.context
        return os.getpid(), told.app_name, told.deployment, told.actor_name


@serve.deployment(
    num_replicas=2,
    ray_actor_options={"num_cpus": 0.1},
    deployment_actors=[
        DeploymentActorConfig(
            name="counter", actor_class=Counter, init_args=(10,), init_kwargs={"step": 5}
        )
    ],
)
class Counts:
    def __init__(self) -> None:
        self.counter = serve.get_deployment_actor("counter")  # it is there before its replicas

    async def __call__(self) -> tuple[int, int]:
        return os.getpid(), await self.counter.next.remote()

    async def told(self) -> Any:
        return await serve.get_deployment_actor("counter").told.remote()


@pytest.mark.contract("F12.01")
def test_replicas_share_an_actor_that_outlives_them(web: Client) -> None:
    handle = serve.run(Counts.bind(), name="counts", route_prefix=None)
    rows = handle.broadcast("__call__").results(timeout_s=S)
    assert sorted(row[1] for row in rows) == [15, 20]
    first, *told = handle.told.remote().result(timeout_s=S)
    assert told == ["counts", "Counts", "counter"]
    victim = rows[0][0]
    os.kill(victim, signal.SIGKILL)

    def is_replaced() -> bool:
        try:
            now = handle.broadcast("__call__").results(timeout_s=S)
        except Exception:  # of the replica that was killed
            return False
        return len(now) == 2 and victim not in {row[0] for row in now}

    until(is_replaced)
    assert handle.told.remote().result(timeout_s=S)[0] == first
    assert handle.remote().result(timeout_s=S)[1] > 20

    # It ends, and another takes its name.
    os.kill(first, signal.SIGKILL)

    def has_another() -> bool:
        try:
            return bool(handle.told.remote().result(timeout_s=S)[0] != first)
        except Exception:  # the dead one, or none
            return False

    until(has_another)
    second = handle.told.remote().result(timeout_s=S)[0]

    # Another version has an actor of its own, and the old one goes with the old replicas.
    changed = Counts.options(
        deployment_actors=[{"name": "counter", "actor_class": Counter, "init_args": [100]}]
    )
    serve.run(changed.bind(), name="counts", route_prefix=None)
    until(lambda: handle.told.remote().result(timeout_s=S)[0] != second)
    assert handle.remote().result(timeout_s=S)[1] == 101
    until(lambda: not _is_alive(second))
    third = handle.told.remote().result(timeout_s=S)[0]
    serve.delete("counts")
    until(lambda: not _is_alive(third))


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@ray.remote(num_cpus=0)
class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no tree to be found")


@pytest.mark.contract("F12.01")
def test_a_deployment_whose_actor_does_not_start_says_so(web: Client) -> None:
    app = Counts.options(
        num_replicas=1,
        max_constructor_retry_count=2,
        deployment_actors=[DeploymentActorConfig(name="counter", actor_class=Broken)],
    ).bind()
    with pytest.raises(RuntimeError, match=r"counter|no tree to be found"):
        serve.run(app, name="broken", route_prefix=None)
    row = serve.status().applications["broken"].deployments["Counts"]
    assert row.status == "DEPLOY_FAILED"
    assert row.status_trigger == "DEPLOYMENT_ACTOR_FAILED"
    if IS_HELIOSTAT:
        assert "no tree to be found" in row.message
    serve.delete("broken")


@pytest.mark.contract("F12.01")
def test_actors_that_cannot_be_are_refused() -> None:
    one = DeploymentActorConfig(name="counter", actor_class=Counter)
    with pytest.raises(ValueError, match="unique"):
        serve.deployment(deployment_actors=[one, one])(Told)
    for call in (lambda: serve.get_deployment_actor("counter"), serve.get_deployment_actor_context):
        with pytest.raises(serve.exceptions.RayServeException, match="only be called from within"):
            call()
