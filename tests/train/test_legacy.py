"""Older and rarer paths of Ray Train: ``ray.air``, tracking tools, preemption, JAX."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, SyncConfig

pytestmark = [pytest.mark.usefixtures("quiet")]


@pytest.mark.contract("F9.42")
def test_the_older_paths_lead_to_the_same_classes() -> None:
    import ray.air
    import ray.air.config

    for name in ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"):
        assert getattr(ray.air.config, name) is getattr(ray.air, name)
    assert ray.air.ScalingConfig(num_workers=2).num_workers == 2


@pytest.mark.contract("F9.42")
@pytest.mark.heliostat_only("on Ray these serve its first generation alone")
def test_the_session_of_a_worker(fit: Any) -> None:
    from ray.air import session

    assert issubclass(importlib.import_module("ray.air.config").RunConfig, RunConfig)

    def loop() -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            session.report({"loss": 0.5}, checkpoint=Checkpoint.from_directory(folder))
        with pytest.raises(DeprecationWarning):
            session.get_trial_name()
        assert session.get_checkpoint() is not None
        assert session.get_dataset_shard("train") is None
        assert session.get_storage() is not None
        return [
            session.get_world_size(),
            session.get_world_rank(),
            session.get_local_rank(),
            session.get_local_world_size(),
            session.get_node_rank(),
            session.get_experiment_name(),
        ]

    result = fit(loop, 2, name="older")
    assert result.return_value == [2, 0, 0, 2, 0, "older"]
    assert result.metrics == {"loss": 0.5}
    with pytest.raises(RuntimeError, match="outside of a Ray Train training function"):
        session.report({})
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = session.no_such_name


@pytest.mark.contract("F9.13")
def test_the_sync_config_of_the_first_generation() -> None:
    assert SyncConfig(sync_artifacts=True).sync_period == 300
    with pytest.raises(DeprecationWarning):
        RunConfig(sync_config=SyncConfig())


@pytest.mark.contract("F9.23")
def test_asking_for_a_preemption(fit: Any) -> None:
    from ray.train import PreemptionError, PreemptionInfo, get_preemption_info

    assert fit(lambda: [get_preemption_info() for _ in range(2)], 2).return_value == [None, None]
    with pytest.raises(RuntimeError, match="outside"):
        get_preemption_info()
    info = PreemptionInfo(5, {"b": [2, 3], "a": [1]})
    assert (info.preempted_node_ids, info.preempted_ranks) == (["a", "b"], [1, 2, 3])
    error = pickle.loads(pickle.dumps(PreemptionError(info, True)))
    assert (error.preemption_info, error.drain_timed_out) == (info, True)
    assert isinstance(error, train.TrainingFailedError)
    assert issubclass(train.NCCLHangError, train.WorkerGroupError)


@pytest.mark.heliostat_only("Ray has them")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("ray.train.horovod", "HorovodTrainer"),
    ],
)
def test_what_is_not_there_is_named(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=module):
        exec(f"from {module} import {name}", {})


class FakeWandb:
    """Notes how it was called."""

    def init(self, **options: Any) -> dict[str, Any]:
        return {"pid": os.getpid(), **options}


@pytest.mark.contract("F9.42")
@pytest.mark.heliostat_only("Ray asks a session of its first generation")
def test_the_options_of_a_wandb_run(fit: Any, tmp_path: Path) -> None:
    from ray.air.integrations.wandb import setup_wandb

    (tmp_path / "key").write_text("secret\n")

    def loop(config: dict[str, Any]) -> list[Any]:
        run = setup_wandb(
            {"lr": 0.1, "deep": [{1: object}]},
            api_key_file=str(tmp_path / "key"),
            project="mine",
            _wandb=FakeWandb(),
        )
        Path(config["folder"], str(train.get_context().get_world_rank())).write_text(
            json.dumps(run)
        )
        key = os.environ.get("WANDB_API_KEY")
        return [key, *(run.get(name) for name in ("group", "project", "config"))]

    result = fit(loop, 2, name="tracked", config={"folder": str(tmp_path)})
    assert result.return_value == [
        "secret",
        "tracked",
        "mine",
        {"lr": 0.1, "deep": [{"1": "<class 'object'>"}]},
    ]
    other = json.loads((tmp_path / "1").read_text())
    assert {k: v for k, v in other.items() if k != "pid"} == {"mode": "disabled"}
    with pytest.raises(ValueError, match="not both"):
        setup_wandb(api_key="a", api_key_file="b", _wandb=FakeWandb())


@pytest.mark.contract("F9.42")
@pytest.mark.filterwarnings("ignore")
def test_a_wandb_run_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    from ray.air.integrations.wandb import setup_wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = setup_wandb({"lr": 0.1}, project="mine", dir=str(tmp_path))
    run.log({"loss": 0.5})
    assert run.config["lr"] == 0.1
    run.finish()
    assert list(tmp_path.rglob("*.wandb"))


@pytest.mark.contract("F9.42")
@pytest.mark.filterwarnings("ignore")
def test_an_mlflow_run(fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    from ray.air.integrations.mlflow import setup_mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = (tmp_path / "tracking").as_uri()

    def loop(config: dict[str, Any]) -> str:
        tracker = setup_mlflow(
            config,
            tracking_uri=place,
            experiment_name="digits",
            create_experiment_if_not_exists=True,
            tags={"a": "b"},
        )
        with tracker.start_run(nested=True):
            pass
        tracker.log_metric("loss", 0.5)
        tracker.end_run()
        return type(tracker).__name__

    env = {"env_vars": {"MLFLOW_ALLOW_FILE_STORE": "true"}}
    result = fit(loop, 2, config={"lr": 0.1, "deep": {"er": 2}}, worker_runtime_env=env)
    assert result.return_value == "module"
    mlflow.set_tracking_uri(place)
    runs = mlflow.search_runs(experiment_names=["digits"], output_format="list")
    tracked = [run for run in runs if run.data.params]
    assert len(tracked) == 1
    assert tracked[0].data.params == {"lr": "0.1", "deep/er": "2"}
    assert tracked[0].data.metrics == {"loss": 0.5}
    assert tracked[0].data.tags["a"] == "b"
    with pytest.raises(ValueError, match="create_experiment_if_not_exists=True"):
        setup_mlflow({}, tracking_uri=place, experiment_name="another")


@pytest.mark.contract("F9.42")
def test_tracking_tools_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        module = importlib.import_module(f"ray.air.integrations.{name}")
        monkeypatch.setattr(module, name, None, raising=False)
        with pytest.raises(RuntimeError, match=rf"pip install 'heliostat\[{name}\]'"):
            getattr(module, f"setup_{name}")()


@pytest.mark.contract("F9.41")
def test_wrong_options_for_jax() -> None:
    from ray.train.v2.jax import JaxConfig, JaxTrainer

    assert JaxConfig().to_dict() == {"use_tpu": False, "use_gpu": False}
    with pytest.raises(TypeError):
        JaxTrainer(lambda: None, torch_config=None)


@pytest.mark.contract("F9.41")
@pytest.mark.heliostat_only("on Ray the workers on CPUs stay by themselves")
@pytest.mark.filterwarnings("ignore")
def test_jax_sees_the_devices_of_all_workers(ray_start: Any, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    from ray.train.v2.jax import JaxTrainer

    died = tmp_path / "died"

    def loop(config: dict[str, Any]) -> tuple[int, int, float]:
        import jax
        import numpy
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        if jax.process_index() == 1 and not died.exists():
            died.touch()
            os._exit(1)
        mesh = Mesh(numpy.array(jax.devices()), ("rows",))
        mine = numpy.array([float(train.get_context().get_world_rank() + 1)])
        rows = jax.make_array_from_process_local_data(
            NamedSharding(mesh, PartitionSpec("rows")), mine
        )
        total = jax.jit(jax.numpy.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(rows)
        train.report({"total": float(total)})
        return jax.process_count(), len(jax.local_devices()), float(total)

    result = JaxTrainer(
        loop,
        train_loop_config={},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
    assert result.return_value == (2, 1, 3.0)
    assert result.metrics == {"total": 3.0}


@pytest.mark.contract("F9.41", "F9.42")
def test_optional_libraries_are_imported_when_they_are_used() -> None:
    names = "'jax', 'wandb', 'mlflow', 'torch'"
    code = (
        "import sys, ray.air.session, ray.air.config, ray.train.v2.jax\n"
        "import ray.air.integrations.wandb, ray.air.integrations.mlflow\n"
        f"print([n for n in ({names}) if n in sys.modules])"
    )
    if "heliostat" not in sys.modules:
        pytest.skip("Ray imports them at once")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
