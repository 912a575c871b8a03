"""The thread that settles futures: a session that ends under its hands stays ended."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import ray

pytestmark = [
    pytest.mark.contract("F0.08"),
    pytest.mark.heliostat_only("it looks at the thread that settles futures"),
]


def test_it_begins_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from heliostat.core import session
    from heliostat.core.aio import futures

    ray.init(num_cpus=1, address="local")
    ref = ray.remote(time.sleep).remote(1000)
    own = futures.waiters()
    own.add(ref, lambda *_: None)

    def ends() -> list[bytes]:
        with session.begins_none():  # as what it calls back does
            pass
        ray.shutdown()
        return [ref.binary()]

    monkeypatch.setattr(futures._heliostat, "take_ready", ends)
    told: list[Any] = []
    monkeypatch.setattr(futures._heliostat, "clear_notification", lambda: told.append(1))
    os.write(own.fd, (1).to_bytes(8, "little"))
    own._run()
    assert told
    assert not ray.is_initialized()
