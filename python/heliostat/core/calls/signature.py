"""The arguments that a function takes, in a form that is cheap to check and to send."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

# (name, kind, has a default) of each parameter: plain data, unlike `inspect.Signature`, whose
# defaults and annotations may be anything.
Parameters = tuple[tuple[str, int, bool], ...]
Check = Callable[[tuple[Any, ...], dict[str, Any]], object]

_KINDS = {
    int(kind): kind
    for kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    )
}
# Facts of a remote function and of an actor's method that need no look at their code, as on Ray.
ANY = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameters(function: Callable[..., Any], bound: bool = False) -> Parameters | None:
    """The parameters of a function, without the first if ``bound``; ``None`` where Python knows none."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if bound and found and found[0].kind in _POSITIONAL:
        del found[0]
    return tuple((p.name, int(p.kind), p.default is not inspect.Parameter.empty) for p in found)


def bounds(given: Parameters | None) -> tuple[int, int]:
    """(least, most) positional arguments of a call without keywords; -1: no bound.

    A call that could only fail has bounds that no number of arguments meets.
    """
    if given is None:
        return 0, -1
    positional = [p for p in given if p[1] in _POSITIONAL]
    least = sum(not p[2] for p in positional)
    most = -1 if any(p[1] == inspect.Parameter.VAR_POSITIONAL for p in given) else len(positional)
    if any(p[1] == inspect.Parameter.KEYWORD_ONLY and not p[2] for p in given):
        return 1 << 30, 0
    return least, most


@functools.lru_cache(maxsize=4096)
def checker(given: Parameters | None, name: str) -> Check | None:
    """Raises ``TypeError``, with the name of what is called, for arguments that do not fit."""
    if given is None:
        return None
    signature = inspect.Signature(
        [
            inspect.Parameter(
                name, _KINDS[kind], default=None if default else inspect.Parameter.empty
            )
            for name, kind, default in given
        ]
    )

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None

    return check
