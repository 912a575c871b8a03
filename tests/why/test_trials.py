"""``heliostat why`` of a trial of Tune: what it waits for, or how it ended (WHY-1)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import clean_env, wait_until

pytest.importorskip("numpy", reason="search spaces draw with numpy")

pytestmark = pytest.mark.heliostat_only("Ray cannot say what a trial waits for")
CPUS = 2

Ask = Callable[[str], str]


def tuner(trainable: Any, folder: Path, space: dict[str, Any], **config: Any) -> Any:
    from ray import tune

    stop = config.pop("stop", None)
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(**config),
        run_config=tune.RunConfig(name="looked at", storage_path=str(folder), verbose=0, stop=stop),
    )


class Odd(float):
    """A metric of a class that the command must not need."""


def ends_each_way(config: dict[str, Any]) -> None:
    from ray import tune

    for step in range(3):
        if config["way"] == 1 and step == 1:
            raise ValueError("the data are gone")
        tune.report({"score": Odd(step + 10 * (config["way"] == 2))})


def test_how_a_trial_ended(ask: Ask, tmp_path: Path) -> None:
    from ray import tune

    space = {"way": tune.grid_search([0, 1, 2])}
    results = tuner(ends_each_way, tmp_path, space, stop={"score": 11}).fit()
    whole, failed, stopped = (result.metrics["trial_id"] for result in results)
    said = ask(whole)
    assert f"Trial ends_each_way_{whole} of the search 'looked at' is TERMINATED." in said
    assert "It ended after 3 iterations. Nobody stopped it." in said
    assert f"Its folder: {results[0].path}" in said
    said = ask(failed)
    assert "is ERROR. It ended" not in said
    assert "It ended after 1 iteration: ValueError: the data are gone" in said
    assert os.path.join(results[1].path, "error.txt") in said
    assert re.search(r"It ended after 2 iterations\. \w+ stopped it at iteration 2\.", ask(stopped))
    assert ask(f"ends_each_way_{whole}") == ask(whole), "by its name"


def test_the_scheduler_that_stopped_a_trial_is_named(ask: Ask, tmp_path: Path) -> None:
    from ray import tune

    class Strict(tune.schedulers.FIFOScheduler):
        def on_trial_result(self, search: Any, trial: Any, result: dict[str, Any]) -> str:
            return "STOP" if result["training_iteration"] == 2 else "CONTINUE"

    results = tuner(ends_each_way, tmp_path, {"way": 0}, scheduler=Strict()).fit()
    assert "Strict stopped it at iteration 2." in ask(results[0].metrics["trial_id"])


def test_trials_of_one_name_are_all_told_of(ask: Ask, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        tuner(
            ends_each_way,
            tmp_path / folder,
            {"way": 0},
            trial_name_creator=lambda trial: "twin",
        ).fit()
    said = ask("twin")
    assert said.count("Trial twin of the search") == 2
    assert str(tmp_path / "one") in said
    assert str(tmp_path / "two") in said


def waits(config: dict[str, Any]) -> None:
    from ray import tune

    tune.report({"score": 1})
    Path(config["here"], str(config["n"])).touch()
    while not os.path.exists(os.path.join(config["here"], "go")):
        time.sleep(0.01)


def test_what_a_trial_waits_for(ask: Ask, tmp_path: Path) -> None:
    from ray import tune

    here = tmp_path / "here"
    here.mkdir()
    space = {"here": str(here), "n": tune.grid_search([0, 1, 2, 3])}
    search = tuner(waits, tmp_path, space, max_concurrent_trials=1)
    found: list[Any] = []
    runner = threading.Thread(target=lambda: found.append(search.fit()), daemon=True)
    runner.start()
    wait_until((here / "0").exists)
    # The id is known from the folder.
    folders = sorted((tmp_path / "looked at").glob("waits_*"))
    (trial_id,) = {"_".join(one.name.split("_")[1:3]) for one in folders}
    wait_until(lambda: "It has 1 iteration so far, and takes 1 CPU." in ask(trial_id))
    said = ask(trial_id)
    assert "is RUNNING" in said
    assert "TrialActor" in said, "what its actor does"
    later = trial_id[:-1] + "3"
    assert f"Trial {later} of the search 'looked at' has not begun" in ask(later)
    assert "1 trial runs, and the search allows 1 at once" in ask(later)
    (here / "go").touch()
    runner.join(60)
    assert not runner.is_alive()
    assert "is TERMINATED" in ask(later)


def test_a_trial_whose_driver_is_gone(ask: Ask, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, sys
import ray
sys.path.insert(0, {str(Path(__file__).parent)!r})
from ray import tune

def hang(config):
    import time
    tune.report({{"score": 1}})
    print(tune.get_context().get_trial_id(), file=open(os.path.join({str(here)!r}, "part"), "w"))
    os.replace(os.path.join({str(here)!r}, "part"), os.path.join({str(here)!r}, "id"))
    time.sleep(600)

ray.init(address={ray.get_runtime_context().gcs_address!r})
tune.Tuner(hang, run_config=tune.RunConfig(storage_path={str(tmp_path)!r}, name="lost", verbose=0)).fit()
""")
    driver = subprocess.Popen([sys.executable, str(program)], env=clean_env({}))
    try:
        wait_until((here / "id").exists)
        trial_id = (here / "id").read_text().strip()
        wait_until(lambda: "1 iteration so far" in ask(trial_id))
    finally:
        driver.kill()
        driver.wait()
    wait_until(
        lambda: "The driver of its search has ended; it came to 1 iteration." in ask(trial_id)
    )
