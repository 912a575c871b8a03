"""``LoggingConfig``: how the root loggers of drivers and workers write."""

from __future__ import annotations

import json
from typing import Any

import pytest
import ray

SOURCE = """
import logging, ray
{setup}
logging.getLogger().info("too quiet")
logging.getLogger().warning("from the driver")
@ray.remote
def task():
    logging.getLogger().info("too quiet")
    logging.getLogger("mine").warning("from a task", extra={{"more": 1}})
@ray.remote
class Actor:
    def talk(self):
        logging.getLogger().warning("from an actor")
actor = Actor.options(name="known").remote()
ray.get([task.remote(), actor.talk.remote()])
ray.shutdown()
"""
CONFIG = 'ray.LoggingConfig(encoding="{}", log_level="WARNING")'
INIT = "ray.init('local', num_cpus=2, include_dashboard=False, logging_config={})"


def records(text: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {record["message"]: record for record in found}


@pytest.mark.contract("F0.19")
def test_json_says_whose_a_record_is(run_driver: Any) -> None:
    done = run_driver(SOURCE.format(setup=INIT.format(CONFIG.format("JSON")))).check()
    found = records(done.output)
    assert "too quiet" not in found
    driver, task, actor = (found[f"from {who}"] for who in ("the driver", "a task", "an actor"))
    for record in (driver, task, actor):
        assert {"asctime", "levelname", "filename", "lineno", "process", "timestamp_ns"} <= {
            *record
        }
        assert {"job_id", "worker_id", "node_id"} <= {*record}
    assert "task_id" not in driver
    assert (task["task_name"], task["more"]) == ("task", 1)
    assert task["task_func_name"].endswith("task")
    assert (actor["actor_name"], len(actor["actor_id"])) == ("known", 32)
    assert task["worker_id"] != actor["worker_id"]


@pytest.mark.contract("F0.19")
def test_text_says_it_too(run_driver: Any) -> None:
    done = run_driver(SOURCE.format(setup=INIT.format(CONFIG.format("TEXT")))).check()
    line = next(line for line in done.output.splitlines() if "from a task" in line)
    assert " -- from a task" in line
    assert "task_name=task" in line
    assert "more=1" in line


@pytest.mark.contract("F0.19", "F15.06")
def test_the_encoding_from_the_environment(run_driver: Any) -> None:
    setup = INIT.format("None")
    done = run_driver(
        SOURCE.format(setup=setup), env={"RAY_LOGGING_CONFIG_ENCODING": "JSON"}
    ).check()
    assert "from a task" in records(done.output)


@pytest.mark.contract("F0.19")
def test_what_a_config_takes() -> None:
    assert ray.LoggingConfig().encoding == "TEXT"
    assert ray.LoggingConfig(additional_log_standard_attrs=["name"]).log_level == "INFO"
    with pytest.raises(ValueError, match="XML"):
        ray.LoggingConfig(encoding="XML")
    with pytest.raises(ValueError, match="nothing"):
        ray.LoggingConfig(additional_log_standard_attrs=["nothing"])
