"""Addresses and ports as libraries ask for them, under several of Ray's private paths."""

from __future__ import annotations

import ipaddress
import socket

from heliostat.core.state import node_ip_address

__all__ = [
    "build_address",
    "find_free_port",
    "get_address_and_port",
    "is_ipv6",
    "is_localhost",
    "parse_address",
]


def is_ipv6(host: str) -> bool:
    """Whether it is an address of IPv6, and no name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).version == 6
    except ValueError:
        return False


def is_localhost(host: str) -> bool:
    """Whether it names this machine to itself."""
    return host in ("localhost", "127.0.0.1", "::1")


def build_address(host: str, port: int | str) -> str:
    """``host:port``, with brackets around an address of IPv6."""
    return f"[{host}]:{port}" if is_ipv6(host) and not host.startswith("[") else f"{host}:{port}"


def parse_address(address: str) -> tuple[str, str] | None:
    """The host and the port of ``host:port``; ``None`` where it has no port."""
    host, colon, port = address.rpartition(":")
    is_whole = colon and (":" not in host or host.startswith("["))
    return (host.strip("[]"), port) if is_whole else None


def find_free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    """A port that nobody listens on now."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def get_address_and_port() -> tuple[str, int]:
    """This node's address, and a port there that nobody listens on now."""
    host = node_ip_address()
    return host, find_free_port(socket.AF_INET6 if is_ipv6(host) else socket.AF_INET)
