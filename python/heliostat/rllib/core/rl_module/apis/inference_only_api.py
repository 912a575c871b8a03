"""Modules of which runners get a part."""

from __future__ import annotations

from abc import ABC, abstractmethod


class InferenceOnlyAPI(ABC):
    """The method of a module that has parts which acting does not need: a module that is made with
    ``inference_only=True`` loses them after ``setup()``, and runners are not sent their weights.

    Examples:
        >>> from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
        >>> class WithValues(InferenceOnlyAPI):  # beside TorchRLModule
        ...     def get_non_inference_attributes(self):
        ...         return ["values"]  # self.values is not needed for acting
        >>> WithValues().get_non_inference_attributes()
        ['values']
    """

    @abstractmethod
    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of those parts: ``["vf", "encoder.critic"]``."""
