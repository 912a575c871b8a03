"""Network interfaces for the libraries of distributed training.

gloo and NCCL look for an interface by themselves: gloo by resolving the machine's own name, which many
machines do not, NCCL by order of names. The address at which other nodes reach this one says better.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping

# ioctl number for the IPv4 address of an interface: netdevice(7).
_SIOCGIFADDR = 0x8915
_IPV6_TABLE = "/proc/net/if_inet6"


def interface_of(address: str) -> str | None:
    """The name of the interface that has this IP address; None where no interface has it."""
    packed = _packed(address)
    if packed is None:
        return None
    return _of_ipv4(packed) if len(packed) == 4 else _of_ipv6(packed)


def _packed(address: str) -> bytes | None:
    """The bytes of an IP address. `ipaddress` would do, and takes a millisecond of each start."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            return socket.inet_pton(family, address.partition("%")[0])
    return None


def _is_loopback(packed: bytes) -> bool:
    return packed[0] == 127 if len(packed) == 4 else packed == bytes(15) + b"\1"


def _of_ipv4(packed: bytes) -> str | None:
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            # An interface without an IPv4 address answers with an error.
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asker.fileno(), _SIOCGIFADDR, request)
                if answer[20:24] == packed:
                    return name
    return None


def _of_ipv6(packed: bytes) -> str | None:
    with contextlib.suppress(OSError), open(_IPV6_TABLE, encoding="ascii") as table:
        for line in table:
            fields = line.split()
            if bytes.fromhex(fields[0]) == packed:
                return fields[5]
    return None


def choose(environment: MutableMapping[str, str], address: str) -> None:
    """Name the interface of ``address`` for gloo and NCCL where the user has not.

    A loopback address stays unnamed: all ranks are on this machine, and both libraries find a way.
    """
    wanted = [
        name for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if name not in environment
    ]
    packed = _packed(address)
    if not wanted or packed is None or _is_loopback(packed):
        return
    interface = interface_of(address)
    if interface is not None:
        for name in wanted:
            environment[name] = interface


def choose_for_workers() -> None:
    """Choose for this process and those forked from it, by the address of its node."""
    choose(os.environ, os.environ.get("HELIOSTAT_NODE_HOST", ""))
