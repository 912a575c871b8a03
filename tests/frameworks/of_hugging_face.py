"""Accelerate, and the Trainer of transformers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ray import train
from ray.train import Checkpoint

from tests.frameworks.of_deepspeed import options as deepspeed_options
from tests.frameworks.work import (
    BATCH,
    LEARNING_RATE,
    MOMENTUM,
    Course,
    loss_of,
    network,
    optimizer_of,
    rows,
    whole_loss,
)


def accelerate_ddp(config: dict[str, Any]) -> float:
    return _accelerate(config)


def accelerate_fsdp(config: dict[str, Any]) -> float:
    from accelerate.utils import FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
    return _accelerate(config, fsdp_plugin=plugin)


def accelerate_deepspeed(config: dict[str, Any]) -> float:
    from accelerate.utils import DeepSpeedPlugin

    size = train.get_context().get_world_size()
    plugin = DeepSpeedPlugin(hf_ds_config=deepspeed_options(2, size), zero3_init_flag=False)
    return _accelerate(config, deepspeed_plugin=plugin)


def _accelerate(config: dict[str, Any], **plugins: Any) -> float:
    """``Accelerator.prepare`` and its own checkpoints."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader, TensorDataset

    course = Course(config)
    split = DataLoaderConfiguration(split_batches=True)
    accelerator = Accelerator(cpu=True, dataloader_config=split, **plugins)
    model = network()
    loader = DataLoader(TensorDataset(*rows()), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer_of(model), loader)
    begin = 0
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            accelerator.load_state(folder)
            begin = int(Path(folder, "step").read_text())
    for step, (x, y) in enumerate(accelerator.skip_first_batches(loader, begin), begin):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        accelerator.backward(loss)
        optimizer.step()
        if course.after(step + 1):
            with tempfile.TemporaryDirectory() as folder:
                accelerator.save_state(folder)
                Path(folder, "step").write_text(str(step + 1))
                made = Checkpoint.from_directory(folder)
                train.report({"loss": loss.item()}, checkpoint=made)
    state = accelerator.get_state_dict(model)
    if course.rank != 0:
        return 0.0
    whole = network()
    whole.load_state_dict(state)
    return whole_loss(whole)


def with_loss() -> Any:
    """What the Trainer of transformers trains: the network, whose answer has the loss."""
    import torch

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            answers = self.net(x)
            return {"loss": (answers - labels).square().mean(), "logits": answers}

    return WithLoss()


def transformers_ddp(config: dict[str, Any]) -> float:
    return _transformers(config)


def transformers_fsdp(config: dict[str, Any]) -> float:
    options = {"version": 2, "state_dict_type": "SHARDED_STATE_DICT"}
    return _transformers(config, fsdp="full_shard", fsdp_config=options)


def transformers_deepspeed(config: dict[str, Any]) -> float:
    return _transformers(
        config, deepspeed=deepspeed_options(2, train.get_context().get_world_size())
    )


def trained(trainer: Any, course: Course) -> Any:
    """The weights behind the course of a ``transformers.Trainer``, which goes on from its checkpoint."""
    import transformers
    from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

    class Steps(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_save = course.after(state.global_step)

    trainer.add_callback(Steps())
    trainer.add_callback(RayTrainReportCallback())
    trainer = prepare_trainer(trainer)
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            trainer.train(resume_from_checkpoint=str(Path(folder, "checkpoint")))
    else:
        trainer.train()
    return trainer.accelerator.get_state_dict(trainer.model_wrapped)


def _transformers(config: dict[str, Any], **arguments: Any) -> float:
    """``transformers.Trainer``, which saves and resumes by itself."""
    import torch
    import transformers

    course = Course(config)
    model = with_loss()

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    x, y = rows()
    trainer = InOrder(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(Path(config["folder"], "scratch")),
            num_train_epochs=1,
            per_device_train_batch_size=BATCH // course.size,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **arguments,
        ),
        train_dataset=[{"x": a, "labels": b} for a, b in zip(x, y, strict=True)],
        optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": LEARNING_RATE, "momentum": MOMENTUM}),
    )
    state = trained(trainer, course)
    if course.rank != 0:
        return 0.0
    model = with_loss()
    model.load_state_dict(state)
    return whole_loss(model.net)
