"""``load_checkpoint``: sharded state into whatever is there, a single process among it."""

from __future__ import annotations

from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.torch.resume import files
from heliostat.train.torch.resume.view import StateView


def load_checkpoint(checkpoint: Checkpoint, **objects: Any) -> dict[str, Any]:
    """Load what ``resumable(...).report()`` has saved; needs no cluster and no process group.

    ::

        result = ray.train.Result.from_path("/data/runs/mine")
        model = make_model()
        ray.train.torch.load_checkpoint(result.get_best_checkpoint("loss", "min"), model=model)

    Args:
        checkpoint: The checkpoint. How many workers have saved it, and on what mesh, does not matter.
        objects: What to load, by the names that were passed to ``resumable``; some may be left out.

    Returns:
        The checkpoint's metadata: ``step``, ``epoch`` and ``world_size`` of the run that saved it.

    Raises:
        CheckpointMismatchError: The objects are not like those that were saved, or none were.
        DamagedCheckpointError: Files are missing, or are not as they were written.

    Examples:
        >>> import torch
        >>> from ray.train import Result
        >>> from ray.train.torch import load_checkpoint
        >>> def load(path):  # the folder of a run whose workers called resumable(model=...)
        ...     model = torch.nn.Linear(1, 1)
        ...     best = Result.from_path(path).get_best_checkpoint("loss", "min")
        ...     found = load_checkpoint(best, model=model)
        ...     return model, found["step"], found["world_size"]
    """
    view = StateView(objects)
    flat = view.read()
    with checkpoint.as_directory() as folder:
        files.verify(folder)
        files.load_folder(flat, folder)
    view.write(flat)
    return checkpoint.get_metadata()
