"""Log a thing once, or now and then."""

from __future__ import annotations

import time

_PERIOD_S = 60.0
_logged: dict[str, float] = {}
_disabled = False
_periodic = False


def log_once(key: str) -> bool:
    """Say whether to log: the first time a key is seen, and with periodic logging once a minute.

    Args:
        key: What is logged once.

    Returns:
        Whether to log; False everywhere after ``disable_log_once_globally``.

    Examples:
        >>> from ray.util import log_once
        >>> for _ in range(3):
        ...     if log_once("slow disk"):
        ...         print("the disk is slow")
        the disk is slow
    """
    if _disabled:
        return False
    now = time.monotonic()
    last = _logged.get(key)
    if last is None or (_periodic and now - last > _PERIOD_S):
        _logged[key] = now
        return True
    return False


def disable_log_once_globally() -> None:
    """From now on nothing is logged.

    Examples:
        >>> from ray.util import disable_log_once_globally, log_once
        >>> def be_quiet():
        ...     disable_log_once_globally()
        ...     return log_once("anything")  # False
    """
    global _disabled
    _disabled = True


def enable_periodic_logging() -> None:
    """From now on a key is logged again after a minute.

    Examples:
        >>> from ray.util import enable_periodic_logging, log_once
        >>> def main(is_full):
        ...     enable_periodic_logging()
        ...     while is_full():
        ...         if log_once("full"):  # once a minute
        ...             print("the disk is full")
    """
    global _periodic
    _periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Forget that a key, or any key, has been seen.

    Args:
        key: The key. Default: any.

    Examples:
        >>> from ray.util import log_once
        >>> from ray.util.debug import reset_log_once
        >>> log_once("once"), log_once("once")
        (True, False)
        >>> reset_log_once("once")
        >>> log_once("once")
        True
    """
    if key is None:
        _logged.clear()
    else:
        _logged.pop(key, None)
