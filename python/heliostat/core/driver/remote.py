"""Drivers on machines outside the cluster: ``ray://host:port``, and the older builder for the same.

Such a driver is an ordinary driver. The daemon that ``init`` starts for it on its machine offers
nothing to the cluster, and leads all connections through the gateway on the head.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat import _heliostat
from heliostat.core import session
from heliostat.core.driver.context import BaseContext
from heliostat.core.driver.job import JobConfig
from heliostat.core.platform import settings
from heliostat.core.platform.version import COMMIT, RAY_VERSION

SCHEMES = ("ray://", "heliostat://")
PORT = 10001

_IN_A_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)://(?P<rest>.*)")


def gateway(address: str) -> str | None:
    """``host:port`` of the gateway that an address names; ``None``: it names none.

    Raises:
        ValueError: It begins as such an address and goes on as none.
    """
    scheme = next((scheme for scheme in SCHEMES if address.startswith(scheme)), None)
    if scheme is None:
        return None
    rest = address.removeprefix(scheme).rstrip("/")
    match = re.fullmatch(r"(?P<host>[^:\s/\[\]]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?", rest)
    port = int(match["port"] or PORT) if match is not None else 0
    if match is None or not 0 < port <= 65535:
        raise ValueError(
            f"Invalid address: {address}. Give the head's host and its port for drivers, such as "
            f"{scheme}head.example.com:{PORT}."
        )
    return f"{match['host']}:{port}"


@dataclass
class ClientContext(BaseContext):
    """The connection of a driver outside the cluster; ``with`` ends it with the block.

    One that ``allow_multiple=True`` made is the present one of a thread only within ``with``, which
    does not end it: :meth:`disconnect` does.
    """

    dashboard_url: str | None
    python_version: str
    ray_version: str
    ray_commit: str
    _num_clients: int = 1
    _context_to_restore: Any = None
    _epoch: int = 0
    _is_beside: bool = False
    # The contexts that threads within `with` had before, each its own.
    _before: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    def disconnect(self) -> None:
        """End the connection; nothing happens where it has ended."""
        with session.chosen(self._epoch):
            if session.is_initialized():
                session.end()

    def __enter__(self) -> ClientContext:
        if self._is_beside:
            before: list[int] = self._before.__dict__.setdefault("chosen", [])
            before.append(_heliostat.choose_session(self._epoch))
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_beside:
            _heliostat.choose_session(self._before.chosen.pop())
        else:
            self.disconnect()


def context(of: session.Session) -> ClientContext:
    """The context of a session."""
    return ClientContext(
        dashboard_url=of.address.webui_url,
        python_version=platform.python_version(),
        ray_version=RAY_VERSION,
        ray_commit=COMMIT,
        _num_clients=len(session.afar()),
        _epoch=of.epoch,
        _is_beside=session.is_beside(of.epoch),
    )


def is_connected() -> bool:
    """Whether this thread's connection is that of a driver outside its cluster."""
    here = session.current()
    return here is not None and here.address.entrance is not None


class ClientBuilder:
    """A connection, as it is being described: ``client(address).namespace("a").connect()``.

    ``init("ray://host:port", namespace="a")`` does the same.

    Args:
        address: ``host:port`` of the head's port for drivers; ``None`` and ``"local"``: as for ``init``.

    Examples:
        >>> import ray
        >>> builder = ray.ClientBuilder("head.example.com:10001")
        >>> builder = builder.namespace("reports").env({"env_vars": {"STAGE": "test"}})
        >>> def main():
        ...     with builder.connect():
        ...         return ray.cluster_resources()
    """

    def __init__(self, address: str | None) -> None:
        self.address = address
        self._job_config = JobConfig()
        self._remote_init_kwargs: dict[str, Any] = {}
        self._deprecation_warn_enabled = True

    def env(self, env: Mapping[str, Any]) -> ClientBuilder:
        """Set the runtime environment of the job.

        Args:
            env: Its fields, as those of ``ray.init(runtime_env=...)``.

        Returns:
            This builder.
        """
        self._job_config.set_runtime_env(env)
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """Set the namespace in which named actors are looked up.

        Args:
            namespace: Its name.

        Returns:
            This builder.
        """
        self._job_config.set_ray_namespace(namespace)
        return self

    def connect(self) -> ClientContext:
        """Connect.

        Raises:
            ConnectionError: The gateway is not reached, or does not let this driver in.
        """
        if self._deprecation_warn_enabled:
            self._warn()
        self._fill_defaults_from_env()
        from heliostat.core.driver.init import init

        address = self.address
        if address not in (None, "local", "auto"):
            address = f"ray://{address}"
        made: Any = init(address, job_config=self._job_config, **self._remote_init_kwargs)
        here = session.current()
        return made if isinstance(made, ClientContext) or here is None else context(here)

    def _init_args(self, **kwargs: Any) -> ClientBuilder:
        """Take over keywords of ``init``."""
        if (namespace := kwargs.pop("namespace", None)) is not None:
            self.namespace(namespace)
        if (env := kwargs.pop("runtime_env", None)) is not None:
            self.env(env)
        self._remote_init_kwargs = kwargs
        return self

    def _fill_defaults_from_env(self) -> None:
        environment = os.environ.get("RAY_RUNTIME_ENV")
        if environment and not self._job_config.runtime_env:
            self.env(json.loads(environment))

    def _warn(self) -> None:
        arguments = [] if self.address is None else [f'"ray://{self.address}"']
        if self._job_config.ray_namespace:
            arguments.append(f'namespace="{self._job_config.ray_namespace}"')
        if self._job_config.runtime_env:
            arguments.append("runtime_env=...")
        warnings.warn(
            f"`ray.client(...).connect()` is deprecated: use `ray.init({', '.join(arguments)})`.",
            DeprecationWarning,
            stacklevel=3,
        )


def client(address: str | None = None, _deprecation_warn_enabled: bool = True) -> ClientBuilder:
    """Describe a connection to a cluster; ``.connect()`` makes it.

    Deprecated: use ``init("ray://host:port")``.

    Args:
        address: ``host:port`` of the head's port for drivers, also with ``ray://`` before it.
            ``None``: that of RAY_ADDRESS, else as ``init()``; ``"local"``: a new cluster on this
            machine; ``module://rest``: what the ``ClientBuilder`` of that module makes of the rest.

    Returns:
        A builder; nothing is connected yet.

    Raises:
        ValueError: The address is that of an HTTP server.
        RuntimeError: There is no such module, or it has no ``ClientBuilder``.

    Examples:
        >>> import ray
        >>> builder = ray.client("head.example.com:10001").namespace("reports")
        >>> isinstance(builder, ray.ClientBuilder)  # builder.connect() would begin the session
        True
        >>> try:
        ...     ray.client("http://head.example.com:8265")
        ... except ValueError:
        ...     print("that is the port of the dashboard")
        that is the port of the dashboard
    """
    wanted = settings.text("ADDRESS") or None if address is None else address
    builder = _builder(wanted)
    builder._deprecation_warn_enabled = _deprecation_warn_enabled
    return builder


def _builder(address: str | None) -> ClientBuilder:
    if address in (None, "local", "auto"):
        return ClientBuilder(address)
    assert address is not None
    if address.startswith(("http://", "https://")):
        raise ValueError(
            f"Invalid Ray address: {address!r} is that of an HTTP server. Give the head's port for "
            f"drivers, such as ray://head.example.com:{PORT}, or unset RAY_ADDRESS."
        )
    named = _IN_A_MODULE.fullmatch(address)
    if named is None or named["module"] in ("ray", "heliostat"):
        return ClientBuilder(named["rest"] if named is not None else address)
    try:
        module = importlib.import_module(named["module"])
    except ImportError as error:
        raise RuntimeError(
            f"Module: {named['module']} does not exist.\nThis module was parsed from Address: {address}"
        ) from error
    if not hasattr(module, "ClientBuilder"):
        raise RuntimeError(f"Module: {named['module']} does not have ClientBuilder.")
    builder: ClientBuilder = module.ClientBuilder(named["rest"])
    return builder


def connect(
    conn_str: str,
    secure: bool = False,
    metadata: Any = None,
    connection_retries: int = 3,
    job_config: JobConfig | None = None,
    namespace: str | None = None,
    *,
    ignore_version: bool = False,
    _credentials: Any = None,
    ray_init_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Connect to the head's port for drivers. Deprecated: use ``init("ray://host:port")``.

    Args:
        conn_str: ``host:port`` of it.
        secure: Has no effect: RAY_USE_TLS decides.
        metadata: Has no effect.
        connection_retries: Has no effect.
        job_config: Of the job.
        namespace: Where named actors are looked up.
        ignore_version: Has no effect: releases that do not understand each other refuse each other.
        ray_init_kwargs: Further keywords of ``init``.

    Returns:
        What is known of the connection.

    Raises:
        ConnectionError: Nobody answers there.

    Examples:
        >>> from ray.util import connect, disconnect
        >>> def main():
        ...     connect("head.example.com:10001", namespace="reports")
        ...     try:
        ...         ...  # tasks and actors, as anywhere
        ...     finally:
        ...         disconnect()
    """
    from heliostat.core.driver.init import init

    keywords = dict(ray_init_kwargs or {})
    init(f"ray://{conn_str}", job_config=job_config, namespace=namespace, **keywords)
    return {
        "num_clients": len(session.afar()),
        "python_version": platform.python_version(),
        "ray_version": RAY_VERSION,
        "ray_commit": COMMIT,
    }


def disconnect() -> None:
    """End the connection; nothing happens where there is none. Deprecated: use ``shutdown()``.

    Examples:
        >>> from ray.util import disconnect
        >>> disconnect()  # this driver is not outside its cluster: nothing happens
    """
    if is_connected():
        session.end()
