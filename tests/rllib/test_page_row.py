"""What ``heliostat why`` and the page are told of an algorithm."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import ray
from heliostat.experimental import internal_kv
from heliostat.rllib.algorithms.page_row import AlgorithmRow
from heliostat.rllib.utils import waiting
from heliostat.train.controller import page_row
from ray.rllib.algorithms.ppo import PPOConfig

pytestmark = pytest.mark.heliostat_only("our own command and page")
CLUSTER = {"num_cpus": 1}


@pytest.fixture
def algorithm(ray_start: Any, monkeypatch: pytest.MonkeyPatch) -> AlgorithmRow:
    monkeypatch.setattr(page_row, "_PERIOD_S", 0.0)
    monkeypatch.setattr(waiting, "TELL_S", 0.1)
    config = PPOConfig().env_runners(num_env_runners=2)
    return AlgorithmRow("PPO_Maze", config, "no folder")


def row(namespace: str = page_row.NAMESPACE) -> dict[str, Any]:
    key = max(internal_kv._internal_kv_list(b"", namespace=namespace))
    found: dict[str, Any] = json.loads(internal_kv._internal_kv_get(key, namespace=namespace))
    return found


@ray.remote(num_cpus=1)
class Runner:
    def sample(self) -> int:
        return 1


def test_a_runner_without_a_place_is_named_with_its_reason(algorithm: AlgorithmRow) -> None:
    first, second = Runner.remote(), Runner.remote()
    assert ray.get(first.sample.remote(), timeout=600) == 1
    calls = {"env runner 1": first.sample.remote(), "env runner 2": second.sample.remote()}
    heard: list[str] = []

    class Listens:
        def waits(self, given: dict[str, Any]) -> None:
            algorithm.waits(given)
            heard.append(row()["text"])
            if set(given) == {"env runner 2"}:
                ray.kill(first)  # which makes room

    assert set(waiting.wait_for(calls, Listens())) == set(calls.values())
    told_of = [text for text in heard if "Waits for env runner 2" in text]
    assert told_of
    assert any("CPU" in text for text in told_of)
    assert "Waits for" not in heard[-1]
    ray.kill(second)


def test_waiting_ends_with_its_time(ray_start: Any) -> None:
    """Of what is late nothing is returned; without anybody to tell nothing is asked."""
    signal = Runner.options(resources={"nowhere": 1}).remote().sample.remote()
    ready = ray.put(1)
    calls = {"a": ready, "b": signal}
    assert waiting.wait_for(calls, timeout=0.2) == [ready]
    assert waiting.wait_for(calls, timeout=None, number=1) == [ready]


def test_results_failures_and_the_end_are_there(algorithm: AlgorithmRow) -> None:
    result = {
        "env_runners": {"episode_return_mean": 21.5, "other": 3},
        "learners": {"default_policy": {"total_loss": 0.25}, "__all_modules__": {"total_loss": 9}},
        "fault_tolerance": {"num_healthy_workers": 2, "num_remote_worker_restarts": 1},
        "num_env_steps_sampled_lifetime": 640,
    }
    algorithm.result(result)
    algorithm.failed("Env runner 2", ValueError("over\nthe wall"))
    time.sleep(0.01)
    algorithm.result({**result, "num_env_steps_sampled_lifetime": 1280})
    algorithm.end(failed=False)
    found = row()
    assert (found["name"], found["is_over"]) == ("PPO_Maze", True)
    assert "Env runner 2: the wall" in found["text"]
    seen = found["seen"]
    assert (seen["state"], seen["workers"], seen["reports"], seen["failures"]) == (
        "finished",
        2,
        2,
        1,
    )
    assert seen["metrics"]["episode_return_mean"] == 21.5
    assert seen["metrics"]["default_policy/total_loss"] == 0.25
    assert seen["metrics"]["healthy_runners"] == 2
    assert seen["metrics"]["env_steps_per_s"] > 0
    curves = {curve["name"]: curve["value"] for curve in row(page_row.CURVES)["curves"]}
    assert curves["episode_return_mean"] == [21.5, 21.5]
