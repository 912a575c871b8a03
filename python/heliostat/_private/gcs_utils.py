"""``ray._private.gcs_utils``: the state that heads keep in Redis is deleted.

KubeRay's operator calls it when a cluster is deleted whose heads share their state.
"""

from __future__ import annotations

import os
import subprocess
from typing import NoReturn

from heliostat._private import missing
from heliostat.core.driver import daemon

__all__ = ["cleanup_redis_storage"]

# Certificates and keys of encrypted connections.
_FILES = ("RAY_REDIS_CA_CERT", "RAY_REDIS_CLIENT_CERT", "RAY_REDIS_CLIENT_KEY")


def cleanup_redis_storage(
    host: str,
    port: int,
    password: str,
    use_ssl: bool,
    storage_namespace: str,
    username: str | None = None,
) -> bool:
    """Delete a cluster's state from Redis, as the namespace names it; whether there was any.

    A head that still has the state ends.

    Raises ``ValueError`` or ``TypeError`` for arguments of a wrong type, and ``RuntimeError``, with a
    sentence, where Redis does not do it.
    """
    if not isinstance(host, str):
        raise ValueError("Host must be a string")
    if username is None:
        username = ""
    if not isinstance(username, str):
        raise ValueError("Username must be a string")
    if not isinstance(password, str):
        raise ValueError("Password must be a string")
    if port < 0:
        raise ValueError(f"Invalid port: {port}")
    if not isinstance(use_ssl, bool):
        raise TypeError("use_ssl must be a boolean")
    if not isinstance(storage_namespace, str):
        raise ValueError("storage namespace must be a string")
    scheme = "rediss" if use_ssl else "redis"
    name = f"[{host}]" if ":" in host else host
    files = {variable: os.environ[variable] for variable in _FILES if variable in os.environ}
    done = subprocess.run(
        [str(daemon.binary()), "cleanup-control-store"],
        env={
            **files,
            "HELIOSTAT_CONTROL_STORE": f"{scheme}://{name}:{port}",
            "RAY_REDIS_USERNAME": username,
            "RAY_REDIS_PASSWORD": password,
            "RAY_external_storage_namespace": storage_namespace,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "there is no cluster's state" not in done.stderr:
        raise RuntimeError(done.stderr.strip())
    return done.returncode == 0


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.gcs_utils.{name}"))
