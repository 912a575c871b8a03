"""The base of modules of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core.rl_module.rl_module import RLModule

torch = required("torch", "ray.rllib", "rllib")


class TorchRLModule(torch.nn.Module, RLModule):  # type: ignore[name-defined] # found at run time
    """A module of torch: layers are attributes that :meth:`setup` makes."""

    framework = "torch"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        torch.nn.Module.__init__(self)
        # The module whose weights this one takes over, its parameters and this one's.
        self.__dict__["_taken"] = None
        RLModule.__init__(self, *args, **kwargs)
        if self.inference_only:
            for name in self.get_non_inference_attributes():
                owner, _, last = name.rpartition(".")
                with contextlib.suppress(AttributeError):  # setup() has left it out
                    delattr(self.get_submodule(owner), last)
                if not owner and not hasattr(self, last):
                    setattr(self, last, None)

    def forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the outputs for training, as torch calls modules."""
        return self.forward_train(batch, **kwargs)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the weights as arrays of numpy, by torch's names of them."""
        copied = kwargs.get("copied", True)
        arrays = {
            name: value.detach().cpu().numpy()
            for name, value in self.state_dict().items()
            if not inference_only or not self._is_for_training(name)
        }
        return {name: a.copy() for name, a in arrays.items()} if copied else arrays

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights of numpy or torch.

        Raises:
            ValueError: Names or shapes are those of another module.
        """
        self._load({name: _tensor(value) for name, value in state.items()})

    def _use_state(self, state: dict[str, Any]) -> None:
        # Our own modules never write to their parameters when they act; of others nobody knows.
        if not type(self).__module__.startswith("heliostat."):
            self.set_state(state)
            return
        tensors = {name: _tensor(value) for name, value in state.items()}
        views = {
            name: own
            for name, own in self.named_parameters()
            if isinstance(state.get(name), np.ndarray)
            and not state[name].flags.writeable
            and (own.shape, own.dtype, own.device.type)
            == (tensors[name].shape, tensors[name].dtype, "cpu")
        }
        self._load({n: tensor for n, tensor in tensors.items() if n not in views}, views)
        for name, own in views.items():
            own.data = tensors[name]

    def _take_from(self, other: Any) -> bool:
        if self._taken is None or self._taken[0] is not other:
            own, theirs = dict(self.named_parameters()), getattr(other, "named_parameters", dict)
            pairs = [(own[name], value) for name, value in theirs() if name in own]
            kinds = {(type(m).get_state, type(m).set_state) for m in (self, other)}
            plain = kinds == {(TorchRLModule.get_state, TorchRLModule.set_state)}
            same = len(pairs) == len(own) and all(a.shape == b.shape for a, b in pairs)
            if not plain or not same or next(self.buffers(), None) is not None:
                return False
            self.__dict__["_taken"] = (other, [a for a, _ in pairs], [b for _, b in pairs])
        with torch.no_grad():
            torch._foreach_copy_(self._taken[1], self._taken[2])
        return True

    def _own_weights(self) -> None:
        for own in self.parameters():
            own.data = own.data.clone()

    def _load(self, given: dict[str, Any], others: Collection[str] = ()) -> None:
        try:
            found = self.load_state_dict(given, strict=False)
        except RuntimeError as error:
            raise ValueError(f"The weights are of another module: {error}") from None
        missing = [
            name
            for name in found.missing_keys
            if name not in others and not self._is_for_training(name)
        ]
        if missing and (given or others):
            raise ValueError(f"The weights are of another module: it lacks {', '.join(missing)}.")

    def _is_for_training(self, weight: str) -> bool:
        return any(f"{weight}.".startswith(f"{a}.") for a in self.get_non_inference_attributes())

    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of attributes that acting does not need: runners do not get them."""
        return []

    def get_initial_state(self) -> Any:
        """Return the state that an episode begins with; {} for a module without one."""
        return {}


class _Unlocked:
    """The memory of an array without the mark that forbids writing, of which torch warns."""

    def __init__(self, array: Any) -> None:
        self.array = array
        given = array.__array_interface__
        self.__array_interface__ = {**given, "data": (given["data"][0], False)}


def _tensor(value: Any) -> Any:
    """Weights as a tensor, of the same memory."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = np.asarray(_Unlocked(value))
    return torch.as_tensor(value)
