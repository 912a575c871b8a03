"""Clusters that programs start, use and stop, as the commands ``up``, ``exec`` and ``down`` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heliostat.autoscaler.launcher.cluster import Cluster
from heliostat.autoscaler.launcher.config import check, load

Ports = int | list[int] | tuple[int, int] | list[tuple[int, int]]


def create_or_update_cluster(
    cluster_config: dict[str, Any] | str,
    *,
    no_restart: bool = False,
    restart_only: bool = False,
    no_config_cache: bool = False,
) -> dict[str, Any]:
    """Start a cluster, or bring it up to date; returns when all its machines have joined or failed.

    Args:
        cluster_config: What the YAML file of ``ray up`` says, or the path of one.
        no_restart: What runs already goes on.
        restart_only: Machines are started again and not set up.
        no_config_cache: Without effect: nothing is cached.

    Returns:
        What the file says.

    Raises:
        ValueError: The configuration is wrong; the message says where.
        RuntimeError: A machine was not reached, or a command failed there.

    Examples:
        >>> from ray.autoscaler.sdk import create_or_update_cluster, teardown_cluster
        >>> config = {
        ...     "cluster_name": "team",
        ...     "provider": {"type": "local", "head_ip": "192.0.2.1", "worker_ips": ["192.0.2.2"]},
        ...     "auth": {"ssh_user": "ubuntu"},
        ... }
        >>> def nightly():
        ...     create_or_update_cluster(config)  # reaches the machines by ssh
        ...     teardown_cluster(config)
        >>> try:
        ...     create_or_update_cluster({**config, "provider": {"type": "lokal"}})
        ... except ValueError:
        ...     print("no such provider")
        no such provider
    """
    cluster = _cluster(cluster_config)
    cluster.up(no_restart=no_restart, restart_only=restart_only)
    return dict(cluster.config.told)


def teardown_cluster(
    cluster_config: dict[str, Any] | str,
    workers_only: bool = False,
    keep_min_workers: bool = False,
) -> None:
    """Stop a cluster.

    Args:
        cluster_config: As in ``create_or_update_cluster``.
        workers_only: The head goes on.
        keep_min_workers: So do as many workers as the file asks for at least.

    Raises:
        ValueError: The configuration is wrong.
        RuntimeError: A machine was not reached; the others were stopped.

    Examples:
        >>> from ray.autoscaler.sdk import create_or_update_cluster, teardown_cluster
        >>> def run(config, work):
        ...     create_or_update_cluster(config)
        ...     try:
        ...         return work()
        ...     finally:
        ...         teardown_cluster(config)
    """
    _cluster(cluster_config).down(workers_only=workers_only, keep_min_workers=keep_min_workers)


def run_on_cluster(
    cluster_config: dict[str, Any] | str,
    *,
    cmd: str | None = None,
    run_env: str = "auto",
    tmux: bool = False,
    stop: bool = False,
    no_config_cache: bool = False,
    port_forward: Ports | None = None,
    with_output: bool = False,
) -> str | None:
    """Run a command on the head of a cluster, to its end.

    Args:
        cluster_config: As in ``create_or_update_cluster``.
        cmd: The command. Default: one that does nothing.
        run_env: ``"host"``: on the machine itself; ``"docker"``: in its container; ``"auto"``: in its
            container where the configuration has one.
        tmux: The command goes on in tmux, and this returns at once.
        stop: The cluster is stopped when the command has ended.
        no_config_cache: Without effect.
        port_forward: A port of the head that becomes one of this machine meanwhile; or pairs of ports,
            this machine's first.
        with_output: What it prints is returned and not shown.

    Returns:
        What it has printed, with ``with_output``; else ``None``.

    Raises:
        ValueError: The configuration or an argument is wrong.
        RuntimeError: The head was not reached, or the command ended with another exit code than 0.

    Examples:
        >>> from ray.autoscaler.sdk import run_on_cluster
        >>> def free_disk(config):
        ...     return run_on_cluster(config, cmd="df -h /", with_output=True)
        >>> try:
        ...     run_on_cluster("cluster.yaml", cmd="uptime", run_env="podman")
        ... except ValueError as error:
        ...     print(error)
        run_env is 'podman': write 'auto', 'host' or 'docker'.
    """
    if run_env not in ("auto", "host", "docker"):
        raise ValueError(f"run_env is {run_env!r}: write 'auto', 'host' or 'docker'.")
    cluster = _cluster(cluster_config)
    return cluster.run_to_end(
        cmd or "true",
        _pairs(port_forward),
        run_env=run_env,
        is_shown=not with_output,
        in_tmux=tmux,
        stops_cluster=stop,
    )


def rsync(
    cluster_config: dict[str, Any] | str,
    *,
    source: str | None,
    target: str | None,
    down: bool,
    ip_address: str | None = None,
    use_internal_ip: bool = False,
    no_config_cache: bool = False,
    should_bootstrap: bool = True,
) -> None:
    """Copy files to a machine of a cluster, or from one.

    Args:
        cluster_config: As in ``create_or_update_cluster``.
        source: What is copied; without ``source`` and ``target``, the ``file_mounts`` of the configuration.
        target: Where to.
        down: From the machine to here.
        ip_address: Which machine. Default: the head.
        use_internal_ip: Without effect: both addresses of a machine are known.
        no_config_cache: Without effect.
        should_bootstrap: Without effect.

    Raises:
        ValueError: The configuration is wrong, or one of the two paths is missing.
        RuntimeError: The machine was not reached, or there are no such files.

    Examples:
        >>> from ray.autoscaler import sdk
        >>> def fetch_results(config):
        ...     sdk.rsync(config, source="~/results/", target="results/", down=True)
        >>> provider = {"type": "local", "head_ip": "192.0.2.1", "worker_ips": ["192.0.2.2"]}
        >>> config = {"cluster_name": "team", "provider": provider, "auth": {"ssh_user": "ubuntu"}}
        >>> try:
        ...     sdk.rsync(config, source="~/results/", target=None, down=True)
        ... except ValueError:
        ...     print("a source needs a target")
        a source needs a target
    """
    cluster = _cluster(cluster_config)
    cluster.copy(source, target, down=down, remotes=[cluster.machine(ip_address)])


def get_head_node_ip(cluster_config: dict[str, Any] | str) -> str:
    """The address of a cluster's head.

    Args:
        cluster_config: As in ``create_or_update_cluster``.

    Returns:
        An IP address or a host name.

    Raises:
        ValueError: The configuration is wrong.
        RuntimeError: The cluster has no head.

    Examples:
        >>> from ray.autoscaler.sdk import get_head_node_ip
        >>> provider = {"type": "local", "head_ip": "192.0.2.1", "worker_ips": ["192.0.2.2"]}
        >>> get_head_node_ip(
        ...     {"cluster_name": "team", "provider": provider, "auth": {"ssh_user": "ubuntu"}}
        ... )
        '192.0.2.1'
    """
    return _cluster(cluster_config).head().host.address


def get_worker_node_ips(cluster_config: dict[str, Any] | str) -> list[str]:
    """The addresses of the other machines that were started.

    Args:
        cluster_config: As in ``create_or_update_cluster``.

    Returns:
        An address for each.

    Raises:
        ValueError: The configuration is wrong.
        RuntimeError: The cluster was not started by this user on this machine.

    Examples:
        >>> from ray.autoscaler.sdk import get_worker_node_ips
        >>> provider = {"type": "local", "head_ip": "192.0.2.1", "worker_ips": ["192.0.2.2"]}
        >>> config = {"cluster_name": "team", "provider": provider, "auth": {"ssh_user": "ubuntu"}}
        >>> try:
        ...     get_worker_node_ips(config)
        ... except RuntimeError:
        ...     print("call create_or_update_cluster first")
        call create_or_update_cluster first
    """
    return [remote.host.address for remote in _cluster(cluster_config).workers()]


def _cluster(given: Mapping[str, Any] | str) -> Cluster:
    return Cluster(load(given) if isinstance(given, str) else check(given, "cluster_config"))


def _pairs(given: Ports | None) -> list[tuple[int, int]]:
    if given is None:
        return []
    if isinstance(given, int):
        return [(given, given)]
    if isinstance(given, tuple):
        return [given]
    return [(one, one) if isinstance(one, int) else one for one in given]
