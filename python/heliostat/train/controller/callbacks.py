"""The calls of a run's callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heliostat.train.callbacks import UserCallback


class CallbackFailed(Exception):
    """A callback has raised.

    Attributes:
        error: What it raised.
        where: Its class and the method.
    """

    def __init__(self, error: Exception, where: str) -> None:
        super().__init__(f"{where} raised {type(error).__name__}: {error}")
        self.error, self.where = error, where


class Callbacks:
    """The callbacks of one run. One that has raised is not called again."""

    def __init__(self, callbacks: Iterable[UserCallback]) -> None:
        self._callbacks = list(callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def call(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of each.

        Raises:
            CallbackFailed: One has raised, the first one that did. The others were called all the same.
        """
        failed: CallbackFailed | None = None
        for callback in list(self._callbacks):
            try:
                getattr(callback, method)(*args, **kwargs)
            except Exception as error:
                self._callbacks.remove(callback)
                failed = failed or CallbackFailed(error, f"{type(callback).__qualname__}.{method}")
        if failed is not None:
            raise failed
