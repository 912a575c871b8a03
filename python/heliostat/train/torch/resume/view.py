"""The state of a training function as named tensors, the same names for any kind of parallelism."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from heliostat.train.torch.resume.weights import Average

# The entry for all but tensors of a model or an optimizer: schedulers, the position in the data. One entry.
REST = "rest"


class StateView:
    """Models, optimizers and other objects, read and written as one flat dict.

    Names are ``<object>.<name>``, as ``torch.distributed.checkpoint`` has them for nested dicts, so
    that its own functions read what is saved here.
    """

    def __init__(self, objects: dict[str, Any]) -> None:
        if REST in objects:
            raise ValueError(f"The name {REST!r} is taken: pass the object under another name.")
        self._models = {k: v for k, v in objects.items() if isinstance(v, torch.nn.Module)}
        self.optimizers = {k: v for k, v in objects.items() if isinstance(v, torch.optim.Optimizer)}
        known = {**self._models, **self.optimizers}
        self._others = {k: v for k, v in objects.items() if k not in known}
        for name, value in self._others.items():
            if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
                raise ValueError(
                    f"{name}={type(value).__name__} has no state that could be saved, which needs "
                    "state_dict() and load_state_dict(). Pass models, optimizers, schedulers, or an "
                    "object of yours with these two methods."
                )
        self._model_of = {k: self._find_model(k, v) for k, v in self.optimizers.items()}

    def _find_model(self, name: str, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
        wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for model in self._models.values():
            if wanted <= {id(p) for p in model.parameters()}:
                return model
        raise ValueError(
            f"The parameters of {name}={type(optimizer).__name__} are not those of one of the models "
            f"{sorted(self._models)}: pass the model, too. An optimizer's state is saved under the "
            "names that its parameters have there."
        )

    def average_by_samples(self) -> Average:
        """Have ``DistributedDataParallel`` average gradients by samples."""
        return Average(self._models.values())

    def stepped(self) -> set[int]:
        """Addresses of what changes in steps of optimizers only: parameters and optimizer state."""
        found: set[int] = set()
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                found |= {_address(p) for p in group["params"]}
            for values in optimizer.state.values():
                found |= {_address(v) for v in values.values() if isinstance(v, torch.Tensor)}
        return found

    def read(self, more: dict[str, Any] | None = None) -> dict[str, Any]:
        """All tensors as they lie in memory, and the rest as bytes, with ``more`` in it."""
        flat: dict[str, Any] = {}
        for name, model in self._models.items():
            for key, value in get_model_state_dict(model).items():
                flat[f"{name}.{key}"] = value
        for name, optimizer in self.optimizers.items():
            model = self._model_of[name]
            options = StateDictOptions(flatten_optimizer_state_dict=True)
            for key, value in get_optimizer_state_dict(model, optimizer, options=options).items():
                flat[f"{name}.{key}"] = value
        rest = {"objects": {k: v.state_dict() for k, v in self._others.items()}, "more": more}
        buffer = io.BytesIO()
        torch.save(rest, buffer)
        flat[REST] = buffer.getvalue()
        return flat

    def write(self, flat: dict[str, Any]) -> dict[str, Any]:
        """Make ``flat`` the state of the objects; returns what came with it as ``more``."""
        for name, model in self._models.items():
            set_model_state_dict(model, _under(name, flat))
        for name, optimizer in self.optimizers.items():
            set_optimizer_state_dict(
                self._model_of[name],
                optimizer,
                optim_state_dict=_under(name, flat),
                options=StateDictOptions(flatten_optimizer_state_dict=True),
            )
        rest = torch.load(io.BytesIO(flat[REST]), map_location="cpu", weights_only=False)
        for name, value in self._others.items():
            if name in rest["objects"]:
                value.load_state_dict(rest["objects"][name])
        return rest["more"] or {}


def _under(name: str, flat: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{name}."
    return {k[len(prefix) :]: v for k, v in flat.items() if k.startswith(prefix)}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor, which may be sharded, that this rank holds."""
    data = tensor.detach()
    if hasattr(data, "to_local"):
        found: torch.Tensor = data.to_local()
        return found
    return data


def _address(tensor: torch.Tensor) -> int:
    return int(local(tensor).untyped_storage().data_ptr())


def replaced(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor of the same kind whose local part is changed."""
    data = tensor.detach()
    if not hasattr(data, "to_local"):
        return change(data)
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        change(data.to_local()),
        data.device_mesh,
        data.placements,
        run_check=False,
        shape=data.shape,
        stride=data.stride(),
    )


def settled(flat: dict[str, Any], stepped: set[int]) -> dict[str, Any]:
    """``flat`` with copies of those tensors that may change before an optimizer's next step."""
    return {
        key: replaced(value, lambda t: t.clone())
        if isinstance(value, torch.Tensor) and _address(value) not in stepped
        else value
        for key, value in flat.items()
    }
