"""Replicas in placement groups of their own."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import ray
from ray import serve

from tests.helpers.harness import IS_HELIOSTAT
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60
BUNDLES = [{"CPU": 1}, {"CPU": 2}]


@ray.remote(num_cpus=2)
class Part:
    def group(self) -> str:
        found = ray.util.get_current_placement_group()
        assert found is not None
        return str(found.id.hex())


@serve.deployment(placement_group_bundles=BUNDLES, placement_group_strategy="STRICT_PACK")
class Whole:
    def __init__(self) -> None:
        # Its children are in its group: the second bundle alone has room for this one.
        self.part = Part.remote()

    async def __call__(self) -> tuple[int, str, str]:
        found = ray.util.get_current_placement_group()
        assert found is not None
        return os.getpid(), found.id.hex(), await self.part.group.remote()


def groups() -> dict[str, dict[str, Any]]:
    table = ray.util.placement_group_table()
    return {key: row for key, row in table.items() if row["state"] != "REMOVED"}


def until_groups(number: int) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + S
    while len(found := groups()) != number:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.contract("F12.01")
def test_a_replica_and_its_children_are_in_a_group_that_ends_with_it(web: Client) -> None:
    before = len(groups())
    handle = serve.run(Whole.options(num_replicas=2).bind(), route_prefix=None)
    found = until_groups(before + 2)
    pid, own, child = handle.remote().result(timeout_s=S)
    assert own == child
    row = found[own]
    assert (row["strategy"], list(row["bundles"].values())) == ("STRICT_PACK", BUNDLES)

    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + S
    while own in groups() or len(groups()) != before + 2:
        assert time.monotonic() < deadline, groups()
        time.sleep(0.05)
    # Other bundles are another placement: the replicas start anew.
    other = Whole.options(num_replicas=1, placement_group_bundles=[{"CPU": 2}, {"CPU": 2}])
    handle = serve.run(other.bind(), route_prefix=None)
    [row] = [
        row for key, row in until_groups(before + 1).items() if row["strategy"] == "STRICT_PACK"
    ]
    assert list(row["bundles"].values()) == [{"CPU": 2}, {"CPU": 2}]
    assert handle.remote().result(timeout_s=S)[1] == row["placement_group_id"]
    if IS_HELIOSTAT:
        # A later controller knows of the groups.
        ray.kill(ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve"), no_restart=False)
    serve.delete("default")
    until_groups(before)


@pytest.mark.contract("F12.01")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"placement_group_strategy": "PACK"}, "placement_group_bundles"),
        ({"placement_group_bundles": [{"CPU": 0.5}]}, "first"),
        (
            {"placement_group_bundles": [{"CPU": 1}], "ray_actor_options": {"num_gpus": 1}},
            "GPU",
        ),
        ({"placement_group_bundles": [{"CPU": 1}], "placement_group_strategy": "NEAR"}, "NEAR"),
    ],
)
def test_wrong_groups_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        serve.deployment(lambda: None, **options)
