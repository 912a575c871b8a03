"""What errors say of columns that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

NEAREST_MAX = 3


def no_columns(names: Iterable[str], there: Sequence[str]) -> str:
    """That there are no such columns, which names are nearest to theirs, and what there is."""
    missing = list(names)
    near: dict[str, None] = {}
    for name in missing:
        near.update(dict.fromkeys(difflib.get_close_matches(str(name), there, NEAREST_MAX)))
    said = repr(missing[0]) if len(missing) == 1 else repr(missing)
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    what = "column" if len(missing) == 1 else "columns"
    return f"there is no {what} {said}{hint}; there are {list(there)}"
