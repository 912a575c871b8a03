"""Wrong configurations fail when they are given, with a text that says what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.train import (
    CheckpointConfig,
    DataConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    UserCallback,
    ValidationConfig,
    ValidationTaskConfig,
)
from ray.train.torch import TorchConfig, TorchTrainer


@pytest.mark.contract("F9.03")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"resources_per_worker": {"GPU": 1}}, "use_gpu"),
        ({"use_gpu": True, "resources_per_worker": {"GPU": 0}}, "GPU"),
    ],
)
def test_contradicting_scaling_configs(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ScalingConfig(num_workers=2, **options)


@pytest.mark.heliostat_only("Ray accepts them and fails later")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_workers": -1}, "num_workers=-1"),
        ({"num_workers": 1.5}, r"num_workers=1\.5"),
        ({"num_workers": (2, 1)}, "min <= max"),
        ({"num_workers": (0, 1)}, "min <= max"),
        ({"num_workers": (True, 2)}, "min <= max"),
        ({"num_workers": "2"}, "num_workers='2'"),
        ({"use_gpu": 2}, "resources_per_worker"),
        ({"resources_per_worker": {"CPU": -1}}, "CPU"),
        ({"resources_per_worker": {"CPU": float("nan")}}, "0 or more"),
        ({"resources_per_worker": {"num_gpus": 1}}, "write 'GPU'"),
        ({"resources_per_worker": {}}, "asks for nothing"),
        ({"placement_strategy": "CLOSE"}, "PACK"),
        ({"label_selector": "zone=a"}, "dict"),
        ({"num_workers": 2, "label_selector": [{"zone": "a"}]}, "list of 1 for 2 workers"),
        ({"elastic_resize_monitor_interval_s": "soon"}, "number of seconds"),
    ],
)
def test_scaling_configs_out_of_range(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ScalingConfig(**options)


@pytest.mark.contract("F9.03", "F9.04", "F9.09")
def test_options_of_the_first_generation_are_refused() -> None:
    with pytest.raises(DeprecationWarning):
        ScalingConfig(trainer_resources={"CPU": 1})
    with pytest.raises(DeprecationWarning):
        RunConfig(verbose=2)
    with pytest.raises(DeprecationWarning):
        FailureConfig(fail_fast=True)
    with pytest.raises(DeprecationWarning):
        TorchTrainer(lambda: None, resume_from_checkpoint=object())
    with pytest.raises(DeprecationWarning), pytest.warns(match="`restore`"):
        TorchTrainer.restore("/nowhere")


@pytest.mark.contract("F9.03", "F9.08", "F9.09")
@pytest.mark.heliostat_only("Ray takes them as they are")
def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert ScalingConfig(num_workers=numpy.int64(2)).num_workers == 2
    assert ScalingConfig(num_workers=[numpy.int64(1), 2]).num_workers == (1, 2)  # type: ignore[arg-type] # as good as ints
    assert CheckpointConfig(num_to_keep=numpy.int32(3)).num_to_keep == 3
    assert FailureConfig(max_failures=numpy.int64(-1)).max_failures == -1


@pytest.mark.contract("F9.03")
def test_resources_of_a_worker() -> None:
    assert ScalingConfig(num_workers=4).total_resources == {"CPU": 4}
    assert ScalingConfig(num_workers=2, use_gpu=True).num_gpus_per_worker == 1
    assert ScalingConfig(num_workers=2, use_gpu=True).num_cpus_per_worker == 0


@pytest.mark.contract("F9.03")
def test_a_scaling_config_as_the_resources_of_a_trial() -> None:
    factory = ScalingConfig(num_workers=2, accelerator_type="A100").as_placement_group_factory()
    worker = {"CPU": 1.0, "accelerator_type:A100": 0.001}
    assert factory.bundles == [worker, worker]
    assert factory.head_bundle_is_empty
    assert factory.strategy == "PACK"
    assert ScalingConfig().num_tpus_per_worker == 0


@pytest.mark.contract("F9.03")
def test_where_a_run_will_keep_its_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    config = RunConfig(name="run", storage_path=str(tmp_path))
    storage = config.storage_context
    assert config.storage_context is storage
    assert storage.experiment_dir_name == "run"
    assert storage.storage_fs_path == str(tmp_path)
    assert storage.experiment_fs_path == str(tmp_path / "run")
    assert storage.build_checkpoint_path_from_name("best") == str(tmp_path / "run" / "best")
    assert storage.storage_filesystem.type_name == "local"
    assert (tmp_path / "run" / ".validate_storage_marker").exists()
    unnamed = RunConfig(storage_path=str(tmp_path))
    assert unnamed.storage_context.experiment_dir_name == unnamed.name


@pytest.mark.contract("F9.08")
@pytest.mark.parametrize("options", [{"num_to_keep": 0}, {"checkpoint_score_order": "best"}])
def test_checkpoint_configs(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        CheckpointConfig(**options)


@pytest.mark.contract("F9.07")
def test_data_config() -> None:
    with pytest.raises(TypeError):
        DataConfig(datasets_to_split="train")
    DataConfig(datasets_to_split=["train"])


@pytest.mark.contract("F9.27")
def test_torch_config() -> None:
    assert TorchConfig().timeout_s == 1800
    assert TorchConfig().backend is None


@pytest.mark.heliostat_only("Ray notices on the workers")
def test_an_unknown_init_method() -> None:
    with pytest.raises(ValueError, match="'env' or 'tcp'"):
        TorchConfig(init_method="file")


@pytest.mark.contract("F9.01")
def test_the_arity_of_the_function() -> None:
    def two(a: int, b: int) -> None: ...

    with pytest.raises(ValueError, match="argument"):
        TorchTrainer(two, train_loop_config={"a": 1})


@pytest.mark.contract("F9.01", "F9.04")
@pytest.mark.heliostat_only("Ray raises whatever its own code trips over")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scaling_config": {"num_workers": 2}}, "ScalingConfig"),
        ({"run_config": {"name": "x"}}, "RunConfig"),
        ({"dataset_config": ["train"]}, "DataConfig"),
        ({"datasets": [1]}, "dict from names"),
        ({"datasets": {"train": [1, 2]}}, "from_items"),
        ({"torch_config": TorchConfig(backend="nccl")}, "use_gpu=True"),
        ({"torch_config": {"backend": "gloo"}}, "TorchConfig"),
    ],
)
def test_arguments_of_another_kind(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TorchTrainer(lambda: None, **options)


@pytest.mark.contract("F9.04")
@pytest.mark.heliostat_only("Ray raises whatever its own code trips over")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"checkpoint_config": {"num_to_keep": 1}}, "CheckpointConfig"),
        ({"storage_path": 3}, "storage_path=3"),
        ({"storage_path": ""}, "path of a folder"),
        ({"storage_filesystem": "s3"}, "goes into storage_path"),
        ({"name": 3}, "must be a string"),
        ({"name": "a/b"}, "hold '/'"),
        ({"name": "a" * 300}, "too long"),
        ({"callbacks": UserCallback()}, "must be a list"),
        ({"callbacks": [UserCallback]}, "UserCallback objects"),
        ({"worker_runtime_env": "pip"}, "must be a dict"),
    ],
)
def test_wrong_parts_of_a_run_config(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RunConfig(**options)


@pytest.mark.contract("F9.08", "F9.09", "F9.22", "F9.27")
@pytest.mark.heliostat_only("Ray raises whatever its own code trips over")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (CheckpointConfig, {"num_to_keep": 2.5}),
        (CheckpointConfig, {"checkpoint_score_attribute": 3}),
        (FailureConfig, {"max_failures": 1.5}),
        (FailureConfig, {"preemption_grace_s": -1}),
        (TorchConfig, {"timeout_s": "long"}),
        (TorchConfig, {"backend": 3}),
        (ValidationTaskConfig, {"timeout_s": "long"}),
        (ValidationConfig, {"fn": print, "task_config": 3}),
        (ValidationConfig, {"fn": print, "ray_remote_kwargs": {"cpus": 1}}),
    ],
)
def test_wrong_options_of_other_configs(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(name for name in options if name != "fn")[-4:]):
        kind(**options)


@pytest.mark.contract("F9.01")
@pytest.mark.heliostat_only("Ray calls them, and nothing is trained")
def test_functions_that_a_call_does_not_run() -> None:
    def generator() -> Any:
        yield 1

    async def coroutine() -> None: ...

    for function in (generator, coroutine):
        with pytest.raises(ValueError, match="plain function"):
            TorchTrainer(function)


@pytest.mark.contract("F9.07")
@pytest.mark.heliostat_only("Ray notices it after the workers have started")
def test_a_dataset_to_split_that_is_not_there() -> None:
    class Dataset:
        streaming_split = iterator = None

    with pytest.raises(ValueError, match=r"names \['val'\], but the trainer has \['train'\]"):
        TorchTrainer(
            lambda: None,
            datasets={"train": Dataset()},
            dataset_config=DataConfig(datasets_to_split=["val"]),
        )


@pytest.mark.contract("F9.04")
def test_defaults_of_a_run() -> None:
    config = RunConfig()
    assert config.failure_config.max_failures == 0
    assert config.checkpoint_config.num_to_keep is None


@pytest.mark.heliostat_only("Ray reports it from a worker")
def test_an_unwritable_storage() -> None:
    # Where not even root may make a folder.
    trainer = TorchTrainer(lambda: None, run_config=RunConfig(storage_path="/sys/runs"))
    with pytest.raises(ValueError, match=r"RunConfig\(storage_path=...\)"):
        trainer.fit()


@pytest.mark.heliostat_only("Ray reports it from a worker")
@pytest.mark.parametrize("path", ["nowhere://bucket/runs", "s3//bucket", "file://host/runs"])
def test_a_storage_path_of_no_known_kind(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir("/sys")  # what is no URI is a path
    with pytest.raises(ValueError, match=r"storage_path|storage_filesystem|file:///"):
        TorchTrainer(lambda: None, run_config=RunConfig(storage_path=path)).fit()


@pytest.mark.heliostat_only("Ray reports it from a worker")
def test_a_storage_path_with_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = RunConfig(storage_path=str(tmp_path / "file"))
    with pytest.raises(ValueError, match="a file is in the way"):
        TorchTrainer(lambda: None, run_config=config).fit()


@pytest.mark.heliostat_only("Ray waits without an end")
@pytest.mark.usefixtures("ray_start")
def test_a_group_that_cannot_be_placed(tmp_path: Path) -> None:
    from ray.train import TrainingFailedError

    run = RunConfig(storage_path=str(tmp_path))
    with pytest.raises(TrainingFailedError, match="use_gpu=False"):
        TorchTrainer(
            lambda: None,
            scaling_config=ScalingConfig(num_workers=1, use_gpu=True),
            run_config=run,
        ).fit()
    with pytest.raises(TrainingFailedError, match="room for 4, limited by CPU"):
        TorchTrainer(
            lambda: None, scaling_config=ScalingConfig(num_workers=5), run_config=run
        ).fit()


@pytest.mark.heliostat_only("Ray waits without an end")
@pytest.mark.usefixtures("ray_start")
@pytest.mark.parametrize(
    ("scaling", "says"),
    [
        ({"placement_strategy": "STRICT_SPREAD"}, "only 1 of 1 nodes can hold one"),
        (
            {"placement_strategy": "STRICT_PACK", "resources_per_worker": {"CPU": 3}},
            "room for 1, limited by CPU",
        ),
        ({"resources_per_worker": {"CPU": 1, "licence": 1}}, "limited by licence"),
        ({"accelerator_type": "H100"}, "limited by accelerator_type:H100"),
        ({"label_selector": {"zone": "moon"}}, r"match label_selector=\{'zone': 'moon'\}"),
    ],
)
def test_groups_that_no_node_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scaling: dict[str, Any], says: str
) -> None:
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "1")
    from ray.train import TrainingFailedError

    with pytest.raises(TrainingFailedError, match=says):
        TorchTrainer(
            lambda: None,
            scaling_config=ScalingConfig(num_workers=2, **scaling),
            run_config=RunConfig(storage_path=str(tmp_path)),
        ).fit()


@pytest.mark.heliostat_only("Ray raises what pickle says")
@pytest.mark.usefixtures("ray_start")
def test_a_function_that_cannot_be_sent(tmp_path: Path) -> None:
    import threading

    from ray.train import TrainingFailedError

    lock = threading.Lock()

    def loop() -> None:
        with lock:
            pass

    run = RunConfig(storage_path=str(tmp_path))
    with pytest.raises(
        TrainingFailedError,
        match=r"because lock \(.*\) cannot be pickled. Make locks, .* inside the function",
    ):
        TorchTrainer(loop, run_config=run).fit()
