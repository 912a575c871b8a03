"""Batches made in advance: how many, in which order, and what becomes of the thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from heliostat.data.iterate.prefetch import VIEWS_MAX, Room, ahead


def names() -> list[str]:
    return [t.name for t in threading.enumerate()]


@pytest.mark.contract("F10.18", "F10.19")
@pytest.mark.parametrize("is_view", [True, False])
@pytest.mark.parametrize("depth", [1, 3, 100])
def test_order_and_end(is_view: bool, depth: int) -> None:
    room = Room(depth)

    def make() -> Iterator[tuple[int, bool]]:
        for block in range(20):
            for i in range(17):
                yield block * 17 + i, is_view
            room.wait()

    assert list(ahead(make(), room)) == list(range(340))
    assert "heliostat-data-prefetch" not in names()


@pytest.mark.contract("F10.18")
@pytest.mark.parametrize(("is_view", "most"), [(False, 3), (True, VIEWS_MAX)])
def test_no_more_is_made_than_there_is_room_for(is_view: bool, most: int) -> None:
    full = threading.Event()
    made = 0

    def make() -> Iterator[tuple[int, bool]]:
        nonlocal made
        while True:
            made += 1
            if made == most + 1:  # one in hand, for which there is no room
                full.set()
            yield made, is_view

    items = ahead(make(), Room(3))
    assert next(items) == 1
    assert full.wait(30)
    assert made <= most + 2
    items.close()  # type: ignore[attr-defined] # a generator
    assert "heliostat-data-prefetch" not in names()


@pytest.mark.contract("F10.18")
def test_a_block_is_asked_for_when_few_batches_are_left() -> None:
    room = Room(1)
    asked: list[int] = []
    second = threading.Event()

    def make() -> Iterator[tuple[int, bool]]:
        for block in range(3):
            asked.append(block)
            if block == 1:
                second.set()
            for i in range(10):
                yield i, True
            room.wait()

    items = ahead(make(), room)
    for _ in range(8):
        next(items)
    assert asked == [0]
    next(items)
    assert second.wait(30)
    items.close()  # type: ignore[attr-defined] # a generator


@pytest.mark.contract("F10.19")
def test_errors_come_after_what_was_made() -> None:
    def make() -> Iterator[tuple[Any, bool]]:
        yield 1, True
        yield 2, False
        raise KeyError("no more")

    items = ahead(make(), Room(1))
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(KeyError, match="no more"):
        next(items)
