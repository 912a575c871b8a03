"""The base of modules of torch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from heliostat.core.extras import required
from heliostat.rllib.core.rl_module.rl_module import RLModule

torch = required("torch", "ray.rllib", "rllib")


class TorchRLModule(torch.nn.Module, RLModule):  # type: ignore[name-defined]
    """A module of torch: layers are attributes that :meth:`setup` makes."""

    framework = "torch"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        torch.nn.Module.__init__(self)
        RLModule.__init__(self, *args, **kwargs)

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
        left_out = tuple(self.get_non_inference_attributes()) if inference_only else ()
        return {
            name: value.detach().cpu().numpy().copy()
            for name, value in self.state_dict().items()
            if not left_out or name.split(".", 1)[0] not in left_out
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights of numpy or torch.

        Raises:
            ValueError: Names or shapes are those of another module.
        """
        given = {name: torch.tensor(value) for name, value in state.items()}
        try:
            found = self.load_state_dict(given, strict=False)
        except RuntimeError as error:
            raise ValueError(f"The weights are of another module: {error}") from None
        missing = [
            name
            for name in found.missing_keys
            if name.split(".", 1)[0] not in self.get_non_inference_attributes()
        ]
        if missing and state:
            raise ValueError(f"The weights are of another module: it lacks {', '.join(missing)}.")

    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of attributes that acting does not need: runners do not get them."""
        return []

    def get_initial_state(self) -> Any:
        """Return the state that an episode begins with; {} for a module without one."""
        return {}
