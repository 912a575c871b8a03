"""A program that has ended its session: nothing of Serve's begins another one behind its back."""

from __future__ import annotations

import pytest
import ray
from ray import serve
from ray.serve.exceptions import RayServeException

pytestmark = [
    pytest.mark.contract("F12.02"),
    pytest.mark.heliostat_only("it looks at the router of a handle"),
]


def test_no_session_begins_by_itself_after_shutdown() -> None:
    from heliostat.serve import router

    @serve.deployment
    def same(x: int) -> int:
        return x

    ray.init(num_cpus=1, address="local")
    handle = serve.run(same.bind(), name="ended", route_prefix=None)
    assert handle.remote(1).result(timeout_s=60) == 1
    own = router.router_of(handle.deployment_id)
    serve.shutdown()
    ray.shutdown()
    # As a thread of the router that looked at the session just before it ended.
    own.epoch, own.told = router.serving.session_epoch(), -1
    own._listen()
    own._count()
    own.epoch = -1
    assert not ray.is_initialized()
    with pytest.raises(RayServeException, match="Run the application again"):
        handle.remote(1)
    assert not ray.is_initialized()
