"""The state that a controller leaves for the next one: a small part that is written often, and
large parts once.

Code and the arguments that are bound to it may have many megabytes, and are the same from one state to the
next. Each such part is an entry of its own, named by its content.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any

from heliostat.core.platform import serving
from heliostat.serve import specs

_STATE = b"serve-state"
_PART = "serve-part-"
# Bytes from which on a part has an entry of its own.
_LARGE = 4096


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, names: dict[int, tuple[bytes, str]]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = names
        self.parts: dict[str, bytes] = {}

    def persistent_id(self, value: Any) -> str | None:
        if type(value) is not bytes or len(value) < _LARGE:
            return None
        # Kept with its object, so that no other takes its identity.
        known = self._names.get(id(value))
        if known is None:
            digest = hashlib.blake2b(value, digest_size=16).hexdigest()
            known = self._names[id(value)] = (value, digest)
        self.parts[known[1]] = value
        return known[1]


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.parts: dict[str, bytes] = {}

    def persistent_load(self, name: Any) -> bytes:
        part = self.parts.get(name)
        if part is None:
            part = serving.kv_get(_key(name), namespace=specs.NAMESPACE)
            if part is None:
                raise LookupError(f"A part of Serve's state is not there: {name}")
            self.parts[name] = part
        return part


def _key(name: str) -> bytes:
    return f"{_PART}{name}".encode()


class Storage:
    """The entries of one controller."""

    def __init__(self) -> None:
        self._kept: set[str] = set()  # parts that are written
        self._names: dict[int, tuple[bytes, str]] = {}

    def load(self) -> Any:
        """The last state that was saved, or ``None``."""
        found = serving.kv_get(_STATE, namespace=specs.NAMESPACE)
        if found is None:
            return None
        reader = _Reader(io.BytesIO(found))
        state = reader.load()
        self._kept = set(reader.parts)
        # A controller that died between two writes has left parts that no state has.
        there = serving.kv_keys(_PART.encode(), namespace=specs.NAMESPACE)
        self._forget({key.decode().removeprefix(_PART) for key in there} - self._kept)
        self._names = {id(part): (part, name) for name, part in reader.parts.items()}
        return state

    def save(self, state: Any) -> None:
        """Parts first: a state that is found has all of them."""
        file = io.BytesIO()
        writer = _Writer(file, self._names)
        writer.dump(state)
        for name in writer.parts.keys() - self._kept:
            serving.kv_put(_key(name), writer.parts[name], namespace=specs.NAMESPACE)
        serving.kv_put(_STATE, file.getvalue(), namespace=specs.NAMESPACE)
        self._forget(self._kept - writer.parts.keys())
        self._kept = set(writer.parts)
        self._names = {
            number: known for number, known in self._names.items() if known[1] in writer.parts
        }

    def clear(self) -> None:
        """Leave nothing."""
        serving.kv_del(_STATE, namespace=specs.NAMESPACE)
        self._forget(self._kept)
        self._kept, self._names = set(), {}

    def _forget(self, names: set[str]) -> None:
        for name in names:
            serving.kv_del(_key(name), namespace=specs.NAMESPACE)
