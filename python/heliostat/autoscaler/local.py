"""Machines that are daemons on this machine: a cluster that grows, for tests."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from heliostat.autoscaler.head import HttpHead
from heliostat.autoscaler.loop import Autoscaler
from heliostat.autoscaler.model import Failure, Instance, NodeType
from heliostat.core.driver import daemon, ray_config
from heliostat.core.driver.daemon import Daemon, NodeOptions
from heliostat.core.platform import auth, settings

logger = logging.getLogger(__name__)

HEAD_TYPE = "ray.head.default"
# As Ray's configuration for tests has them.
IDLE_TIMEOUT_MINUTES = 5.0
WORKERS_MAX = 8
_STORE_BYTES = 150 << 20
_GRACE_S = 10.0
_END_S_MAX = 60.0


def options_of(resources: Mapping[str, Any], **more: Any) -> NodeOptions:
    """Return the options of a daemon with these resources."""
    named = dict(resources)
    store = int(named.pop("object_store_memory", _STORE_BYTES))
    memory = named.pop("memory", None)
    return NodeOptions(
        num_cpus=named.pop("CPU", 0),
        num_gpus=named.pop("GPU", 0),
        memory=None if memory is None else int(memory),
        object_store_memory=store,
        resources=named,
        **more,
    )


class LocalMachines:
    """The provider: ``types`` as ``available_node_types`` of a cluster's configuration has them.

    ``workers_max`` bounds all kinds together.
    """

    def __init__(
        self,
        address: str,
        types: Mapping[str, Mapping[str, Any]],
        *,
        workers_max: int,
        idle_timeout_s: float,
        env: Mapping[str, str],
    ) -> None:
        self._address, self._env = address, dict(env)
        self._workers_max, self._idle_timeout_s = workers_max, idle_timeout_s
        self._rows = {name: row for name, row in types.items() if name != HEAD_TYPE}
        self._lock = threading.Lock()
        self._count = 0
        self._machines: dict[str, Instance] = {}
        self._daemons: dict[str, Daemon] = {}
        self._threads: list[threading.Thread] = []
        self._is_over = False

    def types(self) -> dict[str, NodeType]:
        """The kinds of workers."""
        return {
            name: NodeType(
                name,
                {key: float(value) for key, value in row.get("resources", {}).items() if value},
                dict(row.get("labels") or {}),
                least=int(row.get("min_workers", 0)),
                most=int(row.get("max_workers", self._workers_max)),
            )
            for name, row in self._rows.items()
        }

    def idle_timeout_s(self) -> float:
        """``idle_timeout_minutes``, in seconds."""
        return self._idle_timeout_s

    def asked(self) -> dict[str, int]:
        """Return the number of nodes of each kind that run or are being started."""
        return dict(Counter(one.type for one in self.instances()))

    def instances(self) -> list[Instance]:
        """The machines one by one."""
        with self._lock:
            for name, one in list(self._daemons.items()):
                if not one.is_alive():
                    del self._daemons[name]
                    self._machines.pop(name, None)
            return list(self._machines.values())

    def joined(self, instances: Collection[str]) -> None:
        """A daemon that has ended is noticed by itself."""

    def failures(self) -> list[Failure]:
        """None that others do not tell: its log does."""
        return []

    def more_max(self) -> int | None:
        """``max_workers`` of the configuration bounds them."""
        with self._lock:
            return max(self._workers_max - len(self._machines), 0)

    def launch(self, wanted: Mapping[str, int]) -> None:
        """Start daemons, each on a thread of its own."""
        for name, count in wanted.items():
            for _ in range(count):
                with self._lock:
                    if self._is_over:
                        return
                    self._count += 1
                    made = Instance(f"{name}-{self._count}", name)
                    self._machines[made.id] = made
                self._go(self._start, made)

    def terminate(self, instances: Sequence[Instance]) -> None:
        """End daemons, each on a thread of its own."""
        for one in instances:
            with self._lock:
                self._machines.pop(one.id, None)
                found = self._daemons.pop(one.id, None)
            if found is not None:
                self._go(found.stop, _GRACE_S)

    def close(self) -> None:
        """End them all."""
        with self._lock:
            self._is_over = True
        # Those that are being started end by themselves when they see that.
        for thread in list(self._threads):
            thread.join(_END_S_MAX)
        with self._lock:
            left = list(self._daemons.values())
            self._daemons.clear()
            self._machines.clear()
        for one in left:
            one.stop(_GRACE_S)

    def _go(self, do: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=do, args=arguments, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _start(self, made: Instance) -> None:
        row = self._rows[made.type]
        names = {"RAY_NODE_TYPE_NAME": made.type, "RAY_CLOUD_INSTANCE_ID": made.id}
        options = options_of(
            row.get("resources", {}),
            head=False,
            address=self._address,
            labels=dict(row.get("labels") or {}),
            env={**self._env, **names},
        )
        try:
            started = daemon.start(options, auth.token(create=False))
        except Exception as error:
            logger.warning("%s was not started: %s", made.id, error)
            with self._lock:
                self._machines.pop(made.id, None)
            return
        with self._lock:
            is_wanted = made.id in self._machines and not self._is_over
            if is_wanted:
                self._daemons[made.id] = started
        if not is_wanted:
            started.stop(_GRACE_S)


class LocalCluster:
    """A head on this machine, and an autoscaler that starts further daemons beside it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._head: Daemon | None = None
        self._machines: LocalMachines | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The control service, as ``host:port``. Raises ``RuntimeError`` before the start."""
        if self._head is None:
            raise RuntimeError("The cluster has not been started.")
        return self._head.address.control_address

    def start(self, system_config: Mapping[str, Any] | None, env: Mapping[str, str]) -> None:
        """Start head and autoscaler. Raises as the start of a daemon does."""
        if self._head is not None:
            raise RuntimeError("The cluster runs already.")
        config = ray_config.check(dict(system_config) if system_config else None)
        env = {**ray_config.environment(config), **env}
        types = self._config["available_node_types"]
        self._head = daemon.start(
            options_of(
                types.get(HEAD_TYPE, {}).get("resources", {}),
                port=0,
                dashboard="127.0.0.1:0",
                env=env,
            ),
            auth.token(create=True),
        )
        _current_cluster().write_text(self.address)
        self._machines = LocalMachines(
            self.address,
            types,
            workers_max=int(self._config.get("max_workers", WORKERS_MAX)),
            idle_timeout_s=60.0 * self._config.get("idle_timeout_minutes", IDLE_TIMEOUT_MINUTES),
            env=env,
        )
        head = HttpHead(self._head.address.webui_url, auth.token(create=False))
        self._over.clear()
        self._thread = threading.Thread(
            target=Autoscaler(head, self._machines).run,
            args=(self._over.wait,),
            name="autoscaler",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End it all."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_END_S_MAX)
        if self._machines is not None:
            self._machines.close()
        if self._head is not None:
            _current_cluster().unlink(missing_ok=True)
            self._head.stop(_GRACE_S)
        self._head = self._machines = self._thread = None


def _current_cluster() -> Path:
    """The file that names the cluster for ``init("auto")``."""
    return settings.temp_dir() / settings.CURRENT_CLUSTER_FILE
