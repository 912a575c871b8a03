"""Locations of objects, for programs that send work to its data by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliostat import ObjectRef, _heliostat

__all__ = ["get_local_object_locations", "get_object_locations"]


def get_object_locations(
    obj_refs: Sequence[ObjectRef], timeout_ms: int = -1
) -> dict[ObjectRef, dict[str, Any]]:
    """Return the location of each object, as its owner knows it.

    Each has ``node_ids``: the ids (hex) of the nodes that have the value; none while there is no value, and
    none for a small result, which travels with its answer. ``object_size``: bytes, ``None`` while there is
    no value. ``did_spill``: whether a node has it on disk. An object whose owner is gone or does not answer
    is left out.

    Args:
        obj_refs: references that this process holds.
        timeout_ms: how long owners may take, in milliseconds; negative: ten seconds.

    Returns:
        A dictionary for each reference.

    Raises:
        RuntimeError: there is no session.
        GetTimeoutError: an answer did not come in time.
        ValueError: a reference was not got from this session.
        TypeError: ``timeout_ms`` is not a number, or something else than references is in the list.

    Examples:
        >>> import ray
        >>> from ray.experimental import get_object_locations
        >>> ref = ray.put(bytes(1_000_000))
        >>> get_object_locations([ref])[ref]["object_size"] >= 1_000_000
        True
    """
    if not isinstance(timeout_ms, int | float):
        raise TypeError(f"timeout_ms must be a number of milliseconds, not {timeout_ms!r}")
    return _places(obj_refs, False, None if timeout_ms < 0 else timeout_ms / 1000)


def get_local_object_locations(obj_refs: Sequence[ObjectRef]) -> dict[ObjectRef, dict[str, Any]]:
    """As :func:`get_object_locations`, as far as this process and its node know; no other node is asked.

    Args:
        obj_refs: References that this process holds.

    Returns:
        As :func:`get_object_locations`.

    Raises:
        RuntimeError: there is no session.
        ValueError: a reference was not got from this session.

    Examples:
        >>> import ray
        >>> from ray.experimental import get_local_object_locations
        >>> ref = ray.put(bytes(10**6))
        >>> found = get_local_object_locations([ref])[ref]
        >>> found["object_size"] >= 10**6
        True
    """
    return _places(obj_refs, True, None)


def _places(
    given: Sequence[ObjectRef], own_view: bool, timeout_s: float | None
) -> dict[ObjectRef, dict[str, Any]]:
    if not _heliostat.is_connected():
        raise RuntimeError("There is no session: call `init()` first.")
    refs = list(given)
    for ref in refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"obj_refs must be a list of ObjectRefs, got {type(ref)} in it")
    named = zip(refs, _heliostat.object_places(refs, own_view, timeout_s), strict=True)
    return {
        ref: {"node_ids": place[0], "object_size": place[1], "did_spill": place[2]}
        for ref, place in named
        if place is not None
    }
