"""``history`` in a store such as S3: copies that follow what a head writes, and opening them.

In the store a file that is complete has its name. Of the one that is being written there are parts, each
named by the byte at which it begins, so that a copy costs what was added; they go when the file is complete.
The figures of machines, whose files are written all over, are packed every ten minutes, and in the end.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heliostat.util.commands import exit_code

# How often what was added is copied, in seconds.
EVERY_S = 5.0
# How often the figures of machines are.
FIGURES_EVERY_S = 600.0
_FIGURES, _PACKED = "metrics", "metrics.tar.gz"

_NAME = re.compile(r"(\d{8}\.history)(?:\.part-(\d{12}))?")


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    parser = argparse.ArgumentParser(prog=f"{program} history", allow_abbrev=False)
    parser.add_argument("place", help="where the history is: s3://BUCKET/FOLDER")
    parser.add_argument("--port", type=int, help="port [default: 8265, or the next free one]")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.follow is not None:
        return exit_code(lambda: follow(options.follow, options.place))
    return exit_code(lambda: _open(options.place, options.port, program))


class Store:
    """A folder in a store that ``fsspec`` reads."""

    def __init__(self, place: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise ValueError(
                f"{place} is read by the package fsspec, which is not installed here "
                "(for s3:// with s3fs)."
            ) from None
        try:
            self._files, self._folder = fsspec.core.url_to_fs(place)
        except (ImportError, OSError, ValueError) as error:
            raise ValueError(f"{place} cannot be read: {error}") from None

    def names(self) -> list[str]:
        """The names of what is in the folder, in order."""
        self._files.invalidate_cache()
        try:
            found: list[Any] = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rsplit("/", 1)[-1] for path in found)

    def read(self, name: str) -> bytes:
        """Return the bytes under that name."""
        data: bytes = self._files.cat_file(f"{self._folder}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put it under that name."""
        self._files.makedirs(self._folder, exist_ok=True)
        self._files.pipe_file(f"{self._folder}/{name}", data)

    def remove(self, name: str) -> None:
        """Take it away."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._folder}/{name}")


@contextlib.contextmanager
def _reached(place: str) -> Iterator[None]:
    """Say in a sentence what a store does not do: each has errors of its own."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{place} cannot be reached: {error}") from error


class Copy:
    """The copy of a history in a store."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        # The copied part of the file that is written now: its name, and its bytes.
        self._name = ""
        self._bytes = 0
        self._complete: set[str] = set()
        self._figures_at = -FIGURES_EVERY_S

    def copy_figures(self, is_last: bool = False) -> None:
        """Copy what machines used, when it is time."""
        figures = self._folder.with_name(_FIGURES)
        now = time.monotonic()
        if not figures.is_dir() or (now - self._figures_at < FIGURES_EVERY_S and not is_last):
            return
        self._figures_at = now
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
            archive.add(figures, _FIGURES)
        self._store.write(_PACKED, packed.getvalue())

    def bring_up_to_date(self) -> None:
        """Copy what was added since."""
        names = sorted(path.name for path in self._folder.glob("*.history"))
        for name in names[:-1]:
            if name not in self._complete:
                self._store.write(name, (self._folder / name).read_bytes())
                self._complete.add(name)
                self._drop_parts(name)
        if not names:
            return
        if names[-1] != self._name:
            self._name, self._bytes = names[-1], 0
        with open(self._folder / self._name, "rb") as file:
            file.seek(self._bytes)
            added = file.read()
        if added:
            self._store.write(f"{self._name}.part-{self._bytes:012}", added)
            self._bytes += len(added)
        # The head removes the oldest when there is too much.
        for name in sorted(self._complete - set(names)):
            self._store.remove(name)
            self._complete.discard(name)

    def _drop_parts(self, name: str) -> None:
        for found in self._store.names():
            if found.startswith(f"{name}.part-"):
                self._store.remove(found)


def follow(folder: Path, place: str) -> int:
    """Copy what a head writes for as long as it lives, and the rest then."""
    head = os.getppid()
    copy = Copy(folder, Store(place))
    with _reached(place):
        while os.getppid() == head:
            copy.bring_up_to_date()
            copy.copy_figures()
            until = time.monotonic() + EVERY_S
            while time.monotonic() < until and os.getppid() == head:
                time.sleep(0.2)
        copy.bring_up_to_date()
        copy.copy_figures(is_last=True)
    return 0


def fetch(store: Store, folder: Path) -> None:
    """Put the history together in a folder of this machine."""
    parts: dict[str, dict[int, str]] = {}
    whole = set()
    for name in store.names():
        if name == _PACKED:
            _unpack(store.read(name), folder)
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        if found[2] is None:
            whole.add(name)
        else:
            parts.setdefault(found[1], {})[int(found[2])] = name
    for name in whole:
        (folder / name).write_bytes(store.read(name))
    for name, of_file in parts.items():
        if name in whole:
            continue
        with open(folder / name, "wb") as file:
            for begin in sorted(of_file):
                there = file.tell()
                # Behind a part that is missing nothing can be read.
                if begin > there:
                    break
                # Copying that failed began anew with the whole file, and the parts of before are still there.
                file.write(store.read(of_file[begin])[there - begin :])


def _unpack(packed: bytes, folder: Path) -> None:
    """Put the figures of machines there, and nothing else."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            path, file = Path(member.name), archive.extractfile(member)
            if file is None or path.parts[0] != _FIGURES or ".." in path.parts:
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(file.read())


def _open(place: str, port: int | None, program: str) -> int:
    store = Store(place)
    with tempfile.TemporaryDirectory(prefix="heliostat-history-") as name:
        folder = Path(name)
        with _reached(place):
            fetch(store, folder)
        if not any(folder.glob("*.history")):
            raise ValueError(
                f"There is no history in {place}: it would have files such as 00000001.history."
            )
        binary = Path(__file__).parent.parent / "bin" / "heliostat"
        command = [str(binary), "history", "open", str(folder)]
        if port is not None:
            command.append(f"--port={port}")
        try:
            return subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
