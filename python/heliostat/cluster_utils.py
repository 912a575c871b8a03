"""Several nodes on one machine, for tests."""

from __future__ import annotations

import atexit
import time
from pathlib import Path
from typing import Any

import heliostat
from heliostat.autoscaler.local import HEAD_TYPE, LocalCluster
from heliostat.core.driver import daemon, ray_config
from heliostat.core.driver.daemon import Daemon, NodeOptions
from heliostat.core.driver.init import check_node_options, store_bytes
from heliostat.core.platform import auth, settings
from heliostat.core.platform.labels import check_labels, override_labels

OBJECT_STORE_BYTES = 150 << 20
GRACE_S = 10.0

# Arguments of a node that mean something; the others are accepted for those who pass them along.
_KNOWN = (
    "num_cpus",
    "num_gpus",
    "memory",
    "object_store_memory",
    "resources",
    "labels",
    "port",
    "node_ip_address",
    "node_name",
    "temp_dir",
    "env_vars",
    "_system_config",
    "object_spilling_directory",
)
_IGNORED = (
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "redis_password",
    "enable_object_reconstruction",
    "ray_client_server_port",
    "min_worker_port",
    "max_worker_port",
    "node_manager_port",
    "object_manager_port",
    "raylet_name",
)


class ClusterNode:
    """A node that a :class:`Cluster` has started.

    Examples:
        >>> from ray.cluster_utils import Cluster
        >>> cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        >>> node = cluster.add_node(num_cpus=1)
        >>> node.is_alive()
        True
        >>> cluster.remove_node(node)
        >>> node.is_alive()
        False
        >>> cluster.shutdown()
    """

    def __init__(self, started: Daemon) -> None:
        self._daemon = started
        self.node_id: str = started.address.node_id
        self.unique_id = self.node_id
        self.node_ip_address = started.address.host
        self.address_info = daemon.described(started.address)
        self.head = started.address.is_head

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self._daemon.process.pid

    def is_alive(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon.is_alive()

    def get_session_dir_path(self) -> str:
        """The folder with its logs."""
        return self._daemon.address.session_dir

    def __repr__(self) -> str:
        return f"ClusterNode({self.node_id}, pid={self.pid})"


class Cluster:
    """Starts and stops nodes on this machine, each with daemon, ports and store of its own. For tests.

    Args:
        initialize_head: Start a head at once. Default False.
        connect: Make this process a driver of it, too. Default False.
        head_node_args: Arguments of ``add_node`` for the head.
        shutdown_at_exit: Stop the nodes when this process ends. Default True.

    Raises:
        RuntimeError: ``connect`` without ``initialize_head``.

    Examples:
        >>> from ray.cluster_utils import Cluster
        >>> cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        >>> node = cluster.add_node(num_cpus=2, resources={"disk": 1})
        >>> len(cluster.list_all_nodes())
        2
        >>> cluster.shutdown()

        ``ray.init(address=cluster.address)`` makes this process a driver of it.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        if connect and not initialize_head:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        self.head_node: ClusterNode | None = None
        self.worker_nodes: set[ClusterNode] = set()
        self.connected = False
        self._shutdown_at_exit = shutdown_at_exit
        self._config: dict[str, Any] = {}
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def address(self) -> str:
        """The control service, as ``host:port``."""
        if self.head_node is None:
            raise RuntimeError("The cluster has no head node yet.")
        return str(self.head_node.address_info["address"])

    @property
    def gcs_address(self) -> str | None:
        """The control service, as ``host:port``; ``None`` without a head."""
        return None if self.head_node is None else self.address

    def connect(self, namespace: str | None = None) -> None:
        """Make this process a driver of the cluster.

        Args:
            namespace: Where named actors are looked up. ``None``: one of this job alone.
        """
        heliostat.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Start a node: the first is the head.

        Args:
            wait: Return when it is in the cluster. Default True.
            **node_args: As of ``ray.init``: ``num_cpus``, ``num_gpus``, ``memory`` and
                ``object_store_memory`` (bytes), ``resources``, ``labels``, ``env_vars``, ...

        Returns:
            The node.

        Raises:
            TypeError: An argument is unknown.
        """
        unknown = node_args.keys() - {*_KNOWN, *_IGNORED}
        if unknown:
            raise TypeError(f"unknown arguments of a node: {sorted(unknown)}")
        started = daemon.start(self._options(node_args), auth.token(create=True))
        node = ClusterNode(started)
        if self.head_node is None:
            self.head_node = node
            if self._shutdown_at_exit:
                atexit.register(self.shutdown)
        else:
            self.worker_nodes.add(node)
        if wait:
            self.wait_for_nodes()
        return node

    def _options(self, args: dict[str, Any]) -> NodeOptions:
        head = self.head_node is None
        if head:
            self._config = ray_config.check(args.get("_system_config"))
        config, spill = self._config, args.get("object_spilling_directory")
        options = NodeOptions(
            head=head,
            address=None if head else self.address,
            num_cpus=args.get("num_cpus", 1),
            num_gpus=args.get("num_gpus", 0),
            memory=args.get("memory"),
            object_store_memory=store_bytes(args.get("object_store_memory", OBJECT_STORE_BYTES)),
            resources=args.get("resources") or {},
            labels=check_labels(args.get("labels")) | override_labels(),
            port=args.get("port", 0) if head else None,
            node_ip_address=args.get("node_ip_address"),
            node_name=args.get("node_name"),
            temp_dir=settings.temp_dir(args.get("temp_dir")),
            spill_dir=Path(spill).absolute() if spill else ray_config.spilling_folder(config),
            env=ray_config.environment(config) | (args.get("env_vars") or {}),
        )
        check_node_options(options)
        return options

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """Stop a node.

        Args:
            node: What ``add_node`` returned.
            allow_graceful: It says goodbye to the cluster. False: its process is killed. Default True.

        Raises:
            ValueError: The node is not of this cluster, or is the head while others run.
        """
        if node is self.head_node:
            if self.worker_nodes:
                raise ValueError("Removing the head node before the others ends the whole cluster.")
            self.head_node = None
        elif node in self.worker_nodes:
            self.worker_nodes.remove(node)
        else:
            raise ValueError(f"{node!r} is not a node of this cluster")
        if allow_graceful:
            node._daemon.stop(GRACE_S)
        else:
            node._daemon.kill()

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until the cluster knows exactly the nodes that were started.

        Args:
            timeout: Seconds. Default 30.

        Raises:
            RuntimeError: A node has ended by itself.
            TimeoutError: The cluster did not know them in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            # Each time: other threads may add nodes and remove some.
            nodes = self.list_all_nodes()
            wanted = {node.node_id for node in nodes}
            dead = [node for node in nodes if not node.is_alive() and node in self.list_all_nodes()]
            if dead:
                raise RuntimeError(f"ended by itself: {dead[0]!r}, see {dead[0]._daemon.log}")
            if not self._is_ours():
                return  # a daemon says that it is ready when the control service has accepted it
            alive = {node["NodeID"] for node in heliostat.nodes() if node["Alive"]}
            if alive == wanted:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Timed out while waiting for nodes to join: wanted {sorted(wanted)}, "
                    f"the cluster has {sorted(alive)}."
                )
            time.sleep(0.02)

    def _is_ours(self) -> bool:
        """Whether this process is a driver of this cluster."""
        if not heliostat.is_initialized() or self.head_node is None:
            return False
        return heliostat.get_runtime_context().gcs_address == self.address

    def list_all_nodes(self) -> list[ClusterNode]:
        """The nodes, the head first."""
        head = [] if self.head_node is None else [self.head_node]
        return [*head, *self.worker_nodes]

    def remaining_processes_alive(self) -> bool:
        """Whether every daemon still runs."""
        return all(node.is_alive() for node in self.list_all_nodes())

    def shutdown(self) -> None:
        """End every node."""
        if self._is_ours():
            heliostat.shutdown()
        self.connected = False
        for node in [*self.worker_nodes, *([self.head_node] if self.head_node else [])]:
            self.remove_node(node)
        atexit.unregister(self.shutdown)


class AutoscalingCluster:
    """A cluster on this machine that grows by itself, for tests.

    Args:
        head_resources: Those of the head: amounts by name.
        worker_node_types: The kinds of nodes that may be added: ``{name: {"resources": {...},
            "min_workers": 0, "max_workers": 2, "labels": {...}}}``.
        autoscaler_v2: Has no effect.
        **config_kwargs: ``idle_timeout_minutes`` (default 5) and ``max_workers`` (default 8, of all
            kinds together).

    Examples:
        >>> from ray.cluster_utils import AutoscalingCluster
        >>> cluster = AutoscalingCluster(
        ...     head_resources={"CPU": 1},
        ...     worker_node_types={"cpu": {"resources": {"CPU": 4}, "max_workers": 2}},
        ...     idle_timeout_minutes=1,
        ... )
        >>> def test(work):
        ...     cluster.start()  # then ray.init(address="auto")
        ...     try:
        ...         work()
        ...     finally:
        ...         cluster.shutdown()
    """

    def __init__(
        self,
        head_resources: dict[str, Any],
        worker_node_types: dict[str, Any],
        autoscaler_v2: bool = False,
        **config_kwargs: Any,
    ) -> None:
        types = {name: dict(row) for name, row in worker_node_types.items()}
        types[HEAD_TYPE] = {"resources": dict(head_resources), "max_workers": 0}
        self._cluster = LocalCluster({"available_node_types": types, **config_kwargs})

    def start(
        self,
        _system_config: dict[str, Any] | None = None,
        override_env: dict[str, str] | None = None,
    ) -> None:
        """Start it: ``ray.init("auto")`` connects to it then.

        Args:
            override_env: Environment variables for its daemons and what these start.
        """
        self._cluster.start(_system_config, override_env or {})
        atexit.register(self.shutdown)

    def shutdown(self) -> None:
        """End every node."""
        self._cluster.stop()
        atexit.unregister(self.shutdown)


__all__ = ["AutoscalingCluster", "Cluster", "ClusterNode"]
