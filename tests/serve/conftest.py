"""Serve on a port of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ray import serve

from tests.helpers.harness import free_port
from tests.helpers.serving import Client


@pytest.fixture
def web(ray_start: Any) -> Iterator[Client]:
    """Serve runs, without applications; it ends with the test."""
    port = free_port()
    serve.start(http_options={"port": port})
    yield Client(port)
    serve.shutdown()
