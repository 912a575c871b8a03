"""Knobs of Ray's runtime, as ``_system_config`` and ``RAY_x`` name them: which act here, and why not.

Those in :data:`ACTING` act; ``IDLE`` of :mod:`.ray_config_names` says of the others why they
do not. Values that act reach the daemon, its workers and this driver as environment variables, which is
also how users may set them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heliostat import _heliostat
from heliostat.core.platform import settings

logger = logging.getLogger("heliostat")

ACTING = frozenset(_heliostat.knobs())
"""Names that act: they are settings, which ``docs/settings.md`` lists."""

# These act as variables.
_VARIABLES = frozenset(("max_grpc_message_size",))

_SPILLING = "object_spilling_config"


def check(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The knobs of ``_system_config``, checked; those that do nothing here are named in a warning.

    Raises ``ValueError`` for a key that Ray does not know.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"_system_config must be a dictionary, got {type(given)}")
    from heliostat.core.driver.ray_config_names import IDLE
    from heliostat.core.platform.spelling import did_you_mean

    for name, value in given.items():
        # A setting that asks for something not done here is refused, as in the environment.
        if name not in ACTING:
            _heliostat.check_settings({f"RAY_{name}": str(value)})
        if name not in ACTING and name not in IDLE:
            raise ValueError(
                f"_system_config: unknown key {name!r}."
                f"{did_you_mean(str(name), [*ACTING, *IDLE])} Those that act are "
                f"{', '.join(sorted(ACTING))}."
            )
    _warn([name for name in given if name in IDLE], "_system_config")
    return dict(given)


def warn_of_variables() -> None:
    """Name the knobs that the environment sets and that do nothing here."""
    given = settings.names_given() - ACTING - _VARIABLES
    if given:
        from heliostat.core.driver.ray_config_names import IDLE

        _warn([name for name in IDLE if name in given], "the environment")


def _warn(names: list[str], where: str) -> None:
    if names:
        from heliostat.core.driver.ray_config_names import IDLE

        idle = [f"{name} ({IDLE[name]})" for name in names]
        logger.warning("Without effect in Heliostat, set in %s: %s.", where, "; ".join(idle))


def spilling_folder(given: Mapping[str, Any]) -> Path | None:
    """The folder that ``object_spilling_config`` names, there or in the environment."""
    config = given.get(_SPILLING) or settings.text(_SPILLING)
    if not config:
        return None
    try:
        config = json.loads(config) if isinstance(config, str) else config
        kind, params = config["type"], config.get("params", {})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{_SPILLING} is JSON such as "
            '{"type": "filesystem", "params": {"directory_path": "/spill"}}, '
            f"got {config!r}: {error!r}"
        ) from error
    if kind != "filesystem":
        raise ValueError(
            f'Unknown external storage type: {kind}. Objects are spilled to a folder: "filesystem".'
        )
    folder = params.get("directory_path")
    if isinstance(folder, list | tuple) and folder:
        if len(folder) > 1:
            logger.warning("Objects are spilled to the first folder of several: %s", folder[0])
        folder = folder[0]
    if not isinstance(folder, str):
        raise ValueError(f"{_SPILLING}: directory_path is a folder, got {folder!r}")
    return Path(folder).absolute()


def environment(given: Mapping[str, Any]) -> dict[str, str]:
    """The variables that pass the knobs on that act."""

    def text(value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        return str(int(value)) if isinstance(value, bool) else str(value)

    passed = {name: value for name, value in given.items() if name != _SPILLING}
    return {f"HELIOSTAT_{name}": text(v) for name, v in passed.items() if name in ACTING}


@contextlib.contextmanager
def set_for_this_process(variables: Mapping[str, str]) -> Iterator[None]:
    """Set those that this process reads itself while it connects."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
