"""Libraries that people run on Ray, as they come from PyPI: each one's quick start, on the cluster and not.

The programs compare by themselves and fail where results differ; each also shows that it was the cluster
that did the work. `make libraries` installs the libraries and runs this.
"""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 240

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * LIMIT_S + 60),
    pytest.mark.heliostat_only("it is our environment that has the libraries"),
]


def test_the_distribution_is_ours() -> None:
    """No library has brought the real Ray."""
    assert "heliostat" in importlib.metadata.version("ray")
    import heliostat
    import ray

    assert ray.ObjectRef is heliostat.ObjectRef


def run(run_driver: Any, name: str, **environment: str) -> Any:
    program = PROGRAMS / f"{name}.py"
    # Outside of pytest nothing makes errors of the libraries' own warnings.
    return run_driver(program, timeout=LIMIT_S, env=environment).check()


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        pytest.param("modin_frames", 6, marks=pytest.mark.contract("F0.01", "F1.02")),
        pytest.param("dask_collections", 8, marks=pytest.mark.contract("F14.06", "F1.06")),
        pytest.param("fugue_transform", 1, marks=pytest.mark.contract("F10.01")),
        pytest.param("joblib_search", 6, marks=pytest.mark.contract("F14.03")),
        pytest.param("xgboost_actors", 4, marks=pytest.mark.contract("F2.13", "F4.01")),
        pytest.param("lightgbm_actors", 1, marks=pytest.mark.contract("F2.13", "F4.01")),
        pytest.param("verl_workers", 3, marks=pytest.mark.contract("F2.02", "F4.01")),
        pytest.param("tianshou_environments", 6, marks=pytest.mark.contract("F2.01")),
    ],
)
def test_results_are_those_without_ray(run_driver: Any, name: str, compared: int) -> None:
    assert run(run_driver, name).value("compared") == str(compared)


@pytest.mark.contract("F14.06")
def test_dask_beside_its_schedulers(run_driver: Any) -> None:
    assert run(run_driver, "dask_details").value("done") == "yes"


@pytest.mark.contract("F2.12", "F1.09")
def test_daft(run_driver: Any) -> None:
    results = {
        runner: run(run_driver, "daft_frames", RUNNER=runner).value("results")
        for runner in ("ray", "native")
    }
    assert results["ray"] == results["native"]


@pytest.mark.contract("F2.01", "F2.25")
def test_flower(run_driver: Any) -> None:
    assert run(run_driver, "flower").value("actors") == "2"


@pytest.mark.contract("F1.02")
def test_prefect(run_driver: Any, tmp_path: Path) -> None:
    # Its settings and its database are this test's own; it starts its server by itself.
    home = {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(LIMIT_S),
        "DO_NOT_TRACK": "1",
    }
    assert run(run_driver, "prefect_flow", **home).value("compared") == "7"


# Those that have an environment of their own, tests/libraries/environments, and the program of each.
ALONE = {
    "dagster_ray": "dagster_job",
    "data_prep_toolkit": "data_prep_transform",
    "datatrove": "datatrove_pipeline",
    "deephyper": "deephyper_search",
    "econml": "econml_effects",
    "evotorch": "evotorch_search",
    "ezray": "ezray_tasks",
    "flaml": "flaml_search",
    "hamilton": "hamilton_graph",
    "hydra_ray_launcher": "hydra_jobs",
    "lance_ray": "lance_tables",
    "mlflow": "mlflow_trials",
    "neuralforecast": "neuralforecast_search",
    "openrlhf": "openrlhf_launcher",
    "rayorch": "rayorch_pipeline",
    "raylings": "raylings_solutions",
    "sktime": "sktime_grid",
    "smallpond": "smallpond_sql",
    "spark_bestfit": "bestfit_distributions",
    "stable_baselines3": "stable_baselines3_learners",
    "statsforecast": "statsforecast_frames",
    "torchrl": "torchrl_collector",
    "trl": "trl_padding",
    "wandb": "wandb_trials",
}


@pytest.mark.contract("F0.01")
@pytest.mark.parametrize("environment", sorted(ALONE))
def test_it_runs_in_an_environment_of_its_own(run_driver: Any, environment: str) -> None:
    python = Path(os.environ["HELIOSTAT_LIBRARIES"], environment, "bin", "python")
    # The course has sixty programs.
    limit_s = 2 * LIMIT_S if environment == "raylings" else LIMIT_S
    finished = run_driver(PROGRAMS / f"{ALONE[environment]}.py", timeout=limit_s, python=python)
    assert finished.check().value("cluster") == "yes"


@pytest.mark.parametrize("environment", sorted(ALONE))
def test_no_environment_has_another_ray(environment: str) -> None:
    """A library that requires one release of Ray would bring it, and its program would run on that."""
    folder = Path(os.environ["HELIOSTAT_LIBRARIES"], environment)
    own = [path for path in folder.glob("lib/python*/site-packages/*") if path.is_dir()]
    assert own, folder
    assert [path.name for path in own if path.name == "ray" or path.name.startswith("ray-")] == []


def test_each_environment_has_its_program() -> None:
    lists = PROGRAMS.parent / "environments"
    assert {path.stem.removesuffix(".alone") for path in lists.glob("*.txt")} == set(ALONE)
