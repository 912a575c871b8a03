"""Sharded checkpoints that are damaged, do not fit, cannot be stored, or are reported wrongly."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    Result,
    ValidationConfig,
    WorkerGroupError,
)

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.resume")

from heliostat.train.errors import CheckpointMismatchError, DamagedCheckpointError

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray leaves sharded checkpoints to the user"),
]


def sharded(width: int = 8, seed: int = 0) -> Any:
    """A model sharded over all workers."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (train.get_context().get_world_size(),)))
    return model


def loop(config: dict[str, Any]) -> dict[str, Any]:
    """Four steps with a checkpoint in each, from where the run was."""
    import torch

    model = sharded(config.get("width", 8))
    kind = getattr(torch.optim, config.get("optimizer", "Adam"))
    optimizer = kind(model.parameters(), lr=0.01)
    objects = {config.get("name", "model"): model, "optimizer": optimizer}
    run = train.torch.resumable(**objects)
    begun = run.step
    if "breaks" in config and train.get_context().get_world_rank() == 1:
        break_storage(config["how"], config["breaks"])
    for step in run.steps(begun + config.get("steps", 4)):
        loss = model(torch.ones(2, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report({"step": step}, checkpoint_dir_name=f"step{step}")
    return {"begun": begun, "from": run.restored_from}


def break_storage(how: str, number: int) -> None:
    """The checkpoint of that number, from 0, meets storage that refuses, the others do not."""
    import torch.distributed.checkpoint as dcp
    from heliostat.train.storage.local import LocalStorage

    owner: Any = dcp.FileSystemWriter if how == "write" else LocalStorage
    name = {"write": "write_data", "upload": "take"}[how]
    plain = getattr(owner, name)

    made: list[None] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        made.append(None)
        if len(made) - 1 == number:
            raise OSError(28, "No space left on device")
        return plain(*args, **kwargs)

    setattr(owner, name, refuse)


@pytest.fixture
def run(fit: Any) -> Callable[..., Result]:
    """``run(workers, **config)``: the loop above; the same run each time."""

    def run(workers: int, *, options: dict[str, Any] | None = None, **config: Any) -> Result:
        return fit(loop, workers, torch=True, config=config, **(options or {}))

    return run


@pytest.mark.parametrize("how", ["write", "upload"])
def test_storage_that_refuses_once(run: Any, tmp_path: Path, how: str) -> None:
    """One rank cannot store its shard: there is no such checkpoint, and training goes on."""
    result = run(2, breaks=1, how=how)
    names = sorted(p.name for p in (tmp_path / "run").glob("step*"))
    assert names == ["step0", "step2", "step3"]
    assert result.metrics == {"step": 3}
    page = Path(result.path, "run.html").read_text()
    assert "a checkpoint could not be stored" in page
    assert "No space left on device" in page
    assert not list((tmp_path / "run" / ".staging").glob("*-*"))


def test_the_last_checkpoint_has_to_be_stored(run: Any) -> None:
    with pytest.raises(
        WorkerGroupError, match=r"The last checkpoint could not be stored: .*No space"
    ):
        run(2, breaks=3, how="write")
    # Nothing is lost: the next one begins from the step before.
    assert run(2).return_value == {"begun": 3, "from": "storage"}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"width": 6}, r"0\.weight with the shape \(8, 4\), and here it has \(6, 4\)"),
        ({"optimizer": "SGD"}, r"has optimizer\.state\.\S+, which is not here"),
        ({"optimizer": "Adagrad"}, r"has no optimizer\.state\.\S+"),
        ({"name": "net"}, r"has no net\.0\.\S+"),
    ],
    ids=["shape", "less", "more", "name"],
)
def test_a_checkpoint_that_cannot_be_resharded(
    run: Any, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    """One sentence that names the tensor, on every rank, and the checkpoints stay."""
    run(2, steps=1)
    with pytest.raises(WorkerGroupError, match=says) as caught:
        run(1 if "width" in config else 2, **config)
    assert isinstance(caught.value.worker_failures[0], CheckpointMismatchError)
    assert (tmp_path / "run" / "step0").is_dir()


def test_a_checkpoint_that_was_saved_otherwise(fit: Any) -> None:
    def save() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "weights").write_text("")
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))

    fit(save, 1)
    with pytest.raises(WorkerGroupError, match="holds no sharded state"):
        fit(loop, 2, torch=True, config={})


def test_damaged_files(run: Any, tmp_path: Path) -> None:
    """Whatever happened to a file: one sentence. The run goes on from the checkpoint before."""
    run(2, steps=3)
    last = tmp_path / "run" / "step2"
    shard = max(last.glob("__1_*"), key=lambda p: p.stat().st_size)
    sums, metadata, data = last / ".sums-1.json", last / ".metadata", shard.read_bytes()
    middle = len(data) // 2
    for path, content in (
        (shard, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]),
        (shard, data[:-1]),
        (shard, None),
        (sums, b""),
        (sums, None),
        (metadata, b""),
        (metadata, None),
    ):
        before = path.read_bytes()
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DamagedCheckpointError, match=r"damaged|incomplete"):
            train.torch.load_checkpoint(Checkpoint(last), model=plain())
        path.write_bytes(before)
    assert train.torch.load_checkpoint(Checkpoint(last), model=plain())["step"] == 3
    shard.write_bytes(data[:-1])
    result = run(2, steps=1)
    assert result.return_value == {"begun": 2, "from": "storage"}
    assert "The run goes on from" in Path(result.path, "run.html").read_text()


def test_no_checkpoint_is_whole(run: Any, tmp_path: Path) -> None:
    run(2, steps=2)
    for name in ("step0", "step1"):
        next((tmp_path / "run" / name).glob("__1_*")).unlink()
    with pytest.raises(WorkerGroupError, match=r"is incomplete: __1_0\.distcp is missing"):
        run(2)


def plain() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))


def test_a_rank_that_reports_twice(fit: Any, tmp_path: Path) -> None:
    def twice(config: dict[str, Any]) -> None:
        model = sharded()
        run = train.torch.resumable(model=model)
        for step in run.steps(3):
            run.report({"step": step})
            if step == 1 and train.get_context().get_world_rank() == 1:
                train.get_all_reported_checkpoints()  # returns when that of step 1 is stored
                run.report({"step": step})

    with pytest.raises(WorkerGroupError, match=r"report\(\) was called twice in step 1"):
        fit(twice, 2, torch=True, config={})
    # What was reported before is there.
    assert Result.from_path(tmp_path / "run").metrics == {"step": 1}


def test_ranks_that_report_after_different_steps(fit: Any) -> None:
    def apart(config: dict[str, Any]) -> None:
        run = train.torch.resumable(model=sharded())
        rank = train.get_context().get_world_rank()
        for step in run.steps(4):
            if step % 2 == rank:
                run.report({"step": step})

    with pytest.raises(
        WorkerGroupError, match="report different steps: rank 0 step 1, rank 1 step 2"
    ):
        fit(apart, 2, torch=True, config={})


def test_a_loss_that_is_nan_on_one_rank(fit: Any) -> None:
    def nan(config: dict[str, Any]) -> None:
        for step in range(3):
            lost = train.get_context().get_world_rank() == 1 and step > 0
            train.report({"loss": float("nan") if lost else 1.0})

    result = fit(nan, 2)
    page = Path(result.path, "run.html").read_text()
    assert page.count("loss is NaN on rank 1 only") == 1
    assert result.metrics == {"loss": 1.0}


@pytest.mark.contract("F9.22", "F9.08")
def test_the_best_are_kept_and_validated_beside_the_training(fit: Any, tmp_path: Path) -> None:
    def score(checkpoint: Checkpoint) -> dict[str, float]:
        """In a task of its own, with one process's model."""
        model = plain()
        told = train.torch.load_checkpoint(checkpoint, model=model)
        return {"score": -abs(told["step"] - 2), "pid": os.getpid()}

    def train_loop(config: dict[str, Any]) -> int:
        run = train.torch.resumable(model=sharded())
        for step in run.steps(4):
            run.report({"step": step}, validation=True)
        return os.getpid()

    result = fit(
        train_loop,
        2,
        torch=True,
        config={},
        trainer={"validation_config": ValidationConfig(score)},
        checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score"),
        failure_config=FailureConfig(max_failures=0),
    )
    kept = {metrics["step"]: metrics for _, metrics in result.best_checkpoints}
    assert {1, 3} <= set(kept)
    assert len(kept) <= 3
    assert kept[1]["score"] == 0
    assert kept[1]["pid"] != result.return_value
    best = result.get_best_checkpoint("score", "max")
    assert train.torch.load_checkpoint(best, model=plain())["step"] == 2


def test_a_filesystem_of_pyarrow(fit: Any, tmp_path: Path) -> None:
    """Object stores cannot rename: only what the snapshot records is found."""
    fs = pytest.importorskip("pyarrow.fs")
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    options = {"storage_path": "bucket", "storage_filesystem": store}
    assert fit(loop, 2, torch=True, config={"steps": 2}, **options).return_value["begun"] == 0
    result = fit(loop, 1, torch=True, config={"steps": 2}, **options)
    assert result.return_value == {"begun": 2, "from": "storage"}
    assert train.torch.load_checkpoint(result.checkpoint, model=plain())["step"] == 4


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ({}, "needs the model"),
        ({"model": "m", "other": 3}, "has no state that could be saved"),
        ({"model": "m", "optimizer": "o"}, "are not those of one of the models"),
        ({"model": "m", "rest": "m"}, "is taken"),
    ],
)
def test_wrong_objects(fit: Any, objects: dict[str, Any], says: str) -> None:
    def wrong(config: dict[str, Any]) -> None:
        import torch

        made = {
            "m": torch.nn.Linear(1, 1),
            "o": torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1),
        }
        train.torch.resumable(**{k: made.get(v, v) for k, v in config.items()})

    with pytest.raises(WorkerGroupError, match=says):
        fit(wrong, 1, torch=True, config=objects)
