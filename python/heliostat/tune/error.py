"""Errors of a search as a whole."""

from __future__ import annotations


class TuneError(Exception):
    """A search cannot go on, or was asked for what makes no sense.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     raise ValueError("no such file")
        >>> try:
        ...     tune.run(objective, verbose=0)
        ... except tune.TuneError:
        ...     print("a trial failed")
        a trial failed
    """


class ArgumentError(ValueError, AssertionError):
    """An argument makes no sense, where Ray raises ``AssertionError``."""


class NoSearch(FileNotFoundError, ValueError):
    """A folder has no search."""


class TuneValueError(TuneError, ValueError):
    """A search ended with a ``ValueError``, such as that of a scheduler that lacks its metric."""


class TuneTypeError(TuneError, TypeError):
    """A search ended with a ``TypeError``, such as that of a value which cannot be pickled."""


def search_error(error: BaseException) -> type[TuneError]:
    """The kind of error that a search ends with which cannot go on because of another one."""
    kinds = (ValueError, TuneValueError), (TypeError, TuneTypeError)
    return next((kind for of, kind in kinds if isinstance(error, of)), TuneError)
