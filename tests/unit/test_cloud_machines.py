"""The autoscaler beside the head of a cloud's cluster, with a cloud and a clock of the test's own."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import harness

pytestmark = [
    pytest.mark.heliostat_only("the modules are Heliostat's own"),
    pytest.mark.contract("F6.29", "F6.37"),
]

pytest.importorskip("heliostat", reason="Heliostat's own modules")

from heliostat.autoscaler.launcher import growing  # noqa: E402
from heliostat.autoscaler.launcher.cloud import (  # noqa: E402
    CloudError,
    CloudMachine,
    CloudProvider,
)
from heliostat.autoscaler.launcher.config import Config, check  # noqa: E402
from heliostat.autoscaler.launcher.growing import Growing  # noqa: E402
from heliostat.autoscaler.launcher.node_types import NodeType  # noqa: E402
from heliostat.autoscaler.launcher.providers import Host  # noqa: E402
from heliostat.autoscaler.launcher.remote import RemoteError  # noqa: E402


def config(**more: Any) -> Config:
    told = {
        "cluster_name": "team",
        "provider": {"type": "aws", "region": "us-west-2"},
        "available_node_types": {
            "head": {"node_config": {"InstanceType": "m5.large"}},
            "small": {"node_config": {"InstanceType": "m5.large"}, "min_workers": 1},
            "large": {
                "node_config": {"InstanceType": "m5.xlarge"},
                "resources": {"disk": 2},
                "labels": {"zone": "a"},
                "max_workers": 2,
            },
        },
        "head_node_type": "head",
        "max_workers": 8,
        **more,
    }
    return check(told, "cluster.yaml")


class FakeCloud:
    """Machines are numbers. ``refuses``: what it says to whoever asks for one of a kind."""

    def __init__(self) -> None:
        self.rows: dict[str, CloudMachine] = {}
        self.refuses: dict[str, str] = {}
        self.ended: list[str] = []
        self.prepared = 0
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def prepare(self) -> None:
        self.prepared += 1

    def key(self) -> Path | None:
        return None

    def told_on_head(self) -> dict[str, Any]:
        return {}

    def machines(self) -> list[CloudMachine]:
        with self._lock:
            return list(self.rows.values())

    def add(self, kind: str, *, is_head: bool = False) -> str:
        with self._lock:
            number = next(self._numbers)
            name = f"i-{number}"
            host = Host(f"1.2.3.{number}", f"10.0.0.{number}", name, kind)
            self.rows[name] = CloudMachine(name, kind, is_head, host)
            return name

    def run(self, kind: NodeType, count: int, *, is_head: bool = False) -> list[str]:
        if kind.name in self.refuses:
            raise CloudError(self.refuses[kind.name])
        return [self.add(kind.name, is_head=is_head) for _ in range(count)]

    def release(self, ids: Sequence[str]) -> None:
        with self._lock:
            for name in ids:
                self.rows.pop(name, None)
                self.ended.append(name)

    def resources(self, kind: NodeType) -> dict[str, float]:
        return {"CPU": 4.0 if kind.name == "large" else 2.0, **kind.resources}


class World:
    """A ``Growing`` over a fake cloud. ``fails``: machines that cannot be set up."""

    def __init__(self, **more: Any) -> None:
        self.config = config(**more)
        self.cloud = FakeCloud()
        self.now = 1000.0
        self.set_up: list[str] = []
        self.fails: dict[str, str] = {}
        provider = CloudProvider(self.config, self.cloud, pause=lambda _: None)
        assert self.config.node_types is not None
        self.growing = Growing(
            self.config,
            self.config.node_types,
            self.cloud,
            addressed=provider.addressed,
            set_up=self._set_up,
            now=lambda: self.now,
            moment=lambda: self.now,
        )

    def _set_up(self, host: Host) -> None:
        self.set_up.append(host.id)
        if host.kind in self.fails:
            raise RemoteError(self.fails[host.kind])

    def settled(self, count: int) -> None:
        """So many machines have been set up, or not."""
        harness.wait_until(
            lambda: len(self.set_up) >= count and self._is_quiet(), what=f"{count} set up"
        )

    def _is_quiet(self) -> bool:
        kept = self.growing._kept.values()
        return not self.growing._under_way.total() and not any(one.is_busy for one in kept)


def test_what_was_asked_for_is_made_set_up_and_ended() -> None:
    world = World()
    world.growing.launch({"small": 2, "large": 1})
    # From the call on, so that nobody asks again while the cloud takes its time.
    assert world.growing.asked() == {"small": 2, "large": 1}
    world.settled(3)
    assert Counter(one.type for one in world.growing.instances()) == {"small": 2, "large": 1}
    small = [one for one in world.growing.instances() if one.type == "small"]
    world.growing.terminate(small[:1])
    harness.wait_until(lambda: world.cloud.ended == [small[0].id], what="its end")
    assert world.growing.asked() == {"small": 1, "large": 1}


def test_kinds_have_what_the_cloud_and_the_file_say() -> None:
    types = World().growing.types()
    assert types["large"].resources == {"CPU": 4.0, "disk": 2.0}
    assert types["large"].labels == {"zone": "a"}
    assert (types["small"].least, types["small"].most, types["large"].most) == (1, 8, 2)
    assert "head" not in types


def test_a_kind_that_is_refused_is_left_alone_for_a_while_and_told() -> None:
    world = World()
    world.cloud.refuses["large"] = "AWS refuses run_instances: VcpuLimitExceeded: too many"
    world.growing.launch({"large": 1})
    harness.wait_until(world.growing.failures, what="the refusal")
    assert world.growing.asked() == {}
    assert world.growing.types()["large"].most == 0
    (failure,) = world.growing.failures()
    assert (failure.kind, failure.moment) == ("large", 1000.0)
    assert "VcpuLimitExceeded" in failure.why
    world.now += 6
    assert world.growing.types()["large"].most == 2
    # The second time it is left alone for longer.
    world.growing.launch({"large": 1})
    harness.wait_until(lambda: len(world.growing.failures()) == 2, what="the second refusal")
    world.now += 6
    assert world.growing.types()["large"].most == 0
    world.now += 1800
    assert world.growing.failures() == []


def test_a_machine_that_cannot_be_set_up_is_ended() -> None:
    world = World()
    world.fails["small"] = "10.0.0.1: `pip install x` ended with exit code 1: no such package"
    world.growing.launch({"small": 1})
    harness.wait_until(lambda: world.cloud.ended == ["i-1"], what="its end")
    assert "no such package" in world.growing.failures()[0].why
    assert world.growing.asked() == {}


def test_a_machine_without_a_node_is_set_up_again_and_at_last_ended() -> None:
    world = World()
    world.growing.launch({"small": 1})
    world.settled(1)
    for times in (2, 3):
        world.growing.joined(set())
        assert len(world.set_up) == times - 1, "it has its time"
        world.now += growing.RECOVER_S + 1
        world.growing.joined(set())
        world.settled(times)
    world.now += growing.RECOVER_S + 1
    world.growing.joined(set())
    harness.wait_until(lambda: world.cloud.ended == ["i-1"], what="its end")
    assert "no node came" in world.growing.failures()[0].why


def test_a_node_that_is_there_is_left_alone() -> None:
    world = World()
    world.growing.launch({"small": 1})
    world.settled(1)
    for _ in range(5):
        world.now += growing.RECOVER_S + 1
        world.growing.joined({"i-1"})
    assert world.set_up == ["i-1"]


def test_what_an_autoscaler_before_has_left_is_taken_over() -> None:
    world = World()
    world.cloud.add("head", is_head=True)
    well, lost = world.cloud.add("small"), world.cloud.add("small")
    assert world.growing.asked() == {"small": 2}
    world.now += growing.RECOVER_S + 1
    world.growing.joined({well})
    world.settled(1)
    assert world.set_up == [lost]


def test_a_machine_that_the_cloud_took_away_is_forgotten() -> None:
    world = World()
    world.growing.launch({"small": 1})
    world.settled(1)
    world.cloud.rows.clear()
    assert world.growing.asked() == {}


@pytest.mark.parametrize(("speed", "more"), [(0.0, 5), (1.0, 8)])
def test_bounds_of_growth(speed: float, more: int) -> None:
    world = World(upscaling_speed=speed, max_workers=20)
    assert world.growing.more_max() == 5
    world.growing.launch({"small": 8})
    world.settled(8)
    world.growing.joined({one.id for one in world.growing.instances()})
    assert world.growing.more_max() == more
    world.growing.launch({"small": 8})
    world.settled(16)
    world.growing.joined({one.id for one in world.growing.instances()})
    assert world.growing.more_max() == 4, "max_workers"


def test_the_launcher_makes_the_head_once_and_finds_it_again() -> None:
    cloud = FakeCloud()
    provider = CloudProvider(config(), cloud, pause=lambda _: None)
    assert not provider.is_up()
    head = provider.take_head()
    assert (provider.head(), provider.is_up(), cloud.prepared) == (head, True, 1)
    assert provider.take_head() == head
    env = provider.env_of(Host("a", "b", "i-9", "large"))
    assert env == {
        "RAY_NODE_TYPE_NAME": "large",
        "RAY_CLOUD_INSTANCE_ID": "i-9",
        "RAY_OVERRIDE_RESOURCES": '{"disk": 2.0}',
        "RAY_OVERRIDE_LABELS": '{"zone": "a"}',
    }
    small = [cloud.add("small") for _ in range(2)]
    assert [host.id for host in provider.take_workers()] == small[:1], "min_workers"
    provider.release([provider.workers()[1]])
    assert cloud.ended == [small[1]]
    # With the head everything goes, also what nobody has seen yet.
    late = cloud.add("large")
    provider.release([head])
    assert sorted(cloud.ended) == sorted([head.id, *small, late])


def test_a_machine_that_gets_no_address_is_told() -> None:
    cloud = FakeCloud()
    clock = itertools.count(0.0, 50.0)
    provider = CloudProvider(config(), cloud, now=lambda: next(clock), pause=lambda _: None)
    with pytest.raises(CloudError, match=r"i-7 has no address after 300 s.*use_internal_ips"):
        provider.addressed("i-7")
