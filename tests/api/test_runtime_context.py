"""What a driver, a task and an actor can ask about themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import wait_until
from tests.helpers.samples import context_ids

pytestmark = pytest.mark.usefixtures("ray_start")

CLUSTER = {"num_cpus": 4, "resources": {"Special": 3}}


def is_hex(text: Any, length: int) -> bool:
    return isinstance(text, str) and len(text) == length and int(text, 16) >= 0


@pytest.mark.contract("F4.04", "F4.08")
def test_ids_on_the_driver() -> None:
    context = ray.get_runtime_context()
    assert is_hex(context.get_job_id(), 8)
    assert is_hex(context.get_node_id(), 56)
    assert is_hex(context.get_worker_id(), 56)
    assert context.get_task_id() is None
    assert context.get_actor_id() is None
    assert context.get_placement_group_id() is None


@pytest.mark.contract("F4.04", "F4.08")
def test_ids_in_a_task() -> None:
    @ray.remote
    def here() -> dict[str, str | None]:
        return context_ids()

    ref = here.remote()
    found = ray.get(ref)
    driver = ray.get_runtime_context()
    assert found["job_id"] == driver.get_job_id()
    assert found["node_id"] == driver.get_node_id()
    assert is_hex(found["worker_id"], 56)
    assert found["worker_id"] != driver.get_worker_id()
    assert found["task_id"] == ref.task_id().hex()
    assert found["actor_id"] is None
    assert found["placement_group_id"] is None


@pytest.mark.contract("F4.04", "F4.08")
def test_ids_in_an_actor() -> None:
    @ray.remote
    class Me:
        def __init__(self) -> None:
            self.at_start = ray.get_runtime_context().get_actor_id()

        def here(self) -> tuple[str, dict[str, str | None], str]:
            context = ray.get_runtime_context()
            return self.at_start, context_ids(), context.get_actor_name()

    me = Me.options(name="me").remote()
    at_start, found, name = ray.get(me.here.remote())
    assert found["actor_id"] == at_start == me._actor_id.hex()
    assert is_hex(found["task_id"], 48)
    assert name == "me"


@pytest.mark.contract("F4.08")
def test_current_actor_is_only_for_actors() -> None:
    with pytest.raises(RuntimeError):
        _ = ray.get_runtime_context().current_actor


@pytest.mark.contract("F4.08")
def test_assigned_resources() -> None:
    @ray.remote
    def mine() -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    assert ray.get(mine.remote()) == {"CPU": 1.0}
    assert ray.get(mine.options(num_cpus=2, resources={"Special": 0.5}).remote()) == {
        "CPU": 2.0,
        "Special": 0.5,
    }
    assert ray.get(mine.options(num_cpus=0).remote()) == {}


@pytest.mark.contract("F4.08")
def test_was_current_actor_reconstructed() -> None:
    @ray.remote(max_restarts=1, max_task_retries=-1)
    class Phoenix:
        def again(self) -> bool:
            return bool(ray.get_runtime_context().was_current_actor_reconstructed)

        def pid(self) -> int:
            return os.getpid()

    phoenix = Phoenix.remote()
    assert ray.get(phoenix.again.remote()) is False
    ray.kill(phoenix, no_restart=False)
    wait_until(lambda: ray.get(phoenix.again.remote()) is True, what="the restarted actor knows")


@pytest.mark.contract("F4.08")
def test_session_namespace_and_address(ray_start: Any) -> None:
    context = ray.get_runtime_context()
    assert isinstance(context.namespace, str)
    assert context.namespace
    assert context.gcs_address == ray_start.address_info["address"]
    session_dir = ray_start.address_info["session_dir"]
    assert session_dir.endswith(context.get_session_name())
    assert session_dir.startswith(context.get_temp_dir())

    @ray.remote
    def there() -> tuple[str, str]:
        inner = ray.get_runtime_context()
        return inner.namespace, inner.gcs_address

    assert ray.get(there.remote()) == (context.namespace, context.gcs_address)


@pytest.mark.contract("F4.18", "F4.01")
def test_nodes_and_resources(ray_start: Any) -> None:
    (node,) = ray.nodes()
    assert node["Alive"] is True
    assert node["NodeID"] == ray_start.address_info["node_id"]
    assert node["NodeManagerAddress"] == ray.util.get_node_ip_address()
    assert node["Resources"]["CPU"] == 4.0
    total = ray.cluster_resources()
    assert total["CPU"] == 4.0
    assert total["Special"] == 3.0
    assert total[f"node:{node['NodeManagerAddress']}"] == 1.0
    assert total["memory"] > 0
    assert total["object_store_memory"] > 0
    assert "GPU" not in total or total["GPU"] >= 0


@pytest.mark.contract("F4.18", "F4.09")
def test_available_resources_follow_what_runs() -> None:
    @ray.remote(num_cpus=0, resources={"Special": 2})
    class Holder:
        def ready(self) -> bool:
            return True

    holder = Holder.remote()
    assert ray.get(holder.ready.remote())
    wait_until(lambda: ray.available_resources().get("Special") == 1.0, what="two of three taken")
    del holder
    wait_until(lambda: ray.available_resources().get("Special") == 3.0, what="given back")


@pytest.mark.contract("F4.09")
def test_fractions_add_up_exactly() -> None:
    @ray.remote(num_cpus=0.1, resources={"Special": 0.3})
    def fraction() -> int:
        return 1

    assert sum(ray.get([fraction.remote() for _ in range(40)])) == 40
    wait_until(lambda: ray.available_resources().get("Special") == 3.0, what="nothing lost")
    wait_until(lambda: ray.available_resources().get("CPU") == 4.0, what="nothing lost")


@pytest.mark.contract("F4.05")
def test_node_ip_address_is_the_same_everywhere() -> None:
    @ray.remote
    def there() -> str:
        return str(ray.util.get_node_ip_address())

    address = ray.util.get_node_ip_address()
    assert len(address.split(".")) == 4 or ":" in address
    assert ray.get(there.remote()) == address


@pytest.mark.contract("F4.02", "F4.03")
def test_no_gpu_ids_without_gpus() -> None:
    @ray.remote
    def mine() -> Any:
        return ray.get_gpu_ids(), ray.get_runtime_context().get_accelerator_ids().get("GPU")

    assert ray.get(mine.remote()) == ([], [])


@ray.remote
class Named:
    def __init__(self) -> None:
        self.at_start = names()

    def see(self) -> Any:
        return self.at_start, names()


def names() -> tuple[str | None, str | None]:
    context = ray.get_runtime_context()
    return context.get_task_name(), context.get_task_function_name()


@pytest.mark.contract("F4.08")
def test_names_in_an_actor() -> None:
    start, method = f"{__name__}.Named.__init__", f"{__name__}.Named.see"
    actor = Named.remote()
    assert ray.get(actor.see.remote()) == (("Named.__init__", start), ("Named.see", method))
    assert ray.get(actor.see.options(name="mine").remote())[1] == ("mine", method)
    known = Named.options(name="known").remote()
    assert ray.get(known.see.remote())[0] == ("known:Named.__init__", start)


@pytest.mark.contract("F4.08")
def test_names_in_a_script_have_its_name(run_driver: Any, tmp_path: Path) -> None:
    script = tmp_path / "my_script.py"
    script.write_text(
        """
import ray
ray.init("local", num_cpus=2, include_dashboard=False)
def see():
    return ray.get_runtime_context().get_task_function_name()
class Base:
    def see(self):
        return see()
@ray.remote
class Actor(Base):
    pass
@ray.remote
def inside():
    return [ray.get(ray.remote(see).remote()), ray.get(Actor.remote().see.remote())]
print("task=" + ray.get(ray.remote(see).remote()))
print("actor=" + ray.get(Actor.remote().see.remote()))
print("inside=" + " ".join(ray.get(inside.remote())))
"""
    )
    done = run_driver(script).check()
    assert done.value("task") == "my_script.see"
    assert done.value("actor") == "my_script.Actor.see"
    assert done.value("inside") == "my_script.see my_script.Actor.see"
