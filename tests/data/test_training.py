"""Datasets in a training run: shards, epochs, failures."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import DataConfig, RunConfig, ScalingConfig

CLUSTER = {"num_cpus": 6}


@pytest.fixture
def fit(rd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``fit(loop, datasets, **options)`` trains on two workers; returns what each rank has noted."""
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")
    notes = tmp_path / "notes"
    notes.mkdir()

    def fit(loop: Any, datasets: Any, *, workers: int = 2, **options: Any) -> list[Any]:
        run = options.pop("run", {})
        DataParallelTrainer(
            loop,
            train_loop_config={"notes": str(notes)},
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(name="run", storage_path=str(tmp_path), **run),
            datasets=datasets,
            **options,
        ).fit()
        return [json.loads(p.read_text()) for p in sorted(notes.iterdir())]

    return fit


def note(config: dict[str, Any], value: Any) -> None:
    rank = train.get_context().get_world_rank()
    Path(config["notes"], f"{rank}.json").write_text(json.dumps(value))


def read_ids(shard: Any) -> list[int]:
    return [int(i) for batch in shard.iter_batches(batch_size=8) for i in batch["id"]]


@pytest.mark.contract("F9.01", "F9.18", "F9.07", "F10.15")
def test_shards_are_disjoint_and_whole_in_every_epoch(rd: Any, fit: Any) -> None:
    def loop(config: dict[str, Any]) -> None:
        shard = train.get_dataset_shard("train")
        note(config, [read_ids(shard) for _ in range(3)])

    dataset = rd.range(100, override_num_blocks=7).map(lambda row: {"id": row["id"] + 1})
    first, second = fit(loop, {"train": dataset})
    for a, b in zip(first, second, strict=True):
        assert len(a) == len(b) == 50
        assert sorted(a + b) == list(range(1, 101))


@pytest.mark.contract("F9.07", "F9.18")
def test_what_is_not_split_everybody_reads(rd: Any, fit: Any) -> None:
    def loop(config: dict[str, Any]) -> None:
        found = {n: len(read_ids(train.get_dataset_shard(n))) for n in ("train", "valid")}
        note(config, found)

    datasets = {"train": rd.range(10), "valid": rd.range(6)}
    config = DataConfig(datasets_to_split=["train"])
    assert fit(loop, datasets, dataset_config=config) == [{"train": 5, "valid": 6}] * 2


@pytest.mark.contract("F9.07")
def test_wrong_configurations() -> None:
    with pytest.raises(TypeError):
        DataConfig(datasets_to_split="some")


@pytest.mark.contract("F9.18")
@pytest.mark.heliostat_only("this release of Ray raises KeyError; the contract says None")
def test_without_datasets_there_is_no_shard(fit: Any) -> None:
    def loop(config: dict[str, Any]) -> None:
        note(config, {"shard": train.get_dataset_shard("train") is None})

    found = fit(loop, None)
    assert found == [{"shard": True}] * 2


@pytest.mark.contract("F9.07")
def test_a_configuration_of_the_programs_own(rd: Any, fit: Any) -> None:
    class Own(DataConfig):
        def configure(self, datasets: Any, world_size: int, *_: Any, **__: Any) -> Any:
            parts = datasets["train"].split_at_indices([8])
            return [{"train": part.iterator()} for part in parts]

    def loop(config: dict[str, Any]) -> None:
        note(config, len(read_ids(train.get_dataset_shard("train"))))

    assert fit(loop, {"train": rd.range(10)}, dataset_config=Own()) == [8, 2]


@pytest.mark.contract("F9.09", "F9.18")
def test_after_a_failure_the_data_begins_again(rd: Any, fit: Any, tmp_path: Path) -> None:
    flag = tmp_path / "died"

    def loop(config: dict[str, Any]) -> None:
        shard = train.get_dataset_shard("train")
        for batch in shard.iter_batches(batch_size=5):
            assert len(batch["id"])
            if train.get_context().get_world_rank() == 1 and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        note(config, [read_ids(shard) for _ in range(2)])

    options = {"failure_config": train.FailureConfig(max_failures=1)}
    first, second = fit(loop, {"train": rd.range(60, override_num_blocks=6)}, run=options)
    assert flag.exists()
    for a, b in zip(first, second, strict=True):
        assert sorted(a + b) == list(range(60))


@pytest.mark.contract("F9.02", "F10.07")
@pytest.mark.heliostat_only("Ray's error does not say what the function raised")
def test_an_error_in_the_pipeline_ends_the_run(rd: Any, fit: Any) -> None:
    def fail(batch: Any) -> Any:
        raise KeyError("column-that-is-not-there")

    def loop(config: dict[str, Any]) -> None:
        read_ids(train.get_dataset_shard("train"))

    with pytest.raises(train.TrainingFailedError) as caught:
        fit(loop, {"train": rd.range(10).map_batches(fail)})
    assert "column-that-is-not-there" in str(caught.value)


@pytest.mark.contract("F9.01", "F10.18")
def test_torch_batches_in_a_torch_trainer(rd: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from ray.train.torch import TorchTrainer

    def loop(config: dict[str, Any]) -> None:
        import torch

        total = torch.zeros(())
        for batch in train.get_dataset_shard("train").iter_torch_batches(
            batch_size=4, dtypes=torch.float32
        ):
            total += batch["id"].sum()
        torch.distributed.all_reduce(total)
        Path(config["out"], f"{train.get_context().get_world_rank()}").write_text(str(total.item()))

    out = tmp_path / "out"
    out.mkdir()
    TorchTrainer(
        loop,
        train_loop_config={"out": str(out)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        datasets={"train": rd.range(20)},
    ).fit()
    assert [p.read_text() for p in out.iterdir()] == ["190.0", "190.0"]


@pytest.mark.contract("F9.18", "F9.25")
@pytest.mark.heliostat_only("in Ray local mode begins no cluster of this test's kind")
def test_local_mode(rd: Any, fit: Any) -> None:
    def loop(config: dict[str, Any]) -> None:
        note(config, read_ids(train.get_dataset_shard("train")))

    assert fit(loop, {"train": rd.range(5)}, workers=0) == [[0, 1, 2, 3, 4]]


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("with Ray the run waits for ever")
def test_workers_may_hold_every_cpu(ray_fresh: Any, tmp_path: Path, monkeypatch: Any) -> None:
    import ray.data
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")
    ray_fresh(num_cpus=2)

    def loop() -> int:
        return len(read_ids(train.get_dataset_shard("train")))

    dataset = ray.data.range(40).map_batches(lambda batch: batch)
    result = DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        datasets={"train": dataset},
    ).fit()
    assert result.return_value == 20
    assert ray.is_initialized()
