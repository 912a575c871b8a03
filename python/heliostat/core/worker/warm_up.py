"""Warm-up: a dummy call before the first real one, while nobody waits for the process.

The first of everything takes several times as long as the second: pages are touched for the first
time, and in a worker, which is a copy of the zygote, copied; caches are filled. A driver does it at the
end of ``init``, a worker when it has been started and no work has come yet.
"""

from __future__ import annotations

import contextlib
import functools
import pickle


class _Nothing:
    """An actor's class."""

    def nothing(self) -> None:
        """A method."""


def _nothing() -> None:
    """A task's function."""


# A function of the user's script goes by value.
_Nothing.__module__ = _nothing.__module__ = "__main__"
_Nothing.__qualname__ = _nothing.__qualname__ = _nothing.__name__ = "<rehearsal>"


def calling() -> None:
    """In a driver: make a function and a class ready to be sent."""
    from heliostat.core.calls.actor import ActorClass, plan_of
    from heliostat.core.calls.remote_function import RemoteFunction

    # An error of the settings is raised at the first real call.
    with contextlib.suppress(Exception):
        plan_of(ActorClass(_Nothing, {})._definition, {})
        RemoteFunction(_nothing, {}).remote("an argument that it does not take")


@functools.cache
def pickled() -> tuple[bytes, bytes]:
    """Return the bytes that :func:`serving` unpacks; asked for in the zygote, all its copies have
    them.
    """
    from heliostat import cloudpickle

    return cloudpickle.dumps(_nothing), cloudpickle.dumps(_Nothing)


def serving() -> bytes:
    """In a worker: make an actor, and name the function of a task to be run."""
    function, actor = pickled()
    pickle.loads(actor)().nothing()
    return function
