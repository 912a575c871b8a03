"""Requests of programs to an autoscaler, and clusters that programs start as ``ray up`` does.

A request is kept by the control service, the newest in place of the one before, under :data:`NAMESPACE` and
:data:`KEY` of the key-value table: what starts machines for a cluster reads there what is wanted.
"""

from __future__ import annotations

import json
from typing import Any

from heliostat import _heliostat
from heliostat.autoscaler.launcher.programs import (
    create_or_update_cluster,
    get_head_node_ip,
    get_worker_node_ips,
    rsync,
    run_on_cluster,
    teardown_cluster,
)
from heliostat.core.platform.labels import check_selector

__all__ = [
    "create_or_update_cluster",
    "get_head_node_ip",
    "get_worker_node_ips",
    "request_resources",
    "rsync",
    "run_on_cluster",
    "teardown_cluster",
]

NAMESPACE = "autoscaler"
KEY = b"autoscaler_resource_request"


def request_resources(
    num_cpus: int | None = None,
    bundles: list[dict[str, float]] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Say how large the cluster should be at least, until the next request; returns at once.

    Args:
        num_cpus: CPUs in sum, in bundles of one.
        bundles: resources that must each fit one node.
        bundle_label_selectors: for each of ``bundles``, what the labels of its node must be.

    A request of nothing takes the last one back.

    Raises:
        TypeError: a quantity is not a number, or ``bundles`` is not a list of dictionaries.
        ValueError: there are not as many selectors as bundles, or one makes no sense.

    Examples:
        >>> from ray.autoscaler.sdk import request_resources
        >>> request_resources(num_cpus=2)  # before the work begins, so that nodes are there in time
        >>> request_resources(num_cpus=0)  # no longer
    """
    wanted: list[dict[str, Any]] = [{"resources": {"CPU": 1}}] * _count(num_cpus)
    for bundle, selector in _pairs(bundles, bundle_label_selectors):
        wanted.append({"resources": bundle, "label_selector": selector})
    _heliostat.kv_put(KEY, json.dumps(wanted).encode(), namespace=NAMESPACE)


def _count(num_cpus: Any) -> int:
    if num_cpus is None:
        return 0
    if type(num_cpus) is not int:
        raise TypeError("num_cpus should be of type int.")
    return num_cpus


def _pairs(bundles: Any, selectors: Any) -> list[tuple[dict[str, float], dict[str, str]]]:
    if bundles is None:
        bundles = []
    if not isinstance(bundles, list):
        raise TypeError("bundles should be of type List")
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise TypeError("each bundle should be a Dict.")
        for name, amount in bundle.items():
            if not isinstance(name, str):
                raise TypeError("each bundle key should be a str.")
            if not isinstance(amount, int | float):
                raise TypeError("each bundle value should be a number (int or float).")
    if selectors is None:
        return [(bundle, {}) for bundle in bundles]
    if not isinstance(selectors, list) or len(selectors) != len(bundles):
        raise ValueError(
            "`bundle_label_selectors` must be a list with length equal to the number of bundles."
        )
    for selector in selectors:
        check_selector(selector)
    return list(zip(bundles, selectors, strict=True))
