"""``ray._private.utils``: small helpers that programs take from there."""

from __future__ import annotations

import threading
from typing import NoReturn

from heliostat._private import missing
from heliostat._private.common_utils import get_or_create_event_loop

__all__ = [
    "binary_to_hex",
    "ensure_str",
    "get_or_create_event_loop",
    "hex_to_binary",
    "is_main_thread",
    "split_address",
]


def binary_to_hex(identifier: bytes) -> str:
    """Bytes, such as those of an id, as hexadecimal digits."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str | bytes) -> bytes:
    """Hexadecimal digits as bytes.

    Raises:
        ValueError: Something else than pairs of such digits is given.
    """
    text = hex_identifier.decode("ascii") if isinstance(hex_identifier, bytes) else hex_identifier
    return bytes.fromhex(text)


def ensure_str(s: str | bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
    """A text, be it given as bytes."""
    return s if isinstance(s, str) else s.decode(encoding, errors)


def is_main_thread() -> bool:
    """Whether the caller runs in the main thread of its process."""
    return threading.current_thread() is threading.main_thread()


def split_address(address: str) -> tuple[str, str]:
    """The scheme and the rest of an address such as ``ray://host:10001``.

    Raises:
        ValueError: The address has no scheme.
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        raise ValueError(
            f"Address must contain '://', got {address!r}: give one such as ray://host:10001"
        )
    return scheme, rest


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.utils.{name}"))
