"""A head of its own, with its HTTP server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import web
from web import Head


@pytest.fixture
def head() -> Iterator[Head]:
    head = web.new()
    head.start()
    yield head
    web.end(head)
