"""RLlink: the messages between runners and environments that run by themselves.

A message is eight decimal digits, the length of what follows, and a map in MessagePack whose ``type`` is
the name of a member of ``RLlink``. Arrays have the form of msgpack-numpy.
"""

from __future__ import annotations

import enum
from typing import Any

from heliostat.core.platform.extras import required

__all__ = ["RLlink", "get_rllink_message", "send_rllink_message"]

_DIGITS = 8


class RLlink(enum.Enum):
    """The kinds of messages.

    A client sends ``PING``, ``GET_CONFIG``, ``GET_STATE``, ``EPISODES`` or ``EPISODES_AND_GET_STATE``;
    the server answers all but ``EPISODES``: with ``PONG``, ``SET_CONFIG`` (``config``, the pickled
    ``AlgorithmConfig``), or ``SET_STATE`` (``state``, a dict of ``rl_module``, the weights, and
    ``weights_seq_no``).

    Examples:
        >>> from ray.rllib.env.external.rllink import RLlink
        >>> RLlink("PING") is RLlink.PING, str(RLlink.SET_STATE)
        (True, 'SET_STATE')
    """

    PROTOCOL_VERSION = "0.0.1"

    PING = "PING"
    EPISODES = "EPISODES"
    GET_STATE = "GET_STATE"
    GET_CONFIG = "GET_CONFIG"
    EPISODES_AND_GET_STATE = "EPISODES_AND_GET_STATE"

    PONG = "PONG"
    SET_STATE = "SET_STATE"
    SET_CONFIG = "SET_CONFIG"

    def __str__(self) -> str:
        return self.name


def send_rllink_message(sock_: Any, message: dict[str, Any]) -> None:
    """Send a message.

    Args:
        sock_: A connected socket.
        message: The message; its ``type`` is the name of a member of ``RLlink``.

    Raises:
        ConnectionError: The other side is gone.
        ValueError: The message is longer than 99,999,999 bytes, or has no type.

    Examples:
        >>> import socket
        >>> from ray.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
        >>> def is_there(host, port):
        ...     with socket.create_connection((host, port)) as connection:
        ...         send_rllink_message(connection, {"type": RLlink.PING.name})
        ...         return get_rllink_message(connection)[0] is RLlink.PONG
    """
    from heliostat.rllib.offline.recorded import encoded

    if "type" not in message:
        raise ValueError("An RLlink message needs a 'type': the name of a member of RLlink.")
    body = required("msgpack", "RLlink", "msgpack").packb(message, default=encoded)
    if len(body) >= 10**_DIGITS:
        raise ValueError(
            f"An RLlink message of {len(body)} bytes is longer than eight digits say: send fewer steps at "
            "a time."
        )
    try:
        sock_.sendall(f"{len(body):0{_DIGITS}d}".encode() + body)
    except OSError as error:
        raise ConnectionError(f"The other side of RLlink is gone: {error}") from error


def get_rllink_message(sock_: Any) -> tuple[RLlink, dict[str, Any]]:
    """Wait for a message; return its kind and its other entries.

    Args:
        sock_: A connected socket.

    Returns:
        The kind, and the entries by their names.

    Raises:
        ConnectionError: The other side is gone, or what it sent is not a message.

    Examples:
        >>> import socket
        >>> from ray.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
        >>> def weights(host, port):  # of a runner that listens there
        ...     with socket.create_connection((host, port)) as connection:
        ...         send_rllink_message(connection, {"type": RLlink.GET_STATE.name})
        ...         kind, message = get_rllink_message(connection)
        ...         return message["state"]["rl_module"]
    """
    from heliostat.rllib.offline.recorded import decoded

    try:
        length = int(_read(sock_, _DIGITS))
        message = required("msgpack", "RLlink", "msgpack").unpackb(
            _read(sock_, length), object_hook=decoded, strict_map_key=False
        )
        return RLlink(message.pop("type")), message
    except (OSError, EOFError) as error:
        raise ConnectionError(f"The other side of RLlink is gone: {error}") from error
    except Exception as error:
        raise ConnectionError(f"This is not a message of RLlink: {error!r}") from error


def _read(sock_: Any, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = sock_.recv(min(count - len(found), 1 << 20))
        if not part:
            raise EOFError("it closed the connection")
        found += part
    return bytes(found)
