"""Named and detached actors, and the options that name them."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from tests.helpers.actors import Counter
from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


@pytest.mark.contract("F2.16")
def test_named_actors() -> None:
    counter = Counter.options(name="named").remote(4)
    again = ray.get_actor("named")
    assert ray.get(again.get.remote()) == 4
    with pytest.raises(ValueError, match="named") as caught:
        Counter.options(name="named").remote()
    assert isinstance(caught.value, ray.exceptions.ActorAlreadyExistsError)
    same = Counter.options(name="named", get_if_exists=True).remote(100)
    assert ray.get(same.get.remote()) == 4
    assert same == counter
    ray.kill(counter)
    wait_until(lambda: _absent("named"), what="the name is free")


def _absent(name: str, namespace: str | None = None) -> bool:
    try:
        ray.get_actor(name, namespace=namespace)
    except ValueError:
        return True
    return False


@pytest.mark.contract("F2.16")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": 5}, TypeError),
        ({"get_if_exists": True}, ValueError),
        ({"lifetime": "for ever"}, ValueError),
        ({"max_restarts": -2}, ValueError),
        ({"max_task_retries": -2}, ValueError),
        ({"no_such_option": 1}, ValueError),
        ({"max_retries": 1}, ValueError),
    ],
    ids=str,
)
def test_wrong_actor_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Counter.options(**options).remote()


@pytest.mark.contract("F2.16", "F0.13")
def test_names_belong_to_a_namespace() -> None:
    counter = Counter.options(name="apart", namespace="elsewhere").remote(8)
    assert ray.get(counter.get.remote()) == 8
    assert _absent("apart")
    assert ray.get(ray.get_actor("apart", namespace="elsewhere").get.remote()) == 8


@pytest.mark.contract("F2.16")
def test_get_actor_of_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")
    with pytest.raises(ValueError):
        ray.get_actor("")


@pytest.mark.contract("F2.17", "F2.27")
def test_a_detached_actor_needs_no_handle() -> None:
    counter = Counter.options(name="stays", lifetime="detached").remote()
    pid = ray.get(counter.pid.remote())
    del counter
    assert "stays" in ray.util.list_named_actors()
    assert ray.get(ray.get_actor("stays").pid.remote()) == pid
    ray.kill(ray.get_actor("stays"))
    wait_until(lambda: "stays" not in ray.util.list_named_actors(), what="the name is gone")
