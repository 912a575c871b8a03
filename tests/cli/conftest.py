"""A head of its own, with its HTTP server; stores of the cluster's state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers import stores, web
from tests.helpers.shared import cluster as shared
from tests.helpers.stores import Etcd, Redis
from tests.helpers.web import Head


@pytest.fixture
def head() -> Iterator[Head]:
    head = web.new()
    head.start()
    yield head
    web.end(head)


@pytest.fixture(params=["redis", "etcd"])
def store(request: pytest.FixtureRequest) -> Iterator[Redis]:
    """Each of the two kinds of server that may keep the state."""
    if reason := stores.why_no_redis() if request.param == "redis" else stores.why_no_etcd():
        pytest.skip(reason)
    shared.stop()
    store = Redis() if request.param == "redis" else Etcd()
    yield store
    store.close()
