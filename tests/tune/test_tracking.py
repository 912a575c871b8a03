"""Loggers that keep trials in tracking tools, each against its documented names (contract F9.42, F11.08).

The tools are no dependency, and none is reached: stand-ins note what they are told.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F9.42", "F11.08")

Told = list[tuple[Any, ...]]
SPACE = {"x": tune.grid_search([1, 2]), "net": {"width": 8}}


def trainable(config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "weights").write_text("w")
        kept = tune.Checkpoint.from_directory(folder)
        report = {"score": config["x"], "in": {"deep": 5}, "text": "t"}
        tune.report(report, checkpoint=kept)
    if config["x"] == 2:
        raise ValueError("two is bad")


def of(told: Told, kind: str) -> list[tuple[Any, ...]]:
    return [one[1:] for one in told if one[0] == kind]


def test_mlflow_has_a_run_for_each_trial(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: Told = []

    class Client:
        def __init__(self, tracking_uri: Any, registry_uri: Any) -> None:
            told.append(("client", tracking_uri, registry_uri))
            self.count = 0

        def get_experiment_by_name(self, name: str) -> Any:
            return None

        def create_experiment(self, name: str) -> str:
            return f"id of {name}"

        def create_run(self, experiment_id: str, tags: dict[str, Any]) -> Any:
            self.count += 1
            told.append(("run", experiment_id, tags["team"]))
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id=self.count))

        def log_param(self, run_id: int, name: str, value: Any) -> None:
            told.append(("param", run_id, name, value))

        def log_metric(self, run_id: int, name: str, value: float, step: int) -> None:
            told.append(("metric", run_id, name, value, step))

        def log_artifacts(self, run_id: int, folder: str) -> None:
            told.append(("artifacts", run_id, Path(folder, "result.json").exists()))

        def set_terminated(self, run_id: int, status: str) -> None:
            told.append(("end", run_id, status))

    mlflow = types.ModuleType("mlflow")
    mlflow.tracking = types.SimpleNamespace(MlflowClient=Client)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    callback = MLflowLoggerCallback(
        "uri", experiment_name="mine", tags={"team": "t"}, save_artifact=True
    )
    grid = fit(trainable, SPACE, run={"callbacks": [callback]}, max_concurrent_trials=1)
    assert grid.num_errors == 1
    assert of(told, "client") == [("uri", None)]
    assert of(told, "run") == [("id of mine", "t")] * 2
    assert (1, "net/width", 8) in of(told, "param")
    assert (2, "x", 2) in of(told, "param")
    assert (1, "score", 1, 1) in of(told, "metric")
    assert (2, "in/deep", 5, 1) in of(told, "metric")
    assert not {"text", "config/x"} & {one[1] for one in of(told, "metric")}
    assert of(told, "artifacts") == [(1, True), (2, True)]
    assert of(told, "end") == [(1, "FINISHED"), (2, "FAILED")]
    with pytest.raises(ValueError, match="experiment_name"):
        fit(trainable, {"x": 1}, run={"callbacks": [MLflowLoggerCallback()]})


def test_wandb_has_a_run_for_each_trial(
    fit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: Told = []

    class Config:
        def update(self, values: dict[str, Any], allow_val_change: bool) -> None:
            told.append(("config", sorted(values)))

    class Run:
        config = Config()

        def log(self, values: dict[str, Any]) -> None:
            told.append(("log", values))

        def log_artifact(self, artifact: Any) -> None:
            told.append(("artifact", artifact.files))

        def finish(self, exit_code: int) -> None:
            told.append(("end", exit_code))

    class Artifact:
        def __init__(self, name: str, type: str) -> None:
            self.files: list[str] = []

        def add_dir(self, folder: str) -> None:
            self.files += [path.name for path in Path(folder).iterdir()]

    def init(**options: Any) -> Run:
        told.append(("init", options))
        return Run()

    wandb = types.ModuleType("wandb")
    vars(wandb).update(init=init, Artifact=Artifact)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setenv("WANDB_API_KEY", "old")
    from ray.air.integrations.wandb import WandbLoggerCallback

    key = tmp_path / "key"
    key.write_text("secret\n")
    callback = WandbLoggerCallback(
        "mine", api_key_file=str(key), excludes=["text"], upload_checkpoints=True, mode="offline"
    )
    fit(trainable, SPACE, run={"callbacks": [callback]}, max_concurrent_trials=1)
    first, second = (options for (options,) in of(told, "init"))
    assert (first["project"], first["group"], first["mode"]) == ("mine", "search", "offline")
    assert first["config"] == {"x": 1, "net": {"width": 8}}
    assert first["id"] != second["id"]
    (log,) = of(told, "log")[0]
    assert (log["score"], log["in/deep"]) == (1, 5)
    assert not {"text", "done", "pid"} & set(log)
    assert "pid" in of(told, "config")[0][0]
    assert of(told, "artifact") == [(["weights"],)] * 2
    assert of(told, "end") == [(0,), (1,)]
    with pytest.raises(ValueError, match="not both"):
        WandbLoggerCallback("mine", api_key="a", api_key_file="b")


def test_comet_has_an_experiment_for_each_trial(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: Told = []

    class Experiment:
        def __init__(self, **options: Any) -> None:
            told.append(("begin", options))

        def __getattr__(self, name: str) -> Any:
            return lambda *given, **more: told.append((name, *given, *more.values()))

    class Artifact:
        def __init__(self, name: str, artifact_type: str) -> None:
            self.paths: list[str] = []

        def add(self, path: str, logical_path: str) -> None:
            self.paths.append(logical_path)

    comet = types.ModuleType("comet_ml")
    vars(comet).update(OfflineExperiment=Experiment, Artifact=Artifact)
    monkeypatch.setitem(sys.modules, "comet_ml", comet)
    from ray.air.integrations.comet import CometLoggerCallback

    callback = CometLoggerCallback(
        online=False, tags=["a"], save_checkpoints=True, project_name="p"
    )
    fit(trainable, SPACE, run={"callbacks": [callback]}, max_concurrent_trials=1)
    (options,) = of(told, "begin")[0]
    assert options["project_name"] == "p"
    assert options["log_env_cpu"] is False
    assert of(told, "add_tags") == [(["a"],)] * 2
    assert of(told, "log_parameters")[0] == ({"x": 1, "net/width": 8},)
    metrics, step = of(told, "log_metrics")[0]
    assert (metrics["score"], metrics["in/deep"], step) == (1, 5, 1)
    assert "text" not in metrics
    assert "hostname" in [one[0] for one in of(told, "log_system_info")]
    assert of(told, "log_artifact")[0][0].paths == ["weights"]
    assert len(of(told, "end")) == 2


def test_aim_has_a_run_for_each_trial(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: Told = []

    class Run:
        def __init__(self, **options: Any) -> None:
            told.append(("begin", options))

        def __setitem__(self, name: str, value: Any) -> None:
            told.append(("set", name, value))

        def track(self, value: Any, name: str, step: int, epoch: Any, context: Any) -> None:
            told.append(("track", name, value, step))

        def close(self) -> None:
            told.append(("close",))

    aim = types.ModuleType("aim")
    aim.Run = Run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aim", aim)
    from ray.tune.logger.aim import AimLoggerCallback

    callback = AimLoggerCallback(metrics=["score", "in/deep"])
    fit(trainable, SPACE, run={"callbacks": [callback]}, max_concurrent_trials=1)
    assert [options["experiment"] for (options,) in of(told, "begin")] == ["search"] * 2
    assert ("hparams", {"x": 1}) in of(told, "set")
    assert of(told, "track")[:2] == [("ray/tune/score", 1, 1), ("ray/tune/in/deep", 5, 1)]
    assert len(of(told, "close")) == 2
    with pytest.raises(ValueError, match="metrics"):
        AimLoggerCallback(metrics=[])


@pytest.mark.parametrize(
    ("home", "name", "module"),
    [
        ("air.integrations.mlflow", "MLflowLoggerCallback", "mlflow"),
        ("air.integrations.wandb", "WandbLoggerCallback", "wandb"),
        ("air.integrations.comet", "CometLoggerCallback", "comet_ml"),
        ("tune.logger.aim", "AimLoggerCallback", "aim"),
    ],
)
def test_without_its_tool_a_logger_says_what_to_install(
    home: str, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    kind = getattr(importlib.import_module(f"ray.{home}"), name)
    with pytest.raises(
        ImportError, match=rf"pip install 'heliostat\[{module.partition('_')[0]}\]'"
    ):
        kind()
