"""From an error that the runtime made (helio-proto's ``SystemError``) to the exception to raise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from heliostat import _heliostat
from heliostat.core import errors
from heliostat.core.errors import ActorDeath, DeathCause, DeathKind, RayError

if TYPE_CHECKING:
    from heliostat._heliostat import TaskID
    from heliostat.core.native_types import Cause

# Positions are the numbers of `ErrorKind`.
KINDS = (
    "system",
    "worker_crashed",
    "actor_died",
    "actor_unavailable",
    "object_lost",
    "owner_died",
    "reconstruction_failed",
    "task_cancelled",
    "task_unschedulable",
    "actor_unschedulable",
    "runtime_env_setup",
    "node_died",
    "out_of_memory",
    "store_full",
    "out_of_disk",
    "object_freed",
    "task_group_removed",
    "actor_group_removed",
)


def from_system_error(
    kind: int,
    message: str = "",
    cause: Cause | None = None,
    object_id: str = "",
    actor_id: str = "",
    task_id: str = "",
    name: str = "",
    site: str = "",
) -> BaseException:
    """Make the exception of an error of the system; unknown kinds are system errors.

    Args:
        kind: The number of the kind.
        message: Its text.
        cause: What died and why.
        object_id: The object's id, as hexadecimal digits; empty: none.
        actor_id: The actor's, likewise.
        task_id: The call's, likewise.
        name: The name of the function, method or class.
        site: Where the reference was made.

    Returns:
        The exception.

    Examples:
        >>> from ray.exceptions import from_system_error
        >>> error = from_system_error(0, message="the runtime gave up")
        >>> type(error).__name__, str(error)
        ('RaySystemError', 'System error: the runtime gave up')
    """
    death, error = DeathCause(), None
    if cause is not None:
        error = cause["error"]
        death = DeathCause(
            cause["kind"],
            cause["code"],
            cause["pid"],
            cause["message"],
            cause["log_tail"],
            cause["method"],
        )
    known = death.kind != DeathKind.UNKNOWN or bool(death.message)
    word = KINDS[kind] if 0 <= kind < len(KINDS) else "system"
    why = _joined(message, death) if known else message

    if word == "actor_died":
        return _actor_died(message, death, error, actor_id, name)
    if word == "task_group_removed":
        return errors.TaskPlacementGroupRemoved(message)
    if word == "actor_group_removed":
        # One that had a process died with it; one that waited can never be placed.
        if death.pid:
            return errors.ActorDiedWithPlacementGroup(ActorDeath(actor_id, name, death))
        return errors.ActorUnplacedWithPlacementGroup(death.message)
    if word == "actor_unavailable":
        actor = bytes.fromhex(actor_id) if actor_id else None
        said = f"The actor is temporarily unavailable: {why or 'its process is gone'}"
        return errors.ActorUnavailableError(said, actor)
    if word == "task_cancelled":
        return errors.TaskCancelledError(_task(task_id), message)
    if word in _LOST:
        return _LOST[word](object_id, b"", site, why)
    if word == "worker_crashed":
        where = f"It ran {name}." if name else ""
        return errors.WorkerCrashedError(" ".join(filter(None, [where, _sentence(why)])))
    if word in _SAID:
        return _SAID[word](why or message)
    return errors.RaySystemError(why or "the runtime gave no reason")


_LOST: dict[str, type[errors.ObjectLostError]] = {
    "object_lost": errors.ObjectLostError,
    "owner_died": errors.OwnerDiedError,
    "reconstruction_failed": errors.ObjectReconstructionFailedError,
    "object_freed": errors.ObjectFreedError,
}

_SAID: dict[str, Callable[[str], RayError]] = {
    "task_unschedulable": errors.TaskUnschedulableError,
    "actor_unschedulable": errors.ActorUnschedulableError,
    "runtime_env_setup": errors.RuntimeEnvSetupError,
    "node_died": errors.NodeDiedError,
    "out_of_memory": errors.OutOfMemoryError,
    "store_full": errors.ObjectStoreFullError,
    "out_of_disk": errors.OutOfDiskError,
}


def _actor_died(
    message: str, death: DeathCause, error: BaseException | None, actor_id: str, name: str
) -> BaseException:
    if error is not None:
        died = errors.ActorDiedError(error)
        died.actor_id = died.actor_id or actor_id
        return died
    if death.kind == DeathKind.UNKNOWN and not death.message:
        death = dataclasses.replace(death, message=message)
    return errors.ActorDiedError(ActorDeath(actor_id, name, death))


def _joined(message: str, death: DeathCause) -> str:
    """A message and the cause of a death as one text: what both say stands there once."""
    told, said = death.message.rstrip(". \n"), death.describe()
    before, is_told, _ = message.partition(told or "\0")
    if is_told:
        return before + said
    return said if message in said else f"{message} {said}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _task(task_id: str) -> TaskID | None:
    return _heliostat.TaskID(bytes.fromhex(task_id)) if task_id else None
