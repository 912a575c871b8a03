"""The address at which the others find a worker."""

from __future__ import annotations

import socket

import heliostat as ray


def free_address() -> tuple[str, int]:
    """On a worker: its node's address, and a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), int(probe.getsockname()[1])
