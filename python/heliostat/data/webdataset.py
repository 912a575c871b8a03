"""WebDataset: tar archives whose neighbouring files with the same name and other endings are a row."""

from __future__ import annotations

import fnmatch
import io
import json
import pickle
import re
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from heliostat.core.platform import settings
from heliostat.core.platform.extras import required

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Function, Row, Value


Patterns = Callable[[str], bool] | Iterable[str]
Rename = Callable[[str], str] | Iterable[tuple[str, str]] | None

KEY, URL = "__key__", "__url__"
UNSAFE = "DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION"
PICTURES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")
_NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")  # the first dot after the folders ends the key


def samples(
    stream: object, path: str, select: Patterns | None, rename: Rename, suffixes: Patterns | None
) -> Iterator[Row]:
    """The rows of an archive: the key, the bytes of each file by ending, and where they come from.

    Raises:
        ValueError: A row has two files of one ending, or is scattered over the archive.
    """
    row: dict[str, object] | None = None
    seen: set[str] = set()
    for name, data in _files(stream, select, rename):
        parts = _NAME.match(name)
        if parts is None:
            continue
        key, suffix = parts.groups()
        if row is None or row[KEY] != key:
            if row is not None and len(row) > 1:
                yield {**row, URL: path}
            if key in seen:
                raise ValueError(
                    f"the files of the row {key!r} are not next to each other in {path}: make the "
                    "archive with its files sorted by name (`tar --sort=name`)."
                )
            seen.add(key)
            row = {KEY: key}
        if suffix in row:
            raise ValueError(f"{path} has two files {name!r}.")
        if suffixes is None or _chosen(suffix, suffixes):
            row[suffix] = data
    if row is not None and len(row) > 1:
        yield {**row, URL: path}


def _files(
    stream: pa.NativeFile, select: Patterns | None, rename: Rename
) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            if not member.isreg():
                continue
            name = _renamed(member.name, rename)
            if select is not None and not _chosen(name, select):
                continue
            file = archive.extractfile(member)
            assert file is not None
            yield name, file.read()


def _chosen(name: str, patterns: Patterns) -> bool:
    if callable(patterns):
        return bool(patterns(name))
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _renamed(name: str, rename: Rename) -> str:
    if rename is None:
        return name
    if callable(rename):
        return str(rename(name))
    for pattern, replacement in rename:
        name = re.sub(pattern, replacement, name)
    return name


def applied(change: object, row: Row, default: Function) -> Row:
    """A row after a decoder or encoder: True is the default one, a text its format, a list several."""
    for one in change if isinstance(change, list) else [change]:
        if one is None or one is False:
            continue
        row = one(row) if callable(one) else default(row, None if one is True else one)
    return row


# --- values of files -------------------------------------------------------------------------------


def decoded(row: dict[str, object], form: str | None = None) -> Row:
    """The files' values by their endings; others stay bytes. ``form`` "PIL" keeps pictures as such."""
    return {
        name: value if name.startswith("__") else _decoded(name, value, form)
        for name, value in row.items()
    }


def _decoded(name: str, value: Value, form: str | None) -> Value:
    ending = name.rsplit(".", 1)[-1].lower()
    if ending in ("txt", "text"):
        return value.decode()
    if ending in ("cls", "cls2"):
        return int(value.decode())
    if ending == "json":
        return json.loads(value)
    if ending == "npy":
        return np.load(io.BytesIO(value))
    if ending in PICTURES:
        picture = required("PIL.Image", "pictures").open(io.BytesIO(value))
        return picture if form == "PIL" else np.asarray(picture)
    if ending == "mp":
        return required("msgpack", "files of MessagePack").unpackb(value, raw=False)
    if ending in ("pt", "pth", "pickle", "pkl"):
        return _loaded(name, ending, value)
    return value


def _loaded(name: str, ending: str, value: bytes) -> Value:
    if not settings.flag(UNSAFE):
        raise ValueError(
            f"{name!r} of a WebDataset is not loaded, because loading a .{ending} file runs what it "
            f"says. Set RAY_{UNSAFE}=1 if you trust the source, or give a decoder."
        )
    if ending in ("pt", "pth"):
        return required("torch", "tensors").load(io.BytesIO(value), weights_only=False)
    return pickle.loads(value)


def encoded(row: dict[str, object], form: str | None = None) -> Row:
    """The values as bytes of files, by their endings."""
    return {
        name: value if value is None or name.startswith("__") else _encoded(name, value)
        for name, value in row.items()
    }


def _encoded(name: str, value: Value) -> Value:
    ending = name.rsplit(".", 1)[-1].lower()
    if ending in ("cls", "cls2"):
        return str(value).encode()
    if ending == "json":
        return json.dumps(value, default=_plain).encode()
    if ending == "mp":
        return required("msgpack", "files of MessagePack").packb(value)
    sink = io.BytesIO()
    if ending == "npy":
        np.save(sink, value)
    elif ending in PICTURES and not isinstance(value, bytes):
        pictures = required("PIL.Image", "pictures")
        picture = pictures.fromarray(value) if isinstance(value, np.ndarray) else value
        picture.save(sink, format="jpeg" if ending == "jpg" else ending)
    elif ending in ("pt", "pth"):
        required("torch", "tensors").save(value, sink)
    elif ending in ("pickle", "pkl"):
        pickle.dump(value, sink)
    else:
        return value
    return sink.getvalue()


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def archive(rows: Iterator[Row], encoder: object) -> bytes:
    """The rows as an archive.

    Raises:
        ValueError: A value is neither text nor bytes after the encoder.
    """
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as made:
        for row in rows:
            files = applied(encoder, dict(row), encoded)
            key = files.get(KEY) or uuid.uuid4().hex
            for name, value in files.items():
                if value is None or name.startswith("__"):
                    continue
                data = value.encode() if isinstance(value, str) else value
                if not isinstance(data, bytes):
                    raise ValueError(
                        f"the column {name!r} is of {type(value).__name__}, which no file of that ending "
                        "holds: name the column by its format, such as 'json' or 'npy', or give an "
                        "encoder."
                    )
                about = tarfile.TarInfo(f"{key}.{name}")
                about.size = len(data)
                made.addfile(about, io.BytesIO(data))
    return sink.getvalue()
