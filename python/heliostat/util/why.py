"""What a thing waits for (WHY-1)."""

from __future__ import annotations

from heliostat import _heliostat
from heliostat.core.actor_handle import ActorHandle


def why(what: ActorHandle) -> str:
    """A sentence: what the actor waits for, or why it ended."""
    if not isinstance(what, ActorHandle):
        raise TypeError(f"why() is for actor handles, not {type(what)}")
    wanted = what._actor_id.hex()
    rows = [row for row in _heliostat.list_actors() if row["actor_id"] == wanted]
    if not rows:
        return "The cluster knows no such actor."
    row = rows[0]
    if row["state"] == "ALIVE":
        return f"It is alive, in process {row['pid']}."
    return row["why"] or row["death_cause"] or f"It is {row['state']}."
