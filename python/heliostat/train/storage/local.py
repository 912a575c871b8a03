"""A run's folder on a local disk or on a shared mount: publishing is one rename."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from io import FileIO

from heliostat.train.storage.base import Storage, files_below

# Files are copied in pieces of so many bytes; larger ones are no faster.
_PIECE = 1 << 20
_STAGING, _LOCK = ".staging", ".lock"
# ioctl number of Linux: share the blocks of another file, copied only when one side is written.
_FICLONE = 0x40049409


class LocalStorage(Storage):
    """See ``Storage``."""

    def take_place(self) -> bool:
        """Make the folder; whether it is ours alone, also among processes that try at once."""
        try:
            os.makedirs(self.path)
        except FileExistsError:
            return False
        return True

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        # Without a buffer: what a full disk does not take must not be missed at the end of the run.
        lock = os.open(self.join(_LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.read(lock, 200).decode(errors="replace") or "its driver is not known"
                raise ValueError(
                    f"Another run is using {self.path} ({owner}). Wait for its end, or choose "
                    "another RunConfig(name=...)."
                ) from None
            except OSError:  # a network mount that knows no locks
                pass
            with contextlib.suppress(OSError):
                os.ftruncate(lock, 0)
                os.write(lock, f"pid {os.getpid()} on {socket.gethostname()}".encode())
            yield
        finally:
            os.close(lock)

    def read(self, name: str) -> bytes | None:
        try:
            with open(self.join(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        target = self.join(name)
        partial = _partial_name(target)
        try:
            file = open(partial, "wb")  # noqa: SIM115 - reopened below
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            file = open(partial, "wb")  # noqa: SIM115 - closed by the next line
        with _renamed(partial, target), file:
            file.write(data)
            if self._fsync:
                file.flush()
                os.fsync(file.fileno())

    def upload(self, folder: str, stage: str, final: str) -> None:
        for source, target in self._pairs(folder, stage):
            partial = _partial_name(target)
            with _renamed(partial, target):
                _copy(source, partial, fsync=self._fsync)

    def take(self, folder: str, stage: str, final: str) -> None:
        for source, target in self._pairs(folder, stage):
            try:
                os.replace(source, target)
            except OSError:  # another disk
                partial = _partial_name(target)
                _copy(source, partial, fsync=self._fsync)
                os.replace(partial, target)
        shutil.rmtree(folder, ignore_errors=True)

    def _pairs(self, folder: str, stage: str) -> Iterator[tuple[str, str]]:
        """(source, target) of every file below ``folder``; target folders exist."""
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"The reported checkpoint folder {folder} does not exist. Report it before it is "
                "removed, for example inside the `with tempfile.TemporaryDirectory()` block."
            )
        root = self.join(_STAGING, stage)
        for here, _, files in os.walk(folder):
            there = os.path.normpath(os.path.join(root, os.path.relpath(here, folder)))
            os.makedirs(there, exist_ok=True)
            for file in files:
                yield os.path.join(here, file), os.path.join(there, file)

    def publish(self, stage: str, final: str) -> None:
        source, target = self.join(_STAGING, stage), self.join(final)
        try:
            os.rename(source, target)
        except OSError:
            if not os.path.isdir(target):
                raise
            # The user chose a name that exists: the new files replace it as a whole.
            old = _partial_name(self.join(_STAGING, f"{stage}.old"))
            os.rename(target, old)
            os.rename(source, target)
            shutil.rmtree(old, ignore_errors=True)
        if self._fsync:
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def retain(self, name: str, files: set[str]) -> None:
        folder = self.join(name)
        for path in files_below(folder):
            if path not in files:
                os.unlink(os.path.join(folder, path))

    def abandon(self, stage: str) -> None:
        shutil.rmtree(self.join(_STAGING, stage), ignore_errors=True)

    def delete(self, name: str) -> None:
        # Out of sight in one step, then file by file.
        trash = _partial_name(self.join(_STAGING, f"{name}.deleted"))
        os.makedirs(os.path.dirname(trash), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.join(name), trash)
            shutil.rmtree(trash, ignore_errors=True)

    def clear_staging(self) -> None:
        shutil.rmtree(self.join(_STAGING), ignore_errors=True)

    def exists(self, name: str) -> bool:
        return os.path.isdir(self.join(name))


def _partial_name(target: str) -> str:
    return f"{target}.{os.getpid()}-{threading.get_ident()}.tmp"


@contextlib.contextmanager
def _renamed(partial: str, target: str) -> Iterator[None]:
    """Rename the file that the block writes to its name; remove it where the block fails."""
    try:
        yield
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _copy(source: str, target: str, *, fsync: bool) -> None:
    """Copy a file, by sharing blocks where the filesystem can."""
    with open(source, "rb", buffering=0) as src, open(target, "wb", buffering=0) as dst:
        if not _clone(src, dst):
            _copy_bytes(src, dst)
        if fsync:
            os.fsync(dst.fileno())


def _clone(source: FileIO, target: FileIO) -> bool:
    try:
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError:
        return False
    return True


def _copy_bytes(source: FileIO, target: FileIO) -> None:
    """In pieces that the page cache takes as large pages: ``sendfile``, with small ones, is slower."""
    size = os.fstat(source.fileno()).st_size
    buffer = memoryview(bytearray(min(_PIECE, size + 1)))
    while count := source.readinto(buffer):
        rest = buffer[:count]
        while rest:
            rest = rest[target.write(rest) :]
