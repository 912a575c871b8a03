"""The values for KubeRay's chart describe the cluster that the plain resource describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"

pytestmark = pytest.mark.heliostat_only("examples of this repository")


def group(values: dict[str, Any], image: str, container: str) -> dict[str, Any]:
    """What the chart makes of a group's values."""
    made = {"name": container, "image": image, "resources": values["resources"]}
    if "ports" in values:
        made["ports"] = values["ports"]
    return {
        "rayStartParams": values["rayStartParams"],
        "template": {"spec": {"containers": [made]}},
    }


def test_helm_makes_the_cluster_of_the_resource() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    wanted = yaml.safe_load((FOLDER / "cluster.yaml").read_text())
    image = f"{values['image']['repository']}:{values['image']['tag']}"
    counts = ("replicas", "minReplicas", "maxReplicas")
    assert values["worker"] == {"disabled": True}
    assert wanted["metadata"]["name"] == values["fullnameOverride"]
    assert wanted["spec"] == {
        "authOptions": values["authOptions"],
        **{
            key: values["head"][key]
            for key in ("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions")
        },
        "headGroupSpec": group(values["head"], image, "ray-head"),
        "workerGroupSpecs": [
            {
                "groupName": name,
                **{key: one[key] for key in counts},
                **group(one, image, "ray-worker"),
            }
            for name, one in values["additionalWorkerGroups"].items()
            if not one["disabled"]
        ],
    }
