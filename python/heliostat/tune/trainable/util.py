"""Bindings of a trainable: large values, and resources."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.core.platform.preload import mentioned
from heliostat.train.config import ScalingConfig
from heliostat.tune.aliases import Config
from heliostat.tune.error import TuneError
from heliostat.tune.execution.placement_groups import (
    PlacementGroupFactory,
    as_resources,
    is_function_of_config,
)

if TYPE_CHECKING:
    from heliostat import ObjectRef
    from heliostat.tune.trainable.trainable import Trainable


def is_class(trainable: object) -> bool:
    """Whether a trainable is a class with steps."""
    from heliostat.tune.trainable.trainable import Trainable

    return inspect.isclass(trainable) and issubclass(trainable, Trainable)


def large_modules(trainable: object) -> list[str]:
    """The modules that a trainable uses and that take seconds to load, as far as its code shows."""
    while isinstance(trainable, functools.partial):
        trainable = trainable.func
    own = trainable.__mro__ if inspect.isclass(trainable) else (trainable,)
    found = (mentioned(one) for one in own if inspect.isclass(one) or inspect.isfunction(one))
    return sorted({name for names in found for name in names})


def check(trainable: object) -> None:
    """Raise for what cannot be a trainable."""
    if is_class(trainable):
        return
    from heliostat.train.data_parallel_trainer import DataParallelTrainer

    if isinstance(trainable, DataParallelTrainer):
        name = type(trainable).__name__
        raise TuneError(
            f"A {name} is not a trainable. Pass a function that makes one and calls its fit(): "
            f"def train_driver(config): {name}(..., train_loop_config=config).fit(). "
            "ray.tune.integration.ray_train.TuneReportCallback() in the callbacks of its RunConfig tells "
            "the search what it reports."
        )
    if inspect.isclass(trainable) or not callable(trainable):
        raise TuneError(
            f"A trainable is a function of a config, or a subclass of tune.Trainable, not {trainable!r}."
        )
    try:
        inspect.signature(trainable).bind({})
    except ValueError:
        return  # nothing is known of its parameters
    except TypeError as error:
        raise ValueError(
            "Unknown argument found in the Trainable function. The function args must include a single "
            f"'config' positional parameter.\nFound: {inspect.signature(trainable)}"
        ) from error


def check_checkpoints(trainable: object, config: object) -> None:
    """Raise ``ValueError`` where a function is to be saved after so many steps, or at its end."""
    if is_class(trainable):
        return
    for name in ("checkpoint_frequency", "checkpoint_at_end"):
        if getattr(config, name):
            raise ValueError(
                f"`{name}` is of class trainables: a function makes checkpoints itself, with "
                "tune.report(metrics, checkpoint=...)."
            )


def name_of(trainable: object) -> str:
    """The name under which trials are shown."""
    while isinstance(trainable, functools.partial):
        trainable = trainable.func
    name = str(getattr(trainable, "__name__", None) or type(trainable).__name__)
    return "lambda" if name == "<lambda>" else name


def with_parameters(trainable: object, **kwargs: object) -> Any:
    """Give a trainable large values, which go through the object store once.

    A function gets them as keyword arguments, a class as arguments of ``setup``.

    Args:
        trainable: A function or a class.
        **kwargs: The values by name.

    Returns:
        A trainable that takes a configuration alone.

    Raises:
        ValueError: ``trainable`` is not one.
        TypeError: A value cannot be pickled.

    Examples:
        >>> from ray import tune
        >>> def objective(config, data):
        ...     tune.report({"sum": config["x"] + sum(data)})
        >>> bound = tune.with_parameters(objective, data=[1, 2, 3])
    """
    if not callable(trainable):
        raise ValueError(
            f"`tune.with_parameters() only works with functions or classes, not {trainable!r}"
        )
    refs = {name: _put(name, value) for name, value in kwargs.items()}
    if is_class(trainable):
        return _class_with(trainable, refs)

    @functools.wraps(trainable)
    def function(config: Config) -> object:
        return trainable(config, **dict(zip(refs, ray.get(list(refs.values())), strict=True)))

    # The signature is that of a function of a config alone.
    del function.__wrapped__
    return function


def _put(name: str, value: object) -> ObjectRef:
    try:
        return ray.put(value)
    except TypeError as error:
        raise TypeError(
            f"with_parameters({name}=...), a {type(value).__name__}, cannot be pickled, and so it cannot "
            f"reach the process of a trial: {error} Make it in the trainable, from values that can."
        ) from error


def _class_with(trainable: Any, refs: dict[str, ObjectRef]) -> type[Trainable]:
    def setup(self: object, config: Config) -> None:
        values = dict(zip(refs, ray.get(list(refs.values())), strict=True))
        trainable.setup(self, config, **values)

    return type(trainable.__name__, (trainable,), {"setup": setup})


def with_resources(
    trainable: Any,
    resources: Mapping[str, float]
    | PlacementGroupFactory
    | ScalingConfig
    | Callable[[Config], object],
) -> Any:
    """Say what each trial of a trainable takes; what it said before no longer counts.

    Args:
        trainable: A function or a class.
        resources: Such as ``{"cpu": 2, "gpu": 0.5}``, a ``PlacementGroupFactory``, a ``ScalingConfig``, or
            a function of the trial's config that returns one of them.

    Returns:
        The trainable.

    Raises:
        ValueError: ``trainable`` is neither, or ``resources`` is something else.

    Examples:
        >>> from ray import tune
        >>> trainable = tune.with_resources(lambda config: None, {"cpu": 2})
    """
    if not callable(trainable) or (inspect.isclass(trainable) and not is_class(trainable)):
        raise ValueError(
            "`tune.with_resources() only works with functions, or classes that inherit from "
            f"`tune.Trainable`, not {trainable!r}."
        )
    wanted: Any = resources if is_function_of_config(resources) else as_resources(resources)
    if is_class(trainable):

        def default_resource_request(cls: type, config: Config) -> Any:
            return wanted(config) if is_function_of_config(wanted) else wanted

        own: dict[str, object] = {"default_resource_request": classmethod(default_resource_request)}
        return type(trainable.__name__, (trainable,), own)

    @functools.wraps(trainable)
    def made(config: Config, **bound: object) -> object:  # by with_parameters
        return trainable(config, **bound)

    made._resources = wanted  # type: ignore[attr-defined] # ours
    return made


def resources_of(trainable: Any, config: Config, per_trial: Any = None) -> PlacementGroupFactory:
    """Return the resources of a trial.

    Args:
        trainable: A function or a class.
        config: The trial's.
        per_trial: What ``tune.run(resources_per_trial=)`` was given.

    Raises:
        TuneError: Both the trainable and ``per_trial`` say it.
        ValueError: What was given, or what a function of the config returned, says no resources.
    """
    if is_class(trainable):
        wanted = trainable.default_resource_request(config)
    else:
        wanted = getattr(trainable, "_resources", None)
    if wanted and per_trial:
        raise TuneError(
            f"{name_of(trainable)} says by itself what a trial takes ({wanted!r}): leave out "
            "`resources_per_trial`."
        )
    wanted = wanted or per_trial
    if is_function_of_config(wanted):
        wanted = wanted(config)
    return as_resources(wanted or {"cpu": 1})
