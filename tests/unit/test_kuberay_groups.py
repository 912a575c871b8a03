"""What the autoscaler reads of a RayCluster, and how it changes it: the resource is a dictionary here."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("heliostat", reason="Heliostat's own modules")

from heliostat.autoscaler.kuberay import KubeRay, quantity
from heliostat.autoscaler.model import Instance

pytestmark = [
    pytest.mark.heliostat_only("the modules are Heliostat's own"),
    pytest.mark.contract("F6.30", "F6.31"),
]


def group(name: str = "small", **changes: Any) -> dict[str, Any]:
    container = {"resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}}}
    usual = {
        "groupName": name,
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 4,
        "rayStartParams": {},
        "template": {"spec": {"containers": [container]}},
    }
    return {**usual, **changes}


class Server:
    """The API server: one RayCluster and its pods."""

    def __init__(self, *groups: dict[str, Any], **options: Any) -> None:
        self.cluster = {"spec": {"workerGroupSpecs": list(groups), "autoscalerOptions": options}}
        self.pods: list[dict[str, Any]] = []
        self.steps: list[Mapping[str, Any]] = []

    def add(self, name: str, of: str, *, phase: str = "Running", ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.pods.append(
            {
                "metadata": {"name": name, "labels": {"ray.io/group": of}},
                "status": {"phase": phase, "conditions": conditions},
            }
        )

    def get(self, path: str) -> Any:
        return copy.deepcopy({"items": self.pods} if "/pods?" in path else self.cluster)

    def patch(self, _path: str, steps: Sequence[Mapping[str, Any]]) -> Any:
        self.steps = list(steps)
        for step in steps:
            _, _, _, index, key = str(step["path"]).split("/")
            of: dict[str, Any] = self.cluster["spec"]["workerGroupSpecs"][int(index)]  # type: ignore[index] # a list
            if step["op"] == "test":
                assert of[key] == step["value"]
            else:
                of[key] = step["value"]
        return self.get("")

    def scaled(self) -> KubeRay:
        made = KubeRay(self, "team", "default")  # type: ignore[arg-type] # it answers the same
        made.types()
        return made

    def of(self, index: int) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster["spec"]["workerGroupSpecs"][index]  # type: ignore[index] # a list
        return found


@pytest.mark.parametrize(
    ("text", "expect"),
    [("500m", 0.5), ("2", 2), (4, 4), ("1.5", 1.5), ("2Gi", 2 << 30), ("3M", 3e6), ("1e3", 1000)],
)
def test_quantities(text: Any, expect: float) -> None:
    assert quantity(text) == expect


@pytest.mark.parametrize(
    ("changes", "expect"),
    [
        ({}, {"CPU": 2, "memory": 2 << 30}),
        ({"rayStartParams": {"num-cpus": "8"}}, {"CPU": 8, "memory": 2 << 30}),
        ({"resources": {"CPU": "3", "disk": "2"}}, {"CPU": 3, "memory": 2 << 30, "disk": 2}),
        (
            {"rayStartParams": {"resources": '"{\\"a\\": 1, \\"b\\": 2}"', "num-gpus": "1"}},
            {"CPU": 2, "memory": 2 << 30, "a": 1, "b": 2, "GPU": 1},
        ),
        ({"rayStartParams": {"resources": "'{\"a\": 1}'"}}, {"CPU": 2, "memory": 2 << 30, "a": 1}),
    ],
)
def test_what_a_pod_will_offer(changes: dict[str, Any], expect: dict[str, float]) -> None:
    assert Server(group(**changes)).scaled().types()["small"].resources == expect


def test_devices_are_those_of_the_container() -> None:
    one = group()
    limits = one["template"]["spec"]["containers"][0]["resources"]["limits"]
    limits.update({"nvidia.com/mig-2g.20gb": "2", "google.com/tpu": "4"})
    found = Server(one).scaled().types()["small"].resources
    assert (found["GPU"], found["TPU"]) == (2, 4)


def test_bounds_labels_and_groups_that_are_suspended() -> None:
    server = Server(
        group(minReplicas=2, replicas=1, labels={"zone": "a"}, idleTimeoutSeconds=7),
        group("slices", numOfHosts=4, replicas=1),
        group("off", suspend=True),
        idleTimeoutSeconds=30,
    )
    scaled = server.scaled()
    types = scaled.types()
    assert types.keys() == {"small", "slices"}
    small, slices = types["small"], types["slices"]
    assert (small.least, small.most, small.labels, small.idle_timeout_s) == (2, 4, {"zone": "a"}, 7)
    assert (slices.most, slices.batch) == (16, 4)
    assert scaled.asked() == {"small": 2, "slices": 4}
    assert scaled.idle_timeout_s() == 30


def test_pods_that_have_failed_or_are_deleted_are_none() -> None:
    server = Server(group(scaleStrategy={"workersToDelete": ["doomed"]}))
    for name, phase in (("a", "Running"), ("b", "Pending"), ("c", "Failed"), ("doomed", "Running")):
        server.add(name, "small", phase=phase)
    server.add("head", "headgroup")
    server.pods[1]["metadata"]["deletionTimestamp"] = "now"
    assert server.scaled().instances() == [Instance("a", "small")]


def test_more_and_fewer_are_said_by_replicas_and_names() -> None:
    server = Server(group(), group("large", maxReplicas=2, replicas=0))
    server.add("a", "small")
    scaled = server.scaled()
    scaled.launch({"small": 2, "large": 5})
    assert (server.of(0)["replicas"], server.of(1)["replicas"]) == (3, 2)
    # Somebody else changes it meanwhile: what is there counts.
    server.of(0)["replicas"] = 4
    server.add("b", "small")
    scaled.terminate([Instance("a", "small")])
    assert server.of(0)["replicas"] == 3
    assert server.of(0)["scaleStrategy"] == {"workersToDelete": ["a"]}
    # The next patch names those that are not gone yet, too, and forgets those that are.
    scaled.terminate([Instance("b", "small")])
    assert server.of(0)["scaleStrategy"]["workersToDelete"] == ["a", "b"]
    server.pods = []
    scaled.launch({"small": 1})
    assert server.of(0)["scaleStrategy"]["workersToDelete"] == []
    assert server.of(0)["replicas"] == 3
    assert server.steps[0] == {
        "op": "test",
        "path": "/spec/workerGroupSpecs/0/groupName",
        "value": "small",
    }
    # A pod that is gone already lowers nothing.
    scaled.terminate([Instance("a", "small")])
    assert server.of(0)["replicas"] == 3


def test_replicas_of_several_hosts_are_named_by_all_their_pods() -> None:
    server = Server(group(numOfHosts=2, replicas=2), group("large"))
    for number in range(4):
        server.add(f"p{number}", "small")
        server.pods[-1]["metadata"]["labels"]["ray.io/worker-group-replica-name"] = (
            f"r{number // 2}"
        )
    server.add("alone", "large")
    # With one host each pod is a replica, whatever labels it has.
    server.pods[-1]["metadata"]["labels"]["ray.io/worker-group-replica-name"] = "r9"
    scaled = server.scaled()
    assert scaled.instances() == [
        Instance("p0", "small", "r0"),
        Instance("p1", "small", "r0"),
        Instance("p2", "small", "r1"),
        Instance("p3", "small", "r1"),
        Instance("alone", "large"),
    ]
    scaled.terminate([one for one in scaled.instances() if one.unit == "r0"])
    assert server.of(0)["replicas"] == 1
    assert server.of(0)["scaleStrategy"] == {"workersToDelete": ["p0", "p1"]}
    scaled.launch({"small": 2})
    assert server.of(0)["replicas"] == 2


def test_conservative_scaling_asks_for_few_at_a_time() -> None:
    assert Server(group()).scaled().more_max() is None
    server = Server(group(replicas=3), upscalingMode="Conservative")
    server.add("a", "small")
    server.add("b", "small", ready=False)
    # One is ready, two are on their way, and five may be.
    assert server.scaled().more_max() == 3
