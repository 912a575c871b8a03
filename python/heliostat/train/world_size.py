"""The steps of a training function that goes on in a group of another size."""

from __future__ import annotations

from collections.abc import Callable

from heliostat.train.context import current_session

# Gets the number of workers before and now.
Hook = Callable[[int, int], None]


def on_world_size_change(hook: Hook) -> None:
    """Call ``hook(before, now)`` when this worker goes on in a group of another size.

    Call this once the state has been loaded. Where that is the state of a group of another size, the hook is
    called at once: ``before`` is the number of workers that had saved the checkpoint from which the function
    goes on, also where it was saved several restarts ago. With replica groups it is called as well between
    two steps, when groups are lost or have joined. A learning rate that follows the samples of a step::

        optimizer.load_state_dict(state["optimizer"])

        def scale(before, now):
            for group in optimizer.param_groups:
                group["lr"] *= now / before

        train.on_world_size_change(scale)

    The driver hears of it by ``UserCallback.on_world_size_change``.

    Args:
        hook: Gets the number of workers before and now. What it raises ends the training function.

    Raises:
        RuntimeError: Not called in a training function.
        TypeError: ``hook`` cannot be called.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     rate = [0.1]
        ...     def scale(before, now):
        ...         rate[0] *= now / before
        ...     train.on_world_size_change(scale)
        ...     return rate[0]  # nothing has changed yet
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=1)).fit().return_value
        0.1
    """
    if not callable(hook):
        raise TypeError(f"on_world_size_change() takes a function of (before, now), not {hook!r}.")
    current_session("on_world_size_change").on_world_size_change(hook)
