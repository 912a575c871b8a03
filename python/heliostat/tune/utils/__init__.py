"""Helpers that programs for Tune import: nested dicts, and checks of trainables."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import heliostat as ray
from heliostat.tune.aliases import Config
from heliostat.tune.trainable.trainable import Trainable
from heliostat.tune.utils.waiting import wait_for_gpu, warn_if_slow
from heliostat.util import inspect_serializability

__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "merge_dicts",
    "unflattened_lookup",
    "validate_save_restore",
    "wait_for_gpu",
    "warn_if_slow",
]


def date_str() -> str:
    """The local time as part of a file's name, such as ``2026-11-24_04-08-15``."""
    return datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


def flatten_dict(
    dt: Mapping[Any, Any],
    delimiter: str = "/",
    prevent_delimiter: bool = False,
    flatten_list: bool = False,
) -> dict[Any, Any]:
    """``{"a": {"b": 1}}`` as ``{"a/b": 1}``; dicts without entries are left out.

    Args:
        dt: what is flattened; it stays as it is.
        delimiter: what stands between the keys.
        prevent_delimiter: raise where a key has the delimiter in it.
        flatten_list: flatten lists, too, with places as keys.

    Raises:
        ValueError: a key has the delimiter in it, and ``prevent_delimiter`` is set.
    """
    flat: dict[Any, Any] = {}

    def add(above: tuple[Any, ...], value: object) -> None:
        inside: Iterable[tuple[Any, Any]]
        if isinstance(value, Mapping):
            inside = value.items()
        elif flatten_list and isinstance(value, list):
            inside = enumerate(value)
        else:
            flat[above[0] if len(above) == 1 else delimiter.join(map(str, above))] = value
            return
        for key, below in inside:
            if prevent_delimiter and delimiter in str(key):
                raise ValueError(f"The key {key!r} has the delimiter {delimiter!r} in it.")
            add((*above, key), below)

    add((), dt)
    return flat


def unflattened_lookup(
    flat_key: str,
    lookup: Mapping[Any, Any] | Sequence[Any],
    delimiter: str = "/",
    **kwargs: object,
) -> Any:
    """The value that a flat key names in nested dicts and lists: ``a/0`` of ``{"a": [4]}`` is 4.

    Args:
        flat_key: keys of dicts and places in lists, with the delimiter between them.
        lookup: where to look.
        delimiter: what stands between the keys.
        **kwargs: ``default=`` is given back where nothing has the key.

    Raises:
        KeyError, IndexError: nothing has the key, and there is no ``default``.
    """
    found: Any = lookup
    try:
        for key in flat_key.split(delimiter):
            is_list = isinstance(found, Sequence) and not isinstance(found, str)
            found = found[int(key) if is_list else key]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if "default" in kwargs:
            return kwargs["default"]
        if isinstance(error, (KeyError, IndexError)):
            raise
        raise KeyError(flat_key) from error
    return found


def merge_dicts(d1: Mapping[Any, Any], d2: Mapping[Any, Any]) -> dict[Any, Any]:
    """A copy of ``d1`` with what ``d2`` has beside it or instead, at any depth."""
    return deep_update(copy.deepcopy(dict(d1)), d2, True)


def deep_update(
    original: dict[Any, Any],
    new_dict: Mapping[Any, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
    override_all_key_list: Sequence[str] | None = None,
) -> dict[Any, Any]:
    """Bring the values of ``new_dict`` into ``original``, at any depth; returns ``original``.

    Args:
        original: is changed.
        new_dict: the new values.
        new_keys_allowed: keys may come that ``original`` has not.
        allow_new_subkey_list: below these keys they always may.
        override_all_if_type_changes: the dict of such a key is replaced as a whole where the value of its
            ``"type"`` changes.
        override_all_key_list: the dict of such a key is always replaced as a whole.

    Raises:
        Exception: ``original`` has no such key, and it may not come.
    """
    below, typed = allow_new_subkey_list or (), override_all_if_type_changes or ()
    whole = override_all_key_list or ()
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            known = ", ".join(sorted(map(repr, original))) or "none"
            raise Exception(f"Unknown config parameter `{key}`. Known here: {known}.")
        former: Any = original.get(key)
        merges = isinstance(former, dict) and isinstance(value, Mapping) and key not in whole
        if merges and key in typed and "type" in value:
            merges = value["type"] == former.get("type")
        if merges:
            deep_update(former, value, new_keys_allowed or key in below)
        else:
            original[key] = value
    return original


def diagnose_serialization(trainable: Callable[..., object]) -> bool | set[Any]:
    """Whether a trainable can be sent to a worker.

    Returns:
        ``True``, or what in it cannot be pickled; that is printed as well.
    """
    is_fine, failures = inspect_serializability(trainable)
    return True if is_fine else {failure.obj for failure in failures}


def validate_save_restore(
    trainable_cls: type[Trainable], config: Config | None = None, num_gpus: int = 0
) -> bool:
    """Run a class trainable on two workers, and restore one from the other's checkpoint.

    Args:
        trainable_cls: the class.
        config: what its ``setup`` gets.
        num_gpus: of each of the two.

    Raises:
        AssertionError: the restored one does not go on where the other was.
        RayTaskError: saving or restoring raised.
    """
    from tempfile import TemporaryDirectory

    assert ray.is_initialized(), "validate_save_restore needs a session: call ray.init() first."
    remote = ray.remote(num_gpus=num_gpus)(trainable_cls)
    first, second = (remote.remote(config=dict(config or {})) for _ in range(2))
    try:
        with TemporaryDirectory() as folder:
            for _ in range(3):
                done = ray.get(first.train.remote())["training_iteration"]
            ray.get(first.save.remote(folder))
            ray.get(second.restore.remote(folder))
            assert ray.get(second.train.remote())["training_iteration"] == done + 1, (
                "the restored trainable does not go on at the iteration of its checkpoint"
            )
            ray.get(second.save.remote(folder))
            ray.get(first.restore.remote(folder))
    finally:
        for actor in (first, second):
            ray.kill(actor)
    return True
