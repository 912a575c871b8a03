"""Paths of the sockets of Serve: in the session's folder, whose path the system limits for sockets."""

from __future__ import annotations

import hashlib
import os

from heliostat.serve.context import ReplicaID

# Bytes of the path of a socket.
_PATH_MAX = 107
_DIGEST_BYTES = 8


def of_ingress(session_dir: str) -> str:
    """The path of the socket at which the HTTP server takes the controller's connection."""
    # Not in the folder of sockets: those are removed with a daemon that was killed.
    return os.path.join(session_dir, "serve.sock")


def of_replica(session_dir: str, replica: ReplicaID) -> str:
    """The path of a replica's socket for the HTTP server; equally long for all names."""
    name = replica.to_full_id_str().encode()
    digest = hashlib.blake2b(name, digest_size=_DIGEST_BYTES).hexdigest()
    return os.path.join(session_dir, "sockets", f"serve-{digest}.sock")


def check(session_dir: str) -> None:
    """Raises ``RuntimeError`` where the session's folder is too deep for them."""
    longest = len(os.fsencode(os.path.join("/", "sockets", "serve-.sock"))) + 2 * _DIGEST_BYTES
    most = _PATH_MAX - longest
    given = len(os.fsencode(session_dir))
    if given > most:
        raise RuntimeError(
            f"The path of the session's folder has {given} bytes, and Serve's sockets there may have {most}: "
            f"{session_dir}. Start the cluster with a shorter RAY_TMPDIR, or `ray start --temp-dir`."
        )
