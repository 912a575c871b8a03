"""Trainables and environments that programs name by a string."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from heliostat.core.platform.spelling import did_you_mean
from heliostat.tune.error import TuneError
from heliostat.tune.trainable.function_trainable import wrap_function
from heliostat.tune.trainable.util import check, is_class

_trainables: dict[str, Any] = {}
_environments: dict[str, Callable[..., object]] = {}
_inputs: dict[str, Callable[..., object]] = {}
# Trainables that a library above this one registers when it is imported, by its module.
_OF_LIBRARIES = {"heliostat.rllib": ("APPO", "BC", "CQL", "DQN", "IMPALA", "MARWIL", "PPO", "SAC")}


def register_trainable(name: str, trainable: object, warn: bool = True) -> None:
    """Let ``Tuner`` and ``tune.run`` of this process take a trainable by its name.

    Args:
        name: What it is called; a later registration under the same name replaces it.
        trainable: A function of a config, or a subclass of ``tune.Trainable``.
        warn: Kept for programs that pass it, without an effect.

    Raises:
        TypeError: ``name`` is not a string, or ``trainable`` is neither a function nor a class of trials.
        ValueError: A function takes no config.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> tune.register_trainable("my_objective", objective)
        >>> analysis = tune.run("my_objective", config={"x": 3}, verbose=0)
        >>> analysis.trials[0].last_result["loss"]
        3
    """
    _check_name(name)
    try:
        check(trainable)
    except TuneError as error:
        raise TypeError(str(error)) from None
    _trainables[name] = trainable


def register_env(name: str, env_creator: Callable[..., object]) -> None:
    """Keep the creator of an environment under a name, for trainables that look for it.

    Args:
        name: What it is called.
        env_creator: A function of a config that returns the environment.

    Raises:
        TypeError: ``name`` is not a string, or ``env_creator`` cannot be called.

    Examples:
        >>> from ray import tune
        >>> class Corridor:
        ...     def __init__(self, length):
        ...         self.length = length
        >>> tune.register_env("corridor", lambda config: Corridor(config["length"]))

        ``AlgorithmConfig.environment("corridor", env_config={"length": 5})`` finds it.
    """
    _check_name(name)
    if not callable(env_creator):
        raise TypeError(f"env_creator must be a function of a config, not {env_creator!r}.")
    _environments[name] = env_creator


def register_input(name: str, input_creator: Callable[..., object]) -> None:
    """Keep the creator of a reader of samples under a name, for trainables that look for it.

    Raises:
        TypeError: ``name`` is not a string, or ``input_creator`` cannot be called.
    """
    _check_name(name)
    if not callable(input_creator):
        raise TypeError(f"input_creator must be a function of a context, not {input_creator!r}.")
    _inputs[name] = input_creator


def trainable_exists(trainable_name: str) -> bool:
    """Return whether a trainable of that name was registered in this process."""
    _load_for(trainable_name)
    return trainable_name in _trainables


def _load_for(name: str) -> None:
    """Import the library whose trainable that is, if it is one's; with it come the others."""
    if name in _trainables:
        return
    for module, names in _OF_LIBRARIES.items():
        if name in names:
            importlib.import_module(module)


def get_trainable_cls(trainable_name: str) -> Any:
    """Return the registered trainable as a class with steps.

    Raises:
        TuneError: There is none of that name.
    """
    trainable = registered(trainable_name)
    return trainable if is_class(trainable) else wrap_function(trainable)


def registered(name: str) -> Any:
    """The trainable of that name.

    Raises:
        TuneError: There is none.
        ImportError: It is a library's that is missing something.
    """
    _load_for(name)
    if name not in _trainables:
        known = ", ".join(sorted(_trainables)) or "none"
        hint = did_you_mean(name.upper(), _trainables)
        raise TuneError(
            f"Unknown trainable: {name}.{hint} Register it with tune.register_trainable({name!r}, ...), "
            f"or pass the function or class itself. Registered are: {known}."
        )
    return _trainables[name]


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name={name!r} must be a string.")
