"""The state that a newcomer takes from a living peer, or a restart from copies, through the object store.

Parameters and the optimizer's tensors stay as they are from one step's end to the end of the next
backward pass: they are read from where they lie, while this rank computes. Everything else is copied first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy
import torch

import heliostat as ray
from heliostat import cloudpickle
from heliostat.train.memory.sender import Sender, fetch
from heliostat.train.memory.versions import MemoryOffer, Version
from heliostat.train.torch.replica.average import local
from heliostat.train.torch.replica.link import Link


class _Packed:
    """A tensor on its way: bytes that travel without a copy, and what they mean."""

    def __init__(self, tensor: torch.Tensor, *, copied: bool) -> None:
        data = local(tensor).detach()
        self.kind, self.shape = data.dtype, tuple(data.shape)
        self.is_sharded = hasattr(tensor, "to_local")
        flat = data.cpu().contiguous().reshape(-1)
        if copied and flat.data_ptr() == data.data_ptr():
            flat = flat.clone()
        self.bytes = flat.view(torch.uint8).numpy() if flat.numel() else numpy.empty(0, numpy.uint8)

    def unpack(self) -> torch.Tensor:
        """The tensor, in memory of its own."""
        if not len(self.bytes):
            return torch.empty(self.shape, dtype=self.kind)
        return torch.from_numpy(self.bytes.copy()).view(self.kind).reshape(self.shape)


def check(objects: dict[str, Any]) -> None:
    """Raise ValueError for what has no state that could be taken."""
    for name, value in objects.items():
        if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
            raise ValueError(
                f"fault_tolerant({name}={type(value).__name__}): a replaced worker takes the state of "
                "a living one, which needs state_dict() and load_state_dict(). Pass models, "
                "optimizers, schedulers, or an object of yours with these two methods."
            )


def check_sharding(objects: dict[str, Any], size: int) -> None:
    """Raise ValueError for a parameter that the workers of a group of ``size`` would hold each alone.

    Only shards are averaged over the groups: within a group such copies would drift apart.
    """
    for key, model in objects.items():
        if size == 1 or not isinstance(model, torch.nn.Module):
            continue
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and not hasattr(parameter, "to_local"):
                raise ValueError(
                    f"The parameter {key}.{name} is not sharded over the {size} workers of its replica "
                    "group (workers_per_replica). Shard the model with "
                    "torch.distributed.fsdp.fully_shard(model, mesh=init_device_mesh(device, "
                    f"({size},))), or set workers_per_replica=1."
                )


def signature(objects: dict[str, Any]) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    """Name, shape and type of each parameter of the models."""
    return tuple(
        (f"{key}.{name}", tuple(parameter.shape), str(parameter.dtype).removeprefix("torch."))
        for key, model in objects.items()
        if isinstance(model, torch.nn.Module)
        for name, parameter in model.named_parameters()
    )


class Giver:
    """Hands this rank's state to newcomers and to keepers, in threads beside the next step."""

    def __init__(self, link: Link, objects: dict[str, Any], sender: Sender, attempt: int) -> None:
        self._link = link
        self._objects = objects
        self._sender = sender
        self._attempt = attempt
        self._threads: list[threading.Thread] = []

    def is_due(self, step: int) -> bool:
        """Whether keepers are to have the state after ``step`` steps."""
        return self._sender.is_due(step)

    def give(self, quorum: int, more: dict[str, Any]) -> None:
        """Begin to hand over the state as it is now, with ``more``, to those who join."""
        state = self._packed(more)
        self._start(lambda: self._link.give(quorum, [ray.put(state)]))

    def keep(self, step: int, more: dict[str, Any]) -> None:
        """Begin to hand over the state as it is now, with ``more``, to keepers."""
        state = self._packed(more)

        def put() -> None:
            buffers: list[Any] = []
            header = cloudpickle.dumps(state, protocol=5, buffer_callback=buffers.append)
            arrays = [numpy.frombuffer(buffer.raw(), numpy.uint8) for buffer in buffers]
            # The state in the store is a copy: the next step may begin.
            self._sender.begin(Version(step, self._attempt), header, ray.put(arrays))

        self._start(put)

    def _packed(self, more: dict[str, Any]) -> dict[str, Any]:
        return {"objects": {k: _pack(value) for k, value in self._objects.items()}, **more}

    def _start(self, hand_over: Callable[[], None]) -> None:
        thread = threading.Thread(target=hand_over, name="train-state")
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Wait until what is handed over has been read."""
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()


def take_copy(offer: MemoryOffer, shard: int) -> dict[str, Any]:
    """Return the copy that ``Giver.keep`` handed over as shard ``shard``, to be given to ``fill``.

    Raises:
        DamagedCheckpointError: The part is gone meanwhile.
    """
    copies = offer.parts[shard]
    found: dict[str, Any] = cloudpickle.loads(
        copies[0].header, buffers=fetch(copies, f"shard {shard}")
    )
    return found


def fill(objects: dict[str, Any], found: dict[str, Any]) -> None:
    """Make a state that was handed over that of ``objects``."""
    for name, value in objects.items():
        _unpack(value, found["objects"][name])


def take(link: Link, quorum: int, objects: dict[str, Any]) -> dict[str, Any]:
    """Wait for the state of a peer and make it that of ``objects``; returns what came with it.

    Raises:
        AttemptEnded: The peer is gone; this worker begins anew.
    """
    (reference,) = link.take(quorum)
    found: dict[str, Any] = ray.get(reference)
    fill(objects, found)
    link.taken(quorum)
    return found


def _pack(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        fixed = {p.data_ptr() for p in map(_data, value.parameters())}
        return {
            k: _Packed(v, copied=_data(v).data_ptr() not in fixed)
            if isinstance(v, torch.Tensor)
            else v
            for k, v in value.state_dict().items()
        }
    copied = not isinstance(value, torch.optim.Optimizer)
    return _map(value.state_dict(), lambda tensor: _Packed(tensor, copied=copied), torch.Tensor)


def _data(tensor: torch.Tensor) -> torch.Tensor:
    return local(tensor.detach())


def _map(value: Any, change: Any, kind: type) -> Any:
    """``value`` with everything of ``kind`` in its dicts, lists and tuples changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {k: _map(v, change, kind) for k, v in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_map(v, change, kind) for v in value)
    return value


def _unpack(value: Any, packed: Any) -> None:
    if isinstance(value, torch.nn.Module):
        _unpack_model(value, packed)
    elif isinstance(value, torch.optim.Optimizer):
        _unpack_optimizer(value, packed)
    else:
        value.load_state_dict(_map(packed, lambda p: p.unpack(), _Packed))


def _unpack_model(model: torch.nn.Module, packed: dict[str, Any]) -> None:
    """Copy into the tensors that the model has, sharded or not."""
    rest = {}
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, torch.Tensor):
                local(tensor).copy_(packed[name].unpack())
            else:
                rest[name] = packed[name]
    if rest:
        model.load_state_dict(rest, strict=False)


def _unpack_optimizer(optimizer: torch.optim.Optimizer, packed: dict[str, Any]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {
        index: _map(values, lambda p, i=index: _like(p, parameters[i]), _Packed)
        for index, values in packed["state"].items()
    }
    groups = _map(packed["param_groups"], lambda p: p.unpack(), _Packed)
    optimizer.load_state_dict({**packed, "state": state, "param_groups": groups})


def _like(packed: _Packed, parameter: Any) -> torch.Tensor:
    """The tensor, sharded as its parameter is."""
    tensor = packed.unpack()
    if not packed.is_sharded:
        return tensor
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        tensor.to(parameter.to_local().device),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
