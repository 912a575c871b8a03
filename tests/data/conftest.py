"""What the data tests share: no progress lines, and the module under test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import clients

pytest.importorskip("pyarrow", reason="the data library needs pyarrow")


@pytest.fixture
def rd(ray_start: Any) -> Any:
    """``ray.data`` with a running cluster and without progress."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


@pytest.fixture
def service() -> Iterator[Any]:
    """What the stand-ins for clients of databases and services keep, see tests/clients."""
    with clients.found() as state:
        yield state
