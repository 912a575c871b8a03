"""Rows for clusters: four nodes on this machine, or eight, with four CPUs each; see README.md.

They start as `ray.cluster_utils.Cluster` starts them, in both packages. The last rows are those of Ray's
scalability envelope that a small machine can run.
"""

import collections
import time

import core
from core import Row, Server, batch, clients, now, ones, remote, sync, task

NODES = 4
MANY = 8
CPUS = 4
FLEET = 50
TASKS_EACH = 2000
STORE = 200 << 20

core.ROWS.clear()


def init(nodes=NODES):
    """As `core.init`, for a cluster."""
    began = now()
    import ray
    from ray.cluster_utils import Cluster

    core.ray = ray
    imported, began = now() - began, now()
    # The head's arguments go to it; nothing else differs between the nodes.
    node = dict(num_cpus=CPUS, object_store_memory=STORE)
    cluster = Cluster(initialize_head=True, head_node_args={**node, "resources": {"at0": 1000}})
    for index in range(1, nodes):
        cluster.add_node(**node, resources={f"at{index}": 1000})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return imported, now() - began


core.init = init


# ---- what runs remotely ----
def here():
    import ray

    return ray.get_runtime_context().get_node_id()


def follow(array):
    return here()


def one_each(mb, nodes=NODES):
    """For each node its id, and an object that lies there."""
    at = {name: node["NodeID"] for node in core.ray.nodes() for name in node["Resources"]}
    names = [f"at{index}" for index in range(nodes)]
    make = remote(lambda: ones(mb), num_cpus=0)
    there = [make.options(resources={name: 1}).remote() for name in names]
    core.ray.wait(there, num_returns=nodes, fetch_local=False)
    return [(at[name], ref) for name, ref in zip(names, there, strict=True)]


# ---- shapes ----
def spread(**options):
    return task(scheduling_strategy="SPREAD", **options)


def with_arguments(count):
    """Tasks with a large argument each, which lies on one of the nodes."""
    start = task(follow)
    there = one_each(1)
    return lambda: core.ray.get([start(there[i % NODES][1]) for i in range(count)])


def moved(at_once):
    """How many of 64 tasks run away from their argument while workers of their kind are leased."""
    start, there = task(follow), one_each(1, MANY)
    core.ray.get(start(None))
    wanted = [there[i % MANY] for i in range(64)]
    if at_once:
        found = core.ray.get([start(ref) for _, ref in wanted])
    else:
        found = [core.ray.get(start(ref)) for _, ref in wanted]
    return sum(node != is_at for node, (is_at, _) in zip(found, wanted, strict=True))


def figures(*shapes):
    """Figures of one process, taken once."""
    core.init(MANY)
    return tuple(shape() for shape in shapes)


def groups(count):
    from ray.util.placement_group import placement_group, remove_placement_group

    def fn():
        made = [placement_group([{"CPU": 0.01}] * NODES, "SPREAD") for _ in range(count)]
        assert all([group.wait(timeout_seconds=30) for group in made])
        for group in made:
            remove_placement_group(group)

    return fn


def actors(count):
    def fn():
        made = [remote(Server, num_cpus=0.01).remote() for _ in range(count)]
        core.ray.get([one.small.remote() for one in made])
        for one in made:
            core.ray.kill(one)

    return fn


def broadcast(mb):
    """One object, read on every node."""
    tell = [remote(lambda array: array[-1], num_cpus=0, resources={f"at{i}": 1}) for i in range(4)]

    def fn():
        ref = core.ray.put(ones(mb))
        core.ray.get([one.remote(ref) for one in tell])

    return fn


def arguments(count):
    """One task with so many references as arguments."""
    tell = remote(lambda *values: len(values))

    def fn():
        assert core.ray.get(tell.remote(*[core.ray.put(i) for i in range(count)])) == count

    return fn


def fleet():
    """Many nodes with a CPU each: how quickly they come, their rate, how even they are."""
    began = now()
    import ray
    from ray.cluster_utils import Cluster

    core.ray = ray
    node = dict(num_cpus=1, object_store_memory=80 << 20)
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(FLEET - 1):
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    started = now() - began
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")

    def work():
        time.sleep(0.01)
        return here()

    start = task(work)
    ray.get([start() for _ in range(4 * FLEET)])
    began = now()
    counts = collections.Counter(ray.get([start() for _ in range(TASKS_EACH * FLEET)]))
    rate = TASKS_EACH * FLEET / (now() - began)
    return FLEET / started, rate, max(abs(counts[at] / TASKS_EACH - 1) for at in counts) * 100


Row("nodes", "tasks sync on 4 nodes", 1, lambda: sync(task()))
Row("nodes", "tasks async on 4 nodes", 1000, lambda: batch(task()))
Row("nodes", "spread sync on 4 nodes", 1, lambda: sync(spread()))
Row("nodes", "spread async on 4 nodes", 1000, lambda: batch(spread()))
Row("nodes", "spread from 4 clients on 4 nodes", 1000, lambda: clients(4, batch(spread(), n=250)))
Row("nodes", "1 MB argument each on 4 nodes", 64, lambda: with_arguments(64))
Row("envelope", "queued 10k drain on 4 nodes", 10_000, lambda: batch(task(), n=10_000))
Row("envelope", "actors made and killed on 4 nodes", 16, lambda: actors(16))
Row("envelope", "groups of 4 spread bundles", 20, lambda: groups(20))
Row("envelope", "broadcast 50 MB to 4 nodes", 1, lambda: broadcast(50))
Row("envelope", "a task with 10k arguments on 4 nodes", 1, lambda: arguments(10_000))
Row(
    "million",
    "queued 1M submit on 4 nodes, queued 1M drain on 4 nodes",
    None,
    lambda: core.drain(1_000_000),
)
Row(
    "fleet",
    "50 nodes started, 10 ms tasks on 50 nodes, farthest of 50 nodes from the mean|%",
    None,
    fleet,
)
Row(
    "followed",
    "of 64 tasks in sequence on 8 nodes away from their argument|count, "
    "of 64 tasks at once on 8 nodes away from theirs|count",
    None,
    lambda: figures(lambda: moved(False), lambda: moved(True)),
)

# These take their figures in a process of their own.
core.BUDGET = 180  # four nodes of Ray's take a while to start
core.OWN_INIT = (*core.OWN_INIT, "followed", "fleet")
core.FRESH = (*core.FRESH, "followed", "million", "fleet")

if __name__ == "__main__":
    core.start()
