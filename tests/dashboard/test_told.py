"""What the page asks for besides Ray's routes: activity, errors, stacks, and what libraries tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers import harness
from tests.helpers.answer_types import differences
from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05", "F6.26"),
    pytest.mark.heliostat_only("the routes are our own"),
]

WAIT_S = 120


def get(head: Head, path: str) -> Any:
    answer = head.ask("GET", path)
    assert answer.status == 200, answer.text
    return answer.json()


TYPES = {"datasets": "DatasetRun", "tuning": "SearchRun", "serving": "ApplicationRun"}


def runs(head: Head, kind: str) -> list[dict[str, Any]]:
    """What is told of these runs now, which always is of the type that the page has of it."""
    told = get(head, f"/api/v0/{kind}")
    assert differences(told, f"Runs<{TYPES[kind]}>") == []
    found: list[dict[str, Any]] = told["runs"]
    return found


def start(head: Head, folder: Path, code: str) -> harness.Driver:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    return harness.start_driver(folder, code, args=[str(folder)], env=env)


TASKS = """
import time, ray
ray.init()

@ray.remote
def quick(x):
    return x

@ray.remote(max_retries=0)
def breaks(x):
    raise ValueError("no column" if x else "no table")

@ray.remote
def holds_on():
    kept = []
    while True:
        kept.append(bytes(20_000))
        time.sleep(0.05)

ray.get([quick.remote(x) for x in range(5)])
for x in (0, 1, 1):
    try:
        ray.get(breaks.remote(x))
    except ray.exceptions.RayTaskError:
        pass
ray.get(holds_on.remote())
"""


def test_activity_errors_order_and_stacks(head: Head, tmp_path: Path) -> None:
    driver = start(head, tmp_path, TASKS)
    try:

        def running() -> list[dict[str, Any]]:
            bars = get(head, "/api/v0/tasks/activity?since=0")["bars"]
            return [bar for bar in bars if bar["name"] == "holds_on" and bar["state"] == "RUNNING"]

        wait_until(running, within=WAIT_S)
        told = get(head, "/api/v0/tasks/activity?since=0")
        names = [bar["name"] for bar in told["bars"]]
        assert names.count("quick") == 5
        assert names.count("breaks") == 3
        held = running()[0]
        assert held["end"] == 0
        # Since now: only what runs.
        later = get(head, f"/api/v0/tasks/activity?since={told['now'] + 1}")["bars"]
        assert [bar["name"] for bar in later] == ["holds_on"]
        wrong = head.ask("GET", "/api/v0/tasks/activity?since=yesterday")
        assert (wrong.status, "`since`" in wrong.text) == (400, True)

        groups = get(head, "/api/v0/tasks/errors")["groups"]
        assert [(group["message"], group["count"]) for group in groups] == [
            ("ValueError: no column", 2),
            ("ValueError: no table", 1),
        ]

        page = get(head, "/api/v0/tasks?order=creation_time_ms&detail=1")["data"]["result"]
        made = [row["creation_time_ms"] for row in page["result"]]
        assert made == sorted(made, reverse=True)
        wrong = head.ask("GET", "/api/v0/tasks?order=colour")
        assert (wrong.status, "`colour`" in wrong.text) == (400, True)

        place = f"/api/v0/stacks/{held['node_id']}/{held['pid']}"
        stacks = get(head, place)
        assert "holds_on" in stacks["text"]
        assert "stacks" not in stacks
        sampled = get(head, f"{place}?seconds=1")
        assert sampled["looks"] > 1
        frames = [frame for stack in sampled["stacks"] for frame in stack["frames"]]
        assert any(frame.startswith("holds_on (") for frame in frames)
        # What it has allocated in a second and still has, by the line that did.
        memory = get(head, f"{place}?seconds=1&memory=1")
        largest = memory["stacks"][0]
        assert largest["count"] >= 20_000, memory["stacks"][:3]
        assert memory["resident"] > memory["bytes"] >= largest["count"]
        assert memory["is_new"]
        assert any("kept.append(bytes(20_000))" in frame for frame in largest["frames"]), largest
        for path, status, text in (
            (f"{place}?memory=1", 400, "`memory` goes with `seconds`"),
            (f"/api/v0/stacks/{held['node_id']}/1", 404, "No worker 1 runs on node"),
            (f"/api/v0/stacks/ab/{held['pid']}", 404, "runs on node ab"),
            (f"/api/v0/stacks/{held['node_id']}/x", 400, 'not "x"'),
            (f"{place}?seconds=61", 400, "from 0 to 60"),
        ):
            answer = head.ask("GET", path)
            assert (answer.status, text in answer.text) == (status, True), answer.text
    finally:
        driver.kill()


DATA = """
import sys, time, ray

ray.init()

def slow(batch):
    time.sleep(0.3)
    return batch

def broken(batch):
    time.sleep(0.3)
    if batch["id"][0] > 50:
        raise ValueError("a wrong row")
    return batch

def blocks(function):
    made = ray.data.range(80, override_num_blocks=8)
    return made.map_batches(function, batch_size=None).iter_batches()

list(blocks(slow))
try:
    list(blocks(broken))
except Exception:
    pass
"""


def test_executions_of_datasets_are_told_of(head: Head, tmp_path: Path) -> None:
    start(head, tmp_path, DATA).finish(WAIT_S).check()
    broken, slow = runs(head, "datasets")
    assert (slow["is_over"], slow["seen"]["state"], slow["seen"]["rows"]) == (True, "FINISHED", 80)
    last = slow["seen"]["operators"][-1]
    assert "slow" in last["name"]
    assert (last["rows"], last["bound"], last["running"]) == (80, "", 0)
    assert last["udf_s"] > 0
    assert slow["seen"]["past"]
    assert (broken["is_over"], broken["seen"]["state"]) == (True, "FAILED")
    assert "a wrong row" in broken["seen"]["why"]


SEARCH = """
import pathlib, sys, time
import ray
from ray import tune

gate = pathlib.Path(sys.argv[1], "gate")

def trains(config):
    for step in range(3):
        tune.report({"loss": config["lr"] * (3 - step), "nan": float("nan")})
    while not gate.exists():
        time.sleep(0.05)
    if config["lr"] > 0.4:
        raise ValueError("too much")

ray.init()
run = tune.RunConfig(name="the-search", storage_path=sys.argv[1], verbose=0)
config = tune.TuneConfig(metric="loss", mode="min")
space = {"lr": tune.grid_search([0.25, 0.5]), "odd \\ud800": tune.choice(["a"]), "inf": float("inf")}
tune.Tuner(tune.with_resources(trains, {"cpu": 0.5}), param_space=space, run_config=run,
           tune_config=config).fit()
"""


def test_searches_are_told_of_while_they_go_on(head: Head, tmp_path: Path) -> None:
    driver = start(head, tmp_path, SEARCH)
    try:

        def values() -> list[float | None]:
            found = [run for run in runs(head, "tuning") if run["name"] == "the-search"]
            return [trial["value"] for run in found for trial in run["seen"]["trials"]]

        wait_until(lambda: sorted(values(), key=str) == [0.25, 0.5], within=WAIT_S)
        seen = runs(head, "tuning")[0]["seen"]
        assert (seen["state"], seen["metric"], seen["mode"]) == ("RUNNING", "loss", "min")
        first = min(seen["trials"], key=lambda trial: trial["value"])
        assert first["parameters"]["lr"] == 0.25
        assert first["curve"] == [[1.0, 0.75], [2.0, 0.5], [3.0, 0.25]]
        (tmp_path / "gate").touch()
        driver.finish(WAIT_S).check()
        run = runs(head, "tuning")[0]
        assert (run["is_over"], run["seen"]["state"]) == (True, "FINISHED")
        assert run["seen"]["best"] == first["id"]
        states = {trial["state"]: trial for trial in run["seen"]["trials"]}
        assert sorted(states) == ["ERROR", "TERMINATED"]
        assert "too much" in states["ERROR"]["error"]
        (failed,) = run["seen"]["errors"]
        assert (failed["text"], failed["count"]) == ("ValueError: too much", 1)
        assert failed["trials"] == [states["ERROR"]["name"]]
        assert run["seen"]["best_so_far"][-1][1] == 0.25
        assert run["seen"]["importance"] == []  # of two trials nothing is said
    finally:
        driver.kill()


APPLICATION = """
import pathlib, sys, time
import ray
from ray import serve

@serve.deployment(num_replicas=2, health_check_period_s=0.5, ray_actor_options={"num_cpus": 0})
class Echo:
    def __call__(self, text):
        if text == "bad":
            raise ValueError(text)
        return text

ray.init()
serve.start(http_options={"location": "NoServer"})
handle = serve.run(Echo.bind(), name="the-app", route_prefix="/echo")
gate = pathlib.Path(sys.argv[1], "gate")
while not gate.exists():
    handle.remote("x").result()
    try:
        handle.remote("bad").result()
    except Exception:
        pass
    time.sleep(0.01)
serve.shutdown()
"""


def test_applications_are_told_of_until_they_are_gone(head: Head, tmp_path: Path) -> None:
    driver = start(head, tmp_path, APPLICATION)
    try:

        def measured() -> list[dict[str, Any]]:
            found = [run for run in runs(head, "serving") if run["name"] == "the-app"]
            told = [one for run in found for one in run["seen"]["deployments"]]
            return [
                one for one in told if one["past"] and one["past"][-1][4] and one["past"][-1][5]
            ]

        wait_until(measured, within=WAIT_S)
        one = measured()[0]
        assert (one["name"], one["target"], one["running"]) == ("Echo", 2, 2)
        _, replicas, _, waiting, _, _, half, most = one["past"][-1]
        assert (replicas, waiting) == (2, 0)
        assert 0 < half <= most
        assert {replica["state"] for replica in one["replicas"]} == {"RUNNING"}
        assert all(replica["node_id"] and replica["actor_id"] for replica in one["replicas"])
        (tmp_path / "gate").touch()
        driver.finish(WAIT_S).check()
        wait_until(lambda: not runs(head, "serving"), within=WAIT_S)
    finally:
        driver.kill()
