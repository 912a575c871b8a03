"""Finding the files of a dataset, on any filesystem of pyarrow or fsspec."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import random
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.fs as pafs

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class FileShuffleConfig:
    r"""Read files in random order.

    Args:
        seed: The same order whenever the program is run. Default: another one each time.
        reseed_after_execution: With a seed: another order each time the same dataset is executed.
            Default True.

    Raises:
        ValueError: ``seed`` is neither None nor an integer.

    Examples:
        >>> import pathlib, tempfile
        >>> import ray
        >>> from ray.data import FileShuffleConfig
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i in range(4):
        ...     _ = (folder / f"{i}.csv").write_text(f"x\n{i}\n")
        >>> ds = ray.data.read_csv(str(folder), shuffle=FileShuffleConfig(seed=7))
        >>> sorted(row["x"] for row in ds.take_all())
        [0, 1, 2, 3]
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"Seed must be an integer or None, got {self.seed!r}.")

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """Return the seed of an execution; ``None``: there is none.

        Args:
            execution_idx: Its number, from 0.
        """
        if self.seed is None or not self.reseed_after_execution:
            return self.seed
        return int(np.random.SeedSequence([abs(self.seed), execution_idx]).generate_state(1)[0])


@dataclass(frozen=True)
class File:
    """A file and its size in bytes."""

    path: str
    size: int


def as_filesystem(filesystem: pa.fs.FileSystem) -> pa.fs.FileSystem:
    """pyarrow's view of a filesystem of pyarrow or fsspec."""
    if filesystem is None or isinstance(filesystem, pafs.FileSystem):
        return filesystem
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))


def resolve(
    path: str | os.PathLike[str], filesystem: pa.fs.FileSystem
) -> tuple[str, pa.fs.FileSystem]:
    """(path on its filesystem, filesystem) for a path or URI.

    Raises:
        ValueError: No filesystem is known for the URI.
    """
    path = os.fspath(path)
    given = as_filesystem(filesystem)
    if given is not None:
        bare = path.split("://", 1)[1] if "://" in path else path
        return (bare.rstrip("/") or "/"), given
    if "://" not in path:
        return os.path.abspath(os.path.expanduser(path)), pafs.LocalFileSystem()
    scheme = path.split("://", 1)[0]
    if scheme == "local":
        return path.split("://", 1)[1], pafs.LocalFileSystem()
    try:
        found, rest = pafs.FileSystem.from_uri(urllib.parse.quote(path, safe=":/?&=%@+~#"))
        return urllib.parse.unquote(rest), found
    except Exception as error:
        try:
            import fsspec

            other, rest = fsspec.core.url_to_fs(path)
        except Exception:
            raise ValueError(
                f"no filesystem is known for {path!r} ({error}). Pass `filesystem=`."
            ) from error
        return rest, as_filesystem(other)


def without(
    paths: str | list[str],
    skipped: str | list[str],
    filesystem: pa.fs.FileSystem,
    keep: Callable[[list[str]], list[str]] | None,
) -> tuple[list[str], Callable[[list[str]], list[str]]]:
    """(the paths without those ``skipped``, a filter of files that leaves them out, too).

    Args:
        paths: A path of a file or folder, or several.
        skipped: A path of a file, or several; it does not matter whether there is one.
        filesystem: Theirs. Default: by the paths.
        keep: A filter that is also asked. Default: none.
    """
    several = [skipped] if isinstance(skipped, str | os.PathLike) else skipped
    names = {resolve(path, filesystem)[0] for path in several}
    given = [paths] if isinstance(paths, str | os.PathLike) else paths

    def kept(found: list[str]) -> list[str]:
        rest = [path for path in found if path not in names]
        return rest if keep is None or not rest else list(keep(rest))

    return [path for path in given if resolve(path, filesystem)[0] not in names], kept


def find(
    paths: str | list[str],
    filesystem: pa.fs.FileSystem,
    extensions: list[str] | None,
    ignore_missing: bool,
    keep: Callable[[str], bool] | None = None,
) -> tuple[list[File], pa.fs.FileSystem]:
    """All files below the paths, in the order of the paths, and the filesystem they are on.

    A path at which there is nothing may be a pattern, as of a shell.
    Names that begin with a dot or an underscore are left out of folders.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(several, list | tuple):
        raise ValueError(
            f"paths must be a string, a pathlib.Path or a list of them, got {type(paths).__name__}."
        )
    if not several:
        raise ValueError("Must provide at least one path.")
    endings = tuple(f".{e.lower().lstrip('.')}" for e in extensions or ())
    found: list[File] = []
    used: pa.fs.FileSystem = None
    for given in several:
        path, used = resolve(given, filesystem)
        info = used.get_file_info(path)
        if info.type == pafs.FileType.NotFound:
            matching = {file.path: file for file in _matching(used, path)}
            if not matching and not ignore_missing:
                hint = "; nothing matches the pattern" if _is_pattern(path) else ""
                raise FileNotFoundError(f"there is no file or folder {path}{hint}")
            found += matching.values()
        elif info.type == pafs.FileType.Directory:
            found += _below(used, path)
        else:
            found.append(File(path, info.size or 0))
    chosen = [f for f in found if not endings or f.path.lower().endswith(endings)]
    if keep is not None:
        chosen = [f for f in chosen if keep(f.path)]
    if not chosen and not ignore_missing:
        what = f"No files found under {several}."
        if found:
            others = sorted({posixpath.splitext(f.path)[1] or "no extension" for f in found})
            raise ValueError(
                f"{what[:-1]} with one of the extensions {list(extensions or ())}; there are files with "
                f"{', '.join(others[:5])}. file_extensions=None reads files of any name."
            )
        raise ValueError(f"{what} Note that listing skips names starting with '_' or '.'.")
    return chosen, used


def _is_pattern(path: str) -> bool:
    return any(one in path for one in "*?[")


def _matching(filesystem: pa.fs.FileSystem, pattern: str) -> Iterator[File]:
    """The files that match a pattern of ``*``, ``?``, ``[...]`` and ``**``, and those in folders that do."""
    if not _is_pattern(pattern):
        return
    parts = pattern.split("/")
    plain = next(number for number, part in enumerate(parts) if _is_pattern(part))
    root, wanted = "/".join(parts[:plain]), parts[plain:]
    selector = pafs.FileSelector(root or "/", allow_not_found=True, recursive=len(wanted) > 1)
    for info in sorted(filesystem.get_file_info(selector), key=lambda i: i.path):
        if _meets(posixpath.relpath(info.path, root or "/").split("/"), wanted):
            if info.type == pafs.FileType.Directory:
                yield from _below(filesystem, info.path)
            else:
                yield File(info.path, info.size or 0)


def _meets(parts: list[str], wanted: list[str]) -> bool:
    """Whether the parts of a path are those of a pattern; ``**`` is any number of folders."""
    if not wanted or not parts:
        return not parts and all(one == "**" for one in wanted)
    if wanted[0] == "**":
        return _meets(parts, wanted[1:]) or _meets(parts[1:], wanted)
    is_hidden = parts[0].startswith(".") and not wanted[0].startswith(".")
    is_met = not is_hidden and fnmatch.fnmatchcase(parts[0], wanted[0])
    return is_met and _meets(parts[1:], wanted[1:])


def _below(filesystem: pa.fs.FileSystem, path: str) -> Iterator[File]:
    selector = pafs.FileSelector(path, recursive=True)
    for info in sorted(filesystem.get_file_info(selector), key=lambda i: i.path):
        parts = posixpath.relpath(info.path, path).split("/")
        if info.type == pafs.FileType.File and not any(p.startswith((".", "_")) for p in parts):
            yield File(info.path, info.size or 0)


def in_order(files: list[File], shuffle: object, execution: int = 0) -> list[File]:
    """The files as they are to be read in an execution, given by its number."""
    if shuffle is None:
        return files
    if shuffle != "files" and not isinstance(shuffle, FileShuffleConfig):
        raise ValueError(f"shuffle must be None, 'files' or a FileShuffleConfig, got {shuffle!r}.")
    mixed = list(files)
    seed = shuffle.get_seed(execution) if isinstance(shuffle, FileShuffleConfig) else None
    random.Random(seed).shuffle(mixed)
    return mixed


def grouped(files: list[File], groups: int) -> Iterator[list[File]]:
    """Neighbouring files together, so that the groups are about as large as each other."""
    total = sum(max(f.size, 1) for f in files)
    part: list[File] = []
    done, made = 0, 0
    for i, file in enumerate(files):
        part.append(file)
        done += max(file.size, 1)
        left = len(files) - i - 1
        if done >= (made + 1) * total / groups or left < groups - made - 1:
            yield part
            part = []
            made += 1
    if part:
        yield part
