"""Heads with a dashboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers import web


@pytest.fixture(scope="module")
def head() -> Iterator[web.Head]:
    """One that the tests of a module share."""
    head = web.new()
    head.start()
    yield head
    web.end(head)


@pytest.fixture
def own_head() -> Iterator[web.Head]:
    """One of the test's own, which it starts."""
    head = web.new()
    yield head
    web.end(head)
