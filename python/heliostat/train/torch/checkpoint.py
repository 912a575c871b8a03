"""``TorchCheckpoint``: one model in a checkpoint, as Ray's batch predictors expected it."""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any

import torch

from heliostat.train.framework_checkpoint import FrameworkCheckpoint


class TorchCheckpoint(FrameworkCheckpoint):
    """A checkpoint whose file ``model.pt`` holds a model or its state.

    Nothing needs it: ``torch.save`` into a folder and ``Checkpoint.from_directory`` do the same.

    Examples:
        >>> import torch
        >>> from ray.train.torch import TorchCheckpoint
        >>> saved = TorchCheckpoint.from_state_dict(torch.nn.Linear(2, 1).state_dict())
        >>> saved.get_model(torch.nn.Linear(2, 1))
        Linear(in_features=2, out_features=1, bias=True)
    """

    MODEL_FILENAME = "model.pt"

    @classmethod
    def from_state_dict(
        cls, state_dict: dict[str, Any], *, preprocessor: Any = None
    ) -> TorchCheckpoint:
        """Save the state of a model, without the prefix that ``DistributedDataParallel`` adds.

        Args:
            state_dict: What ``model.state_dict()`` returns.
            preprocessor: A fitted preprocessor that the model's inputs go through.

        Returns:
            The checkpoint.
        """
        plain = {k.removeprefix("module."): v for k, v in state_dict.items()}
        return cls._save(plain, preprocessor)

    @classmethod
    def from_model(cls, model: torch.nn.Module, *, preprocessor: Any = None) -> TorchCheckpoint:
        """Save a whole model. Deprecated: its class has to be importable where it is loaded.

        Args:
            model: The model.
            preprocessor: A fitted preprocessor that the model's inputs go through.

        Returns:
            The checkpoint.
        """
        warnings.warn(
            "TorchCheckpoint.from_model is deprecated: save the state with from_state_dict.",
            DeprecationWarning,
            stacklevel=2,
        )
        return cls._save(model, preprocessor)

    @classmethod
    def _save(cls, value: Any, preprocessor: Any) -> TorchCheckpoint:
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        torch.save(value, os.path.join(folder, cls.MODEL_FILENAME))
        return cls._with_preprocessor(folder, preprocessor)

    def get_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """Return the model, on the CPU.

        Args:
            model: Where the saved state goes. Not needed for what ``from_model`` saved, which is
                unpickled: load such a checkpoint only from where you trust.

        Raises:
            RuntimeError: There is no ``model.pt`` in the checkpoint.
            ValueError: It holds a state only, and no ``model`` is given.
        """
        with self.as_directory() as folder:
            path = os.path.join(folder, self.MODEL_FILENAME)
            if not os.path.exists(path):
                raise RuntimeError(f"There is no {self.MODEL_FILENAME} in the checkpoint {self}.")
            saved = torch.load(path, map_location="cpu", weights_only=False)
        if isinstance(saved, torch.nn.Module):
            return saved
        if model is None:
            raise ValueError("The checkpoint holds the state of a model only: pass the model.")
        model.load_state_dict(saved)
        return model
