"""Folders of code as trees: each file is a list of chunks, cut where the content says so.

A tree is a JSON file that lists folders and files, and where each file's chunks lie: in *packs*, which are
files of chunks one behind the other. Both travel as packages, named by their content. Of a folder that has
changed a driver makes a pack of the chunks that no pack before has; a node takes the packs that it does not
have, and puts the folder together from them, by the kernel (``copy_file_range``: without a copy where
the file system can share extents).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from heliostat import _heliostat

_MAGIC = b'{"heliostat_tree"'
_RELEASE = 1
# In the folder of packages: what the drivers of this node have found before.
_BOOK, _LOCK = ".chunks.json", ".chunks.lock"
# A file that was changed within the step of the file system's clock looks as before, so it is read again.
_RACY_NS = 2_000_000_000
# A file system whose clock does not go on for so long (NFS, to another machine's) keeps no record.
_STEP_S_MAX = 1.0
_TRIES = 5


class TreeError(RuntimeError):
    """A tree is damaged or hostile; the text is a sentence."""


class Extent(NamedTuple):
    """The place of consecutive chunks of a file; offset and size in bytes."""

    pack: str
    offset: int
    size: int


class TreeEntry(NamedTuple):
    """An entry of a folder that is to become a tree: its path within, and where it lies."""

    name: str
    path: Path
    is_folder: bool


class _Chunk(NamedTuple):
    name: str
    size: int


class _Book:
    """The record of this node: the chunks of files that have not changed, and where chunks lie."""

    def __init__(self, shelf: Path) -> None:
        self._shelf = shelf
        self._files: dict[str, Any] = {}
        self._places: dict[str, Extent] = {}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads((shelf / _BOOK).read_bytes())
            packs = {pack for pack, *_ in told["places"].values() if (shelf / pack).is_file()}
            places = {name: Extent(*place) for name, place in told["places"].items()}
            self._places = {name: place for name, place in places.items() if place.pack in packs}
            self._files = told["files"]

    def chunks(self, path: Path, status: os.stat_result) -> list[_Chunk]:
        """A file's chunks; it is read only if it may have changed."""
        known = self._files.get(str(path))
        mark = _mark(status)
        if known is not None and known[0] == mark:
            return [_Chunk(*chunk) for chunk in known[1]]
        try:
            chunks = [_Chunk(*chunk) for chunk in _heliostat._cut_file(str(path))]
        except OSError as error:
            raise OSError(f"{path}: {error}; leave it out by 'excludes' or .rayignore") from None
        if time.time_ns() - status.st_mtime_ns > _RACY_NS:
            self._files[str(path)] = [mark, chunks]
        else:
            self._files.pop(str(path), None)
        return chunks

    def place(self, name: str) -> Extent | None:
        """The place of a chunk, if a pack of this node has it."""
        return self._places.get(name)

    def add(self, name: str, place: Extent) -> None:
        self._places[name] = place

    def write(self) -> None:
        """Keep it for the next driver. A book that cannot be written costs time alone."""
        told = {"files": self._files, "places": self._places}
        with contextlib.suppress(OSError):
            handle, draft = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._shelf)
            with os.fdopen(handle, "w") as file:
                json.dump(told, file, separators=(",", ":"))
            os.replace(draft, self._shelf / _BOOK)


def _mark(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def make(entries: Iterable[TreeEntry], shelf: Path, share: Callable[[str], None]) -> str:
    """Make a tree of what was found; its name, ``_ray_pkg_<hash>.zip``.

    ``share``: is called with the name of each pack, then of the tree, once it lies on the shelf.
    The name depends on names, contents and the right to run alone, not on when or where it was made.

    Raises ``OSError`` when a file cannot be read or changes again and again, or the shelf is full.
    """
    with open(shelf / _LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        book = _Book(shelf)
        lines: list[list[Any]] = []
        digest = hashlib.sha256()
        with _Pack(shelf, book) as pack:
            for found in sorted(entries):
                name = found.name.encode("utf-8", "surrogateescape")
                if found.is_folder:
                    lines.append(["d", found.name])
                    digest.update(b"d%d:%s" % (len(name), name))
                    continue
                chunks, mode = pack.take(found.path)
                runs = bool(mode & stat.S_IXUSR)
                lines.append(["x" if runs else "f", found.name, [chunk.name for chunk in chunks]])
                digest.update(b"%s%d:%s" % (b"x" if runs else b"f", len(name), name))
                for chunk in chunks:
                    digest.update(f"{chunk.name}{chunk.size}".encode())
        for line in lines:
            if line[0] != "d":
                line[2] = _joined(book, line[2])
        book.write()
        tree = f"_ray_pkg_{digest.hexdigest()[:32]}.zip"
        _write(shelf, tree, {"heliostat_tree": _RELEASE, "entries": lines})
        for used in sorted({extent[0] for line in lines if line[0] != "d" for extent in line[2]}):
            share(used)
        share(tree)
        return tree


def _write(shelf: Path, name: str, content: Mapping[str, Any]) -> None:
    handle, draft = tempfile.mkstemp(prefix=".", suffix=".part", dir=shelf)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(content, file, separators=(",", ":"))
        os.replace(draft, shelf / name)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _joined(book: _Book, chunks: Iterable[str]) -> list[Extent]:
    """The extents of chunks in order; neighbours in a pack are one."""
    joined: list[Extent] = []
    for name in chunks:
        place = book.place(name)
        assert place is not None, f"chunk {name} was not packed"
        last = joined[-1] if joined else None
        if last and last.pack == place.pack and last.offset + last.size == place.offset:
            joined[-1] = last._replace(size=last.size + place.size)
        else:
            joined.append(place)
    return joined


class _Pack:
    """A pack in the making. It gets its name, which its chunks make, at the end."""

    def __init__(self, shelf: Path, book: _Book) -> None:
        self._shelf, self._book = shelf, book
        self._new: dict[str, tuple[int, int]] = {}  # offset and size
        self._size = 0
        handle, draft = tempfile.mkstemp(prefix=".", suffix=".part", dir=shelf)
        self._file, self._draft = os.fdopen(handle, "wb"), Path(draft)

    def __enter__(self) -> _Pack:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._file.close()
        if error is None and self._new:
            names = hashlib.sha256("".join(self._new).encode()).hexdigest()[:32]
            name = f"_chunks_{names}.pack"
            os.replace(self._draft, self._shelf / name)
            for chunk, (offset, size) in self._new.items():
                self._book.add(chunk, Extent(name, offset, size))
        else:
            self._draft.unlink(missing_ok=True)

    def take(self, path: Path) -> tuple[list[_Chunk], int]:
        """The file's chunks, those that are new are in the pack then, and its mode."""
        for _ in range(_TRIES):
            status = path.stat()
            chunks = self._book.chunks(path, status)
            if self._pack(path, chunks):
                return chunks, status.st_mode
        raise OSError(f"{path} changes while it is read")

    def _pack(self, path: Path, chunks: list[_Chunk]) -> bool:
        """Whether the file still had these chunks."""
        missing = any(self._is_new(chunk) for chunk in chunks)
        if not missing:
            return True
        with open(path, "rb") as file:
            for chunk in chunks:
                data = file.read(chunk.size)
                if not self._is_new(chunk):
                    continue
                if _heliostat._chunk_name(data) != chunk.name:
                    return False
                self._file.write(data)
                self._new[chunk.name] = (self._size, chunk.size)
                self._size += chunk.size
        return True

    def _is_new(self, chunk: _Chunk) -> bool:
        return chunk.name not in self._new and self._book.place(chunk.name) is None


def is_tree(path: Path) -> bool:
    """Whether a package is a tree, not an archive."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def build(tree: Path, target: Path, have: Callable[[str], Path]) -> int:
    """Put the folder together; returns how many bytes its files have.

    ``target``: an empty folder, or one that was built before: what somebody has changed or added there
    goes, and what is in it as the tree wants it is not written again.
    ``have``: the path of a pack, which is brought to this node if need be.

    Raises :class:`TreeError`, and ``OSError``.
    """
    wanted = _read(tree)
    record = _record_of(target)
    kept = _clear(target, wanted, record)
    with contextlib.ExitStack() as stack:
        packs: dict[str, int] = {}
        for name, (kind, extents) in wanted.items():
            path = target / name
            if kind == "d":
                path.mkdir(parents=True, exist_ok=True)
                continue
            if name in kept:
                continue
            for extent in extents:
                if extent.pack not in packs:
                    file = stack.enter_context(open(have(extent.pack), "rb"))
                    packs[extent.pack] = file.fileno()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            handle = os.open(path, flags, 0o755 if kind == "x" else 0o644)
            try:
                for extent in extents:
                    _copy(packs[extent.pack], extent, handle)
            finally:
                os.close(handle)
    stamps = {
        name: _stamp(os.lstat(target / name)) for name, (kind, _) in wanted.items() if kind != "d"
    }
    files = {name: [stamp, *wanted[name]] for name, stamp in stamps.items()}
    record.write_text(json.dumps(files, separators=(",", ":")))
    _await_step(record, max((stamp[-1] for stamp in stamps.values()), default=0))
    return sum(size for _, size, *_ in stamps.values())


def _await_step(record: Path, newest_ns: int) -> None:
    """Wait until what is changed from now on has another time than what was written.

    The clock that stamps files has steps: 1 to 10 ms on Linux.
    """
    until = time.monotonic() + _STEP_S_MAX
    while record.stat().st_ctime_ns <= newest_ns:
        if time.monotonic() > until:
            record.unlink()
            return
        time.sleep(0.001)
        os.utime(record)


def _read(tree: Path) -> dict[str, tuple[str, list[Extent]]]:
    """The entries of a tree: kind and extents by name, folders before what is in them."""
    try:
        told = json.loads(tree.read_bytes())
        if told["heliostat_tree"] != _RELEASE:
            raise TreeError(f"the tree is of another release ({told['heliostat_tree']!r})")
        return {_safe(line[1]): (str(line[0]), _extents(line)) for line in told["entries"]}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise TreeError(f"the tree cannot be read: {error!r}") from None


def _record_of(folder: Path) -> Path:
    """Beside a folder: what was written into it, and the files' stamps then."""
    return folder.with_name(f"{folder.name}.record")


def move(folder: Path, to: Path) -> None:
    """Move a folder that was built, with what is recorded of it; if that raises, nothing is moved."""
    folder.rename(to)
    with contextlib.suppress(OSError):  # without it all is written anew
        _record_of(folder).rename(_record_of(to))


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _clear(target: Path, wanted: Mapping[str, tuple[str, list[Extent]]], record: Path) -> set[str]:
    """Remove what is not as the tree wants it; the names of the files that stay."""
    files: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        files = dict(json.loads(record.read_bytes()))
    record.unlink(missing_ok=True)
    kept: set[str] = set()

    def clear(folder: str, at: str) -> None:
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            name = f"{at}{entry.name}"
            kind, extents = wanted.get(name, ("", []))
            if entry.is_dir(follow_symlinks=False):
                if kind == "d":
                    clear(entry.path, f"{name}/")
                else:
                    shutil.rmtree(entry.path)
                continue
            known = files.get(name)
            status = entry.stat(follow_symlinks=False)
            if known == [_stamp(status), kind, [list(extent) for extent in extents]]:
                kept.add(name)
            else:
                os.unlink(entry.path)

    clear(str(target), "")
    return kept


def packs_of(tree: Path) -> set[str]:
    """The packs that a tree needs; none of what is not a tree."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, IndexError):
        if is_tree(tree):
            entries = json.loads(tree.read_bytes())["entries"]
            return {extent.pack for line in entries for extent in _extents(line)}
    return set()


def _extents(line: Any) -> list[Extent]:
    if line[0] == "d":
        return []
    extents = [Extent(str(pack), int(offset), int(size)) for pack, offset, size in line[2]]
    for extent in extents:
        is_plain = os.path.basename(extent.pack) == extent.pack and extent.pack[:1] not in ("", ".")
        if not is_plain or extent.offset < 0 or extent.size < 0:
            raise ValueError(f"{extent} is not a part of a pack")
    return extents


def _safe(name: Any) -> str:
    path = PurePosixPath(str(name))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{name!r} is not a path within the folder")
    return str(name)


def _copy(source: int, extent: Extent, target: int) -> None:
    offset, left = extent.offset, extent.size
    while left:
        try:
            moved = os.copy_file_range(source, target, left, offset_src=offset)
        except OSError:  # between file systems, or one that cannot
            moved = os.write(target, os.pread(source, min(left, 1 << 20), offset))
        if not moved:
            raise TreeError(f"the pack {extent.pack} is too short")
        offset, left = offset + moved, left - moved


def sweep(shelf: Path, bound: int, unused_s: float) -> None:
    """Remove packages, those used longest ago first, until ``bound`` bytes are left.

    What was used within ``unused_s`` stays, and so does a pack that a tree needs.
    """
    found = sorted(_packages(shelf), key=lambda one: one[1].st_mtime)
    total = sum(status.st_size for _, status in found)
    if total <= bound:
        return
    trees = {path: packs_of(path) for path, _ in found}
    until = time.time() - unused_s
    # Trees and archives first: packs of which no tree is left follow.
    for is_pack in (False, True):
        for path, status in found:
            if total <= bound:
                return
            if status.st_mtime > until or path.name.endswith(".pack") is not is_pack:
                continue
            if is_pack and any(path.name in packs for packs in trees.values()):
                continue
            with contextlib.suppress(OSError):
                path.unlink()
                total -= status.st_size
            trees.pop(path, None)


def _packages(shelf: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in shelf.iterdir():
        with contextlib.suppress(OSError):  # another one's draft, which has gone
            if not path.name.startswith("."):
                yield path, path.stat()
