"""Error messages about columns that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from heliostat.core.platform import spelling
from heliostat.data.plan import task

if TYPE_CHECKING:
    import pyarrow as pa


NEAREST_MAX = 3


def no_columns(names: Iterable[str], there: Sequence[str]) -> str:
    """Say that columns are missing: the nearest names, and all columns there are."""
    missing = list(names)
    unread = [name for name in task.left_out() if name not in there]  # as no step asks for them
    known = [name for name in (*there, *unread) if name not in missing]
    near = nearest(missing, known)
    said = repr(missing[0]) if len(missing) == 1 else repr(missing)
    hint = f" (did you mean {near}?)" if near else ""
    more = f", and not read of the file {unread}" if unread else ""
    what = "column" if len(missing) == 1 else "columns"
    return f"there is no {what} {said}{hint}; there are {list(there)}{more}"


def require(names: Iterable[str], schema: pa.Schema, what: str) -> None:
    """Raise ``ValueError`` for names that a schema lacks; None: it is not known.

    Args:
        names: Of columns.
        schema: Has ``names``.
        what: What asks for them, for the message.
    """
    missing = [name for name in names if schema is not None and name not in schema.names]
    if missing:
        raise ValueError(f"{what}: {no_columns(missing, schema.names)}")


def hint(error: Exception, value: object) -> str:
    """The columns nearest to the key that a function did not find, if it looked in a row or a batch.

    Nothing where no name is near: the key may be of a mapping of the function's own.
    """
    key = error.args[0] if type(error) is KeyError and error.args else None
    there = list(value) if isinstance(value, dict) else list(getattr(value, "columns", ()))
    if not isinstance(key, str) or key in there or not all(isinstance(name, str) for name in there):
        return ""
    near = nearest([key], there)
    return f" (did you mean the column {near}?)" if near else ""


def nearest(missing: list[str], known: list[str]) -> str:
    """The names nearest to those that are missing, in words; nothing where none is near."""
    near: dict[str, None] = {}
    for name in missing:
        near.update(dict.fromkeys(spelling.nearest(str(name), known, most=NEAREST_MAX)))
    return " or ".join(map(repr, near))
