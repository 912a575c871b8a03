"""DeepSpeed's engine: ZeRO and a pipeline."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ray import train
from ray.train import Checkpoint

from tests.frameworks.work import (
    BATCH,
    STEPS,
    Course,
    batch_of,
    loss_of,
    network,
    optimizer_of,
    whole_loss,
)


def _deepspeed() -> Any:
    """DeepSpeed; without the operation that it compiles for a minute, except in `make test-extras`."""
    import deepspeed

    if not os.environ.get("HELIOSTAT_EXTRAS"):
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo does it then
    return deepspeed


def options(stage: int, size: int) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": BATCH // size,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": 0.0,
        "steps_per_print": 1000,
    }


def deepspeed_zero1(config: dict[str, Any]) -> float:
    return _zero(config, 1)


def deepspeed_zero2(config: dict[str, Any]) -> float:
    return _zero(config, 2)


def deepspeed_zero3(config: dict[str, Any]) -> float:
    return _zero(config, 3)


def _restored(engine: Any) -> int:
    """How many steps the last checkpoint has, which the engine loads."""
    if (checkpoint := train.get_checkpoint()) is None:
        return 0
    with checkpoint.as_directory() as folder:
        _, client = engine.load_checkpoint(folder)
    step: int = client["step"]
    return step


def _report(engine: Any, step: int, loss: Any) -> None:
    """Every rank saves its part; what they report becomes one checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        engine.save_checkpoint(folder, client_state={"step": step})
        train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


def _zero(config: dict[str, Any], stage: int) -> float:
    """DeepSpeed's engine and its own checkpoints."""
    deepspeed = _deepspeed()
    course = Course(config)
    model = network()
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer_of(model), config=options(stage, course.size)
    )
    for step in range(_restored(engine), STEPS):
        loss = loss_of(engine, *batch_of(step, course.rank, course.size))
        engine.backward(loss)
        engine.step()
        if course.after(step + 1):
            _report(engine, step + 1, loss)
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
        return whole_loss(model)


def deepspeed_pipeline(config: dict[str, Any]) -> float:
    """The first worker has the first layers, the last one the others and the loss."""
    deepspeed = _deepspeed()
    import torch
    from deepspeed.pipe import PipelineModule

    course = Course(config)
    # It joins the process group of the trainer; the engine would do it, but comes too late for the module.
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    layers = list(network())
    model = PipelineModule(
        layers=layers,
        num_stages=course.size,
        loss_fn=torch.nn.functional.mse_loss,
        partition_method="uniform",
    )
    given = {**options(0, BATCH // 4), "gradient_accumulation_steps": BATCH // 4}
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=optimizer_of(model),
        config=given,
        dist_init_required=False,
    )
    for step in range(_restored(engine), STEPS):
        # Micro batches of 4 rows flow through the stages.
        parts = zip(*(whole.split(4) for whole in batch_of(step)), strict=True)
        loss = engine.train_batch(data_iter=iter(list(parts)))
        if course.after(step + 1):
            _report(engine, step + 1, loss)
    # Each stage has trained its own layers.
    own = {i: layers[i].state_dict() for i in range(model._local_start, model._local_stop)}
    found: list[Any] = [None] * course.size
    torch.distributed.all_gather_object(found, own)
    for states in found:
        for index, state in states.items():
            layers[index].load_state_dict(state)
    return whole_loss(torch.nn.Sequential(*layers))
