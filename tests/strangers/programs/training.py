"""Train: trainers, reports, checkpoints, datasets of workers, failures."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray import train
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

from tests.strangers.kit import main, raised, stranger

NEEDS_CHECKPOINT = "Result.metrics is None on Ray unless a checkpoint was reported with them."


def torch_trainer(*args: Any, **options: Any) -> Any:
    """A TorchTrainer; its module is imported by programs that need torch alone."""
    from ray.train.torch import TorchTrainer

    return TorchTrainer(*args, **options)


def storage() -> str:
    """A new folder for a run."""
    return tempfile.mkdtemp(dir=os.getcwd())


@stranger(
    "docs: Train overview",
    [2, 0, [0, 1], {"lr": 0.1}],
    on_ray=[None, None, [0, 1], {"lr": None}],
    why=NEEDS_CHECKPOINT,
    needs=("torch",),
)
def two_workers_report() -> object:
    """Two workers: rank, world size and the configuration; the result has rank 0's metrics."""
    marks = storage()

    def loop(config: dict[str, Any]) -> None:
        context = train.get_context()
        Path(config["marks"], str(context.get_world_rank())).write_text("")
        train.report(
            {
                "size": context.get_world_size(),
                "rank": context.get_world_rank(),
                "lr": config["lr"],
            }
        )

    result = torch_trainer(
        loop,
        train_loop_config={"lr": 0.1, "marks": marks},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    ranks = sorted(int(name) for name in os.listdir(marks))
    metrics = result.metrics or {}
    return [metrics.get("size"), metrics.get("rank"), ranks, {"lr": metrics.get("lr")}]


@stranger("docs: Saving and loading checkpoints", [2, 2], needs=("torch",))
def the_last_checkpoint() -> object:
    """The result's checkpoint is the last one; result.metrics are the last report's."""

    def loop() -> None:
        for i in range(3):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "i").write_text(str(i))
                train.report({"i": i}, checkpoint=Checkpoint.from_directory(folder))

    result = torch_trainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    with result.checkpoint.as_directory() as folder:
        return [result.metrics["i"], int(Path(folder, "i").read_text())]


@stranger("docs: Train, checkpoints to keep", [2, 0.9], needs=("torch",))
def checkpoints_that_are_kept() -> object:
    """num_to_keep with a score attribute; best_checkpoints."""

    def loop() -> None:
        for value in (0.9, 0.1, 0.8):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "v").write_text(str(value))
                train.report({"acc": value}, checkpoint=Checkpoint.from_directory(folder))

    keep = CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="acc", checkpoint_score_order="max"
    )
    result = torch_trainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage(), checkpoint_config=keep),
    ).fit()
    best = max(result.best_checkpoints, key=lambda pair: pair[1]["acc"])
    return [len(result.best_checkpoints), best[1]["acc"]]


@stranger("docs: Train, fault tolerance", [2, 3], needs=("torch",))
def a_worker_that_fails_once() -> object:
    """max_failures=1: the run goes on from the last checkpoint."""
    marks = storage()

    def loop(config: dict[str, Any]) -> None:
        start = 0
        checkpoint = train.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                start = json.loads(Path(folder, "s").read_text()) + 1
        for i in range(start, 3):
            mark = Path(config["marks"], f"begun {i}")
            if i == 2 and not mark.exists():
                mark.write_text("")
                raise RuntimeError("once")
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "s").write_text(json.dumps(i))
                train.report({"i": i}, checkpoint=Checkpoint.from_directory(folder))
            Path(config["marks"], f"done {i}").write_text("")

    result = torch_trainer(
        loop,
        train_loop_config={"marks": marks},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage(), failure_config=FailureConfig(max_failures=1)),
    ).fit()
    return [result.metrics["i"], len([n for n in os.listdir(marks) if n.startswith("done")])]


@stranger("docs: Train, errors", [True, True], needs=("torch",))
def a_worker_that_fails() -> object:
    """Without retries fit() raises, and the message has the worker's error."""

    def loop() -> None:
        raise ValueError("bad batch")

    error = raised(
        lambda: torch_trainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=storage()),
        ).fit()
    )
    return [isinstance(error, ray.train.TrainingFailedError), "bad batch" in str(error)]


@stranger("docs: Data loading and preprocessing", [[50, 50], 4950], needs=("torch",))
def datasets_of_workers() -> object:
    """Each worker has its shard of a dataset: all rows once."""
    marks = storage()

    def loop(config: dict[str, Any]) -> None:
        shard = train.get_dataset_shard("train")
        ids = [int(i) for batch in shard.iter_batches(batch_size=10) for i in batch["id"]]
        rank = train.get_context().get_world_rank()
        Path(config["marks"], str(rank)).write_text(json.dumps(ids))
        train.report({"n": len(ids)})

    torch_trainer(
        loop,
        train_loop_config={"marks": marks},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage()),
        datasets={"train": ray.data.range(100, override_num_blocks=10)},
    ).fit()
    parts = [json.loads(Path(marks, name).read_text()) for name in os.listdir(marks)]
    return [[len(p) for p in parts], sum(map(sum, parts))]


@stranger(
    "docs: Get started with PyTorch",
    [True, 2],
    on_ray=[None, None],
    why=NEEDS_CHECKPOINT,
    needs=("torch",),
)
def a_torch_model() -> object:
    """TorchTrainer with prepare_model: two workers bring the loss down together."""
    from ray.train.torch import TorchTrainer

    def loop() -> None:
        import torch
        from ray.train.torch import prepare_model

        torch.manual_seed(0)
        model = prepare_model(torch.nn.Linear(1, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.arange(8.0).reshape(-1, 1) / 8
        losses = []
        for _ in range(60):
            loss = ((model(x) - 2 * x) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        size = torch.distributed.get_world_size()
        train.report({"better": losses[-1] < losses[0] / 5, "size": size})

    result = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    metrics = result.metrics or {}
    return [metrics.get("better"), metrics.get("size")]


@stranger(
    "docs: Train, allreduce of torch",
    [3.0],
    on_ray=[None],
    why=NEEDS_CHECKPOINT,
    needs=("torch",),
)
def collectives_of_workers() -> object:
    """Workers add up their tensors by torch.distributed."""
    from ray.train.torch import TorchTrainer

    def loop() -> None:
        import torch

        value = torch.tensor([float(train.get_context().get_world_rank() + 1)])
        torch.distributed.all_reduce(value)
        train.report({"sum": value.item()})

    result = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    return [(result.metrics or {}).get("sum")]


@stranger("docs: Train, checkpoint of a directory", ["weights", ["w.txt"], True])
def a_checkpoint_by_itself() -> object:
    """Checkpoint.from_directory, to_directory, as_directory, metadata."""
    folder = storage()
    Path(folder, "w.txt").write_text("weights")
    checkpoint = Checkpoint.from_directory(folder)
    checkpoint.set_metadata({"epoch": 3})
    copied = checkpoint.to_directory(os.path.join(storage(), "copy"))
    with checkpoint.as_directory() as where:
        text = Path(where, "w.txt").read_text()
    names = sorted(n for n in os.listdir(copied) if not n.startswith("."))
    return [text, names, checkpoint.get_metadata() == {"epoch": 3}]


@stranger("docs: Train, names and storage", [True, True], needs=("torch",))
def where_a_run_is_stored() -> object:
    """The run's name is a folder of the storage path, and the result's path lies within."""
    folder = storage()

    def loop() -> None:
        with tempfile.TemporaryDirectory() as own:
            Path(own, "x").write_text("x")
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(own))

    result = torch_trainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=folder, name="run"),
    ).fit()
    return [os.path.isdir(os.path.join(folder, "run")), result.path.startswith(folder)]


@stranger("forum: train.report outside of a training function", "raises")
def a_report_outside() -> object:
    """train.report in the driver is an error in words."""
    raised(lambda: train.report({"a": 1}))
    return "raises"


@stranger("ray#60548", ["ValueError", True], needs=("torch",))
def a_validation_without_a_checkpoint() -> object:
    """train.report(validation=) wants a checkpoint to validate, and says so."""

    def loop() -> None:
        train.report({"a": 1}, validation=True)

    run = RunConfig(storage_path=storage())
    trainer = torch_trainer(loop, scaling_config=ScalingConfig(num_workers=1), run_config=run)
    error = raised(trainer.fit)
    causes = [error, *getattr(error, "worker_failures", {}).values()]
    text = " ".join(f"{type(cause).__name__} {cause}" for cause in causes)
    return ["ValueError" if "ValueError" in text else text, "validation" in text]


if __name__ == "__main__":
    main()
