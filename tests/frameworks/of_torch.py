"""Plain torch: what ``prepare_model`` wraps, and a ``DeviceMesh`` of one's own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ray import train
from ray.train import Checkpoint

from tests.frameworks.work import (
    STEPS,
    Course,
    batch_of,
    loss_of,
    network,
    optimizer_of,
    whole_loss,
)


def torch_ddp(config: dict[str, Any]) -> float:
    """``prepare_model``; rank 0 saves."""
    import torch
    from ray.train.torch import prepare_model

    course = Course(config)
    model = prepare_model(network())
    plain = getattr(model, "module", model)
    optimizer = optimizer_of(model)
    begin = 0
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    for step in range(begin, STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *batch_of(step, course.rank, course.size))
        loss.backward()
        optimizer.step()
        if course.after(step + 1):
            with tempfile.TemporaryDirectory() as folder:
                made = None
                if course.rank == 0:
                    state = {"model": plain.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save({**state, "step": step + 1}, Path(folder, "state.pt"))
                    made = Checkpoint.from_directory(folder)
                train.report({"loss": loss.item()}, checkpoint=made)
    return whole_loss(plain)


def _sharded(config: dict[str, Any], shard: Any) -> float:
    """A model that ``shard`` changes in place; every rank saves its shards with DCP."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_state_dict,
        set_state_dict,
    )
    from torch.distributed.device_mesh import init_device_mesh

    course = Course(config)
    model = network()
    split_batch = shard(model, init_device_mesh("cpu", (course.size,)))
    rank, size = (course.rank, course.size) if split_batch else (0, 1)
    optimizer = optimizer_of(model)
    begin = 0
    if (checkpoint := train.get_checkpoint()) is not None:
        own, of_optimizer = get_state_dict(model, optimizer)
        state: dict[str, Any] = {"model": own, "optimizer": of_optimizer, "step": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        begin = state["step"]
    for step in range(begin, STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *batch_of(step, rank, size))
        loss.backward()
        optimizer.step()
        if course.after(step + 1):
            own, of_optimizer = get_state_dict(model, optimizer)
            # What each rank reports becomes one checkpoint.
            with tempfile.TemporaryDirectory() as folder:
                state = {"model": own, "optimizer": of_optimizer, "step": step + 1}
                dcp.save(state, checkpoint_id=folder)
                made = Checkpoint.from_directory(folder)
                train.report({"loss": loss.item()}, checkpoint=made)
    whole = network()
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    full = get_model_state_dict(model, options=options)
    if course.rank != 0:
        return 0.0
    whole.load_state_dict(full)
    return whole_loss(whole)


def torch_fsdp2(config: dict[str, Any]) -> float:
    """``fully_shard``."""

    def shard(model: Any, mesh: Any) -> bool:
        from torch.distributed.fsdp import fully_shard

        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return True

    return _sharded(config, shard)


def torch_tensor_parallel(config: dict[str, Any]) -> float:
    """Column-wise and row-wise layers on a ``DeviceMesh``; every rank sees the whole batch."""

    def shard(model: Any, mesh: Any) -> bool:
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return False

    return _sharded(config, shard)
