"""The cluster's key-value store, by the names that Ray gives it. It outlives drivers, not the cluster."""

from __future__ import annotations

from heliostat import _heliostat
from heliostat.core import session

__all__: list[str] = []


def _key(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _space(namespace: str | bytes | None) -> str:
    return namespace.decode() if isinstance(namespace, bytes) else namespace or ""


def _internal_kv_initialized() -> bool:
    return _heliostat.is_connected()


def _internal_kv_get(key: str | bytes, *, namespace: str | bytes | None = None) -> bytes | None:
    """The value, ``None`` if there is none."""
    session.require()
    return _heliostat.kv_get(_key(key), namespace=_space(namespace))


def _internal_kv_exists(key: str | bytes, *, namespace: str | bytes | None = None) -> bool:
    """Whether there is a value."""
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: str | bytes,
    value: str | bytes,
    overwrite: bool = True,
    *,
    namespace: str | bytes | None = None,
) -> bool:
    """Keep the value; whether there was one before. ``overwrite=False`` keeps that one."""
    session.require()
    space = _space(namespace)
    return _heliostat.kv_put(_key(key), _key(value), namespace=space, overwrite=overwrite)


def _internal_kv_del(
    key: str | bytes, *, del_by_prefix: bool = False, namespace: str | bytes | None = None
) -> int:
    """Forget it, or all keys that begin so; how many there were."""
    session.require()
    space = _space(namespace)
    keys = _heliostat.kv_keys(_key(key), namespace=space) if del_by_prefix else [_key(key)]
    return sum(_heliostat.kv_del(one, namespace=space) for one in keys)


def _internal_kv_list(prefix: str | bytes, *, namespace: str | bytes | None = None) -> list[bytes]:
    """The keys that begin so."""
    session.require()
    return _heliostat.kv_keys(_key(prefix), namespace=_space(namespace))
