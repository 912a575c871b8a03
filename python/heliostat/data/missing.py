"""What errors say of columns that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from heliostat.data.plan import task

NEAREST_MAX = 3


def no_columns(names: Iterable[str], there: Sequence[str]) -> str:
    """That there are no such columns, which names are nearest to theirs, and what there is."""
    missing = list(names)
    unread = [name for name in task.left_out() if name not in there]  # as no step asks for them
    known = [name for name in (*there, *unread) if name not in missing]
    near: dict[str, None] = {}
    for name in missing:
        near.update(dict.fromkeys(difflib.get_close_matches(str(name), known, NEAREST_MAX)))
    said = repr(missing[0]) if len(missing) == 1 else repr(missing)
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    more = f", and not read of the file {unread}" if unread else ""
    what = "column" if len(missing) == 1 else "columns"
    return f"there is no {what} {said}{hint}; there are {list(there)}{more}"
