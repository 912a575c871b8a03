"""Reasons for waits (WHY-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat import _heliostat
from heliostat._heliostat import ObjectRef, ObjectRefGenerator
from heliostat.core.calls.actor_handle import ActorHandle
from heliostat.core.calls.placement import PlacementGroup, placement_group_table

if TYPE_CHECKING:
    Subject = ObjectRef | ObjectRefGenerator | ActorHandle | PlacementGroup


def why(what: Subject, timeout: float = 2.0) -> str:
    """Say in a few sentences what a reference, an actor or a placement group waits for.

    Names the resource, the argument, the queue or the attempt that failed; of what is over, how it
    ended. Others are asked where this process does not know (the owner of a borrowed reference, the
    worker, the node's daemon); what they did not say in time is left out.

    Args:
        what: An ``ObjectRef``, an ``ObjectRefGenerator``, an actor's handle or a ``PlacementGroup``.
        timeout: Seconds that the others have. Default 2.

    Returns:
        The sentences.

    Raises:
        TypeError: It is something else.

    Examples:
        >>> import ray
        >>> from ray.util import why
        >>> print(why(ray.put(1)) != "")
        True
    """
    if not _heliostat.is_connected():
        return "The session that it belongs to is over: nothing of it is left to wait for."
    if isinstance(what, ActorHandle):
        return _heliostat.why(what._actor_id.binary(), timeout)
    if isinstance(what, ObjectRef):
        return _heliostat.why(what.binary(), timeout)
    if isinstance(what, ObjectRefGenerator):
        return _heliostat.why(what.task_id().binary(), timeout)
    if isinstance(what, PlacementGroup):
        return _of_group(what)
    raise TypeError(
        f"why() is for references, actor handles and placement groups, not {type(what)}"
    )


def _of_group(group: PlacementGroup) -> str:
    """The text in the group's own entry of the control service's table."""
    row = placement_group_table(group)
    if not row:
        return "No placement group of this id is known: it was removed long ago."
    name = f' "{row["name"]}"' if row["name"] else ""
    reason = f": {row['why']}" if row["why"] else ""
    return f"The placement group{name} is {row['state']}{reason}."
