"""What workers on other nodes print last is shown before their driver ends."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.contract("F0.17", "F5.02")

DRIVER = """
import sys
import ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
for node in range(3):
    cluster.add_node(num_cpus=1, resources={f"node{node}": 1})
cluster.wait_for_nodes()

for job in range(5):
    ray.init(address=cluster.address)

    @ray.remote
    def speak(node):
        # What a pipe holds is not read yet when the call is over.
        print("\\n".join(f"line {line} of {node} in {job}" for line in range(2000)))
        print(f"error of {node} in {job}", file=sys.stderr)

    ray.get([speak.options(resources={f"node{node}": 1}).remote(node) for node in range(3)])
    ray.shutdown()
    print(f"job {job} is done")

cluster.shutdown()
"""


def test_a_driver_shows_the_last_lines_of_all_nodes_before_it_ends(run_driver: Any) -> None:
    done = run_driver(DRIVER, env={"RAY_DEDUP_LOGS": "0"}).check()
    shown = [line.split(")", 1)[-1].strip() for line in done.stdout.splitlines()]
    for job in range(5):
        end = shown.index(f"job {job} is done")
        expected = {f"line {line} of {node} in {job}" for node in range(3) for line in range(2000)}
        assert not expected - set(shown[:end])
        assert all(f"error of {node} in {job}" in done.stderr for node in range(3))
        del shown[: end + 1]
