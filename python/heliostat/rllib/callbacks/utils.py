"""Calling callbacks, for runners and algorithms of a program's own."""

from __future__ import annotations

from typing import Any


def make_callback(
    callback_name: str,
    callbacks_objects: Any = None,
    callbacks_functions: Any = None,
    *,
    args: Any = None,
    kwargs: Any = None,
) -> None:
    """Call a method of callback objects, then functions.

    Args:
        callback_name: The method, as ``"on_episode_start"``.
        callbacks_objects: An ``RLlibCallback``, or a list of them. Default: none.
        callbacks_functions: A function, or a list of them. Default: none.
        args: Positional arguments of the calls. Default: none.
        kwargs: Keyword arguments of the calls. Default: none.
    """
    called = [getattr(one, callback_name) for one in _listed(callbacks_objects)]
    for function in [*called, *_listed(callbacks_functions)]:
        function(*(args or ()), **(kwargs or {}))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
