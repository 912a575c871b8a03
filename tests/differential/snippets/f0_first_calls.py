"""F0.09: every public call as the first one of a program: does it begin a session, does it work?"""

from __future__ import annotations

from typing import Any

from kit import driver, snippet

# Each runs in a process of its own.
CALLS = {
    "put": "ray.put(1)",
    "get": "ray.get([])",
    "get wrong": "ray.get(3)",
    "wait": "ray.wait([])",
    "kill": "ray.kill(3)",
    "cancel": "ray.cancel(3)",
    "get_actor": "ray.get_actor('x')",
    "get_gpu_ids": "ray.get_gpu_ids()",
    "remote function": "ray.remote(lambda: 1).remote()",
    "actor": "ray.remote(type('A', (), {})).remote()",
    "actor, got or made": "ray.remote(type('A', (), {})).options(name='n', get_if_exists=True).remote()",
    "decorated only": "ray.remote(type('A', (), {})).options(num_cpus=1)",
    "nodes": "ray.nodes()",
    "timeline": "ray.timeline()",
    "cluster_resources": "ray.cluster_resources()",
    "available_resources": "ray.available_resources()",
    "is_initialized": "ray.is_initialized()",
    "shutdown": "ray.shutdown()",
    "method": "ray.method(num_returns=1)",
    "context": "ray.get_runtime_context()",
    "context.job": "ray.get_runtime_context().get_job_id()",
    "exit_actor": "ray.actor.exit_actor()",
    "java_function": "ray.java_function('a', 'b')",
    "placement_group": "from ray.util.placement_group import placement_group; placement_group([{'CPU': 1}])",
    "placement_group, short": "ray.util.placement_group([{'CPU': 1}])",
    "placement_group wrong": "ray.util.placement_group([])",
    "placement_group_table": "ray.util.placement_group_table()",
    "placement_group_table of one": "from ray.util.placement_group import PlacementGroup; ray.util.placement_group_table(PlacementGroup.empty())",
    "get_placement_group": "ray.util.get_placement_group('none')",
    "remove_placement_group": "from ray.util.placement_group import PlacementGroup; ray.util.remove_placement_group(PlacementGroup.empty())",
    "get_current_placement_group": "ray.util.get_current_placement_group()",
    "list_named_actors": "ray.util.list_named_actors()",
    "list_named_actors of all": "ray.util.list_named_actors(all_namespaces=True)",
    "get_node_ip_address": "ray.util.get_node_ip_address()",
    "get_node_instance_id": "ray.util.get_node_instance_id()",
    "log_once": "ray.util.log_once('x')",
    "inspect_serializability": "ray.util.inspect_serializability(1)",
    "register_serializer": "ray.util.register_serializer(int, serializer=str, deserializer=int)",
    "deregister_serializer": "ray.util.deregister_serializer(dict)",
    "as_completed": "list(ray.util.as_completed([]))",
    "map_unordered": "list(ray.util.map_unordered(ray.remote(lambda x: x), [1]))",
    "ActorPool": "ray.util.ActorPool([])",
    "Queue": "from ray.util.queue import Queue; Queue()",
    "Pool": "from ray.util.multiprocessing import Pool; Pool(1)",
    "Counter": "from ray.util.metrics import Counter; Counter('a').inc()",
    "kv_get": "from ray.experimental.internal_kv import _internal_kv_get; _internal_kv_get(b'a')",
    "kv_put": "from ray.experimental.internal_kv import _internal_kv_put; _internal_kv_put(b'a', b'b')",
    "kv_initialized": "from ray.experimental.internal_kv import _internal_kv_initialized; _internal_kv_initialized()",
    "node affinity": "from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as S; S('a' * 56, soft=True)",
    "strategy of a group": "from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as S; S(None)",
    "bind": "ray.remote(lambda: 1).bind()",
    "execute": "ray.remote(lambda: 1).bind().execute()",
    "RuntimeEnv": "from ray.runtime_env import RuntimeEnv; RuntimeEnv(env_vars={'A': 'b'})",
    "ids": "ray.ObjectRef.from_random(); ray.ActorID.nil()",
    "from_binary": "ray.ObjectRef(b'a' * 28)",
    "cloudpickle": "ray.cloudpickle.dumps(1)",
    "accelerators": "ray.util.accelerators.NVIDIA_TESLA_V100",
    "data.range": "import ray.data; ray.data.range(3)",
    "data.take": "import ray.data; ray.data.range(3).take(1)",
    "data.context": "import ray.data; ray.data.DataContext.get_current()",
    "data.from_items": "import ray.data; ray.data.from_items([1])",
    "train.get_context": "import ray.train; ray.train.get_context().get_world_size()",
    "train.report": "import ray.train; ray.train.report({})",
    "train.get_checkpoint": "import ray.train; ray.train.get_checkpoint()",
    "client": "ray.client()",
    "ActorPool of actors": "ray.util.ActorPool([ray.remote(type('A', (), {})).remote()]).has_next()",
}

SOURCE = """
import os, signal, sys, ray
CALLS = {calls!r}
os.environ["RAY_ADDRESS"] = {address}
for name, call in CALLS.items():
    read, write = os.pipe()
    child = os.fork()  # nothing but the import has happened: as good as a new process
    if not child:
        os.close(read)
        signal.alarm(60)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        try:
            exec(call)
            result = "fine"
        except BaseException as error:
            result = type(error).__name__
        os.write(write, (result + " " + str(ray.is_initialized())).encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        print(">", name + ":", pipe.read(), flush=True)
    os.waitpid(child, 0)
"""


@snippet("F0.09", cluster=None, limit_s=600)
def first_calls() -> Any:
    found = driver(
        f"""
        import os, subprocess, sys, ray
        context = ray.init("local", num_cpus=4, include_dashboard=False)
        address = context.address_info["address"]
        open("calls.py", "w").write({SOURCE!r}.format(calls={CALLS!r}, address=repr(address)))
        subprocess.run([sys.executable, "calls.py"])
        """,
        timeout=580,
    )
    return dict(line.split(": ", 1) for line in found["printed"])
