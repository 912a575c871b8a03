"""How many TCP ports a session has: none on one machine, one a node of a cluster (and its measurements)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.helpers.harness import FINDS_TESTS, all_processes, listening_ports, session_of

pytestmark = [
    pytest.mark.heliostat_only("Ray opens a port for each of its processes"),
    pytest.mark.contract("F6.02"),
]

MIB = 1024 * 1024


@ray.remote
def square(x: Any) -> Any:
    return x * x


@ray.remote
def count_up(n: int) -> Iterator[Any]:
    for i in range(n):
        yield np.full(MIB, i % 256, dtype=np.uint8)


@ray.remote
class Keeper:
    """Keeps a reference of somebody else's, and makes objects of its own."""

    def __init__(self) -> None:
        self.kept: Any = None

    def keep(self, box: list[Any]) -> int:
        self.kept = box[0]
        return int(ray.get(self.kept).sum())

    def again(self) -> int:
        return int(ray.get(self.kept).sum())

    def make(self, fill: int) -> Any:
        return ray.put(np.full(4 * MIB, fill, dtype=np.uint8))


def use_everything(options: dict[str, Any]) -> None:
    """Tasks, streams, actors, borrowed references and large objects, there and back."""
    on = {"num_cpus": 0, **options}
    assert ray.get([square.options(**on).remote(i) for i in range(20)]) == [
        i * i for i in range(20)
    ]
    stream = count_up.options(**on).remote(5)
    assert [int(ray.get(item)[0]) for item in stream] == list(range(5))
    keepers = [Keeper.options(**on).remote() for _ in range(2)]
    ours = ray.put(np.ones(4 * MIB, dtype=np.uint8))
    assert ray.get([keeper.keep.remote([ours]) for keeper in keepers]) == [4 * MIB] * 2
    del ours
    assert ray.get([keeper.again.remote() for keeper in keepers]) == [4 * MIB] * 2
    theirs = ray.get(keepers[0].make.remote(3))
    assert int(ray.get(theirs).sum()) == 12 * MIB
    assert ray.get(keepers[1].keep.remote([theirs])) == 12 * MIB


def node_ports(cluster: Cluster) -> dict[str, set[int]]:
    """The ports on which the processes of each node listen, by the node's id."""
    found = {}
    for node in cluster.list_all_nodes():
        directory = node.get_session_dir_path().encode()
        pids = [pid for pid in all_processes() if directory in environ_and_command(pid)]
        found[node.node_id] = listening_ports([node.pid, *pids])
    return found


def environ_and_command(pid: int) -> bytes:
    text = b""
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                text += file.read()
        except OSError:
            continue
    return text


def test_a_session_of_one_machine_listens_on_no_port(ray_fresh: Any, run_driver: Any) -> None:
    context = ray_fresh(num_cpus=2)
    session = session_of(context)
    use_everything({})
    (node,) = ray.nodes()
    assert node["NodeManagerPort"] == 0
    assert node["MetricsExportPort"] == -1
    other = run_driver(
        """
        import sys, time
        import ray
        from tests.helpers.harness import listening_ports

        ray.init(address=sys.argv[1])
        @ray.remote
        def one():
            return 1
        assert ray.get(one.remote()) == 1
        print(f"address={ray.get_runtime_context().gcs_address}")
        import os
        print(f"ports={listening_ports([os.getpid()])}")
        """,
        args=[context.address_info["address"]],
        env=FINDS_TESTS,
    ).check()
    assert other.value("address") == context.address_info["address"]
    assert other.value("ports") == "set()"
    assert listening_ports([*session.pids(), os.getpid()]) == set()


def test_the_number_of_a_session_is_nobodys_port(ray_fresh: Any) -> None:
    """It names the session as an address does; nobody listens, and nobody else gets it."""
    context = ray_fresh(num_cpus=1)
    host, _, port = context.address_info["address"].rpartition(":")
    with socket.socket() as client:
        assert client.connect_ex((host, int(port))) != 0
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", int(port)))


def test_only_the_ports_that_were_asked_for(ray_fresh: Any) -> None:
    session = session_of(ray_fresh(num_cpus=1, include_dashboard=True, _metrics_export_port=0))
    use_everything({})
    assert len(session.ports()) == 2
    assert ray.nodes()[0]["MetricsExportPort"] in session.ports()


def test_a_node_of_a_cluster_has_one_port(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster({"num_cpus": 2}, {"num_cpus": 2})
    for node in cluster.list_all_nodes():
        strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        use_everything({"scheduling_strategy": strategy})
    open_ports = node_ports(cluster)
    for row in ray.nodes():
        assert open_ports[row["NodeID"]] == {row["NodeManagerPort"], row["MetricsExportPort"]}
    head = cluster.address.rpartition(":")[2]
    assert int(head) in open_ports[cluster.list_all_nodes()[0].node_id]
    assert listening_ports([os.getpid()]) == set()


@ray.remote
class Stopped:
    def pid(self) -> int:
        return os.getpid()


def test_a_process_that_is_killed_before_it_takes_its_connection(
    make_cluster: Callable[..., Cluster],
) -> None:
    """It stands still when a first caller's connection is handed to it, and is killed then: the caller hears
    that the actor died, and waits for nothing."""
    import signal

    from tests.helpers.harness import wait_until

    cluster = make_cluster({"num_cpus": 2, "resources": {"here": 1}}, {"num_cpus": 2})
    here, other = sorted(cluster.worker_nodes, key=lambda n: n.node_id != first_with("here"))
    strategy = NodeAffinitySchedulingStrategy(here.node_id, soft=False)
    actor = Stopped.options(num_cpus=0, scheduling_strategy=strategy).remote()
    pid = ray.get(actor.pid.remote())

    @ray.remote(num_cpus=0)
    def call(actor: Any, started: str) -> str:
        open(started, "w").close()
        try:
            return str(ray.get(actor.pid.remote()))
        except ray.exceptions.RayActorError as error:
            return type(error).__name__

    os.kill(pid, signal.SIGSTOP)
    started = f"/tmp/{here.node_id}.started"
    elsewhere = NodeAffinitySchedulingStrategy(other.node_id, soft=False)
    caller = call.options(scheduling_strategy=elsewhere).remote(actor, started)
    try:
        wait_until(lambda: os.path.exists(started), what="the caller runs")
        wait_until(lambda: connections_to(here, other), what="the caller's connection is made")
        os.kill(pid, signal.SIGKILL)
        assert ray.get(caller, timeout=60) in ("ActorDiedError", "RayActorError")
    finally:
        os.remove(started)


def first_with(resource: str) -> str:
    return str(next(n["NodeID"] for n in ray.nodes() if resource in n["Resources"]))


def connections_to(here: Any, other: Any) -> bool:
    """Whether a process of the other node has a connection that nobody has answered."""
    port = next(n["NodeManagerPort"] for n in ray.nodes() if n["NodeID"] == here.node_id)
    directory = other.get_session_dir_path().encode()
    workers = [pid for pid in all_processes() if directory in environ_and_command(pid)]
    return bool(connected_to(port, [pid for pid in workers if pid != other.pid]))


def connected_to(port: int, pids: list[int]) -> list[str]:
    inodes = set()
    for pid in pids:
        try:
            fds = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for fd in fds:
            try:
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError:
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            for line in file.read().splitlines()[1:]:
                fields = line.split()
                to = int(fields[2].rpartition(":")[2], 16)
                if fields[3] == "01" and to == port and f"socket:[{fields[9]}]" in inodes:
                    found.append(line)
    return found


def test_a_session_in_another_folder_is_found_by_its_number(
    ray_fresh: Any, run_driver: Any, tmp_path: Any
) -> None:
    context = ray_fresh(num_cpus=1, _temp_dir=str(tmp_path / "sessions"))
    done = run_driver(
        """
        import sys
        import ray

        ray.init(address=sys.argv[1])
        print(f"session={ray.get_runtime_context().get_session_name()}")
        """,
        args=[context.address_info["address"]],
    ).check()
    assert context.address_info["session_dir"].endswith(done.value("session"))


def test_the_session_of_another_is_not_joined(ray_fresh: Any, tmp_path: Any) -> None:
    """A session of one machine takes no further machine, and the error says how to have one that does."""
    from heliostat.core.driver import daemon
    from heliostat.core.platform import auth

    context = ray_fresh(num_cpus=1)
    options = daemon.NodeOptions(
        head=False, address=context.address_info["address"], temp_dir=tmp_path
    )
    with pytest.raises(ConnectionError, match="start --head"):
        daemon.start(options, auth.token(create=False))
