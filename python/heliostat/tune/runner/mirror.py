"""A search whose storage is not a disk: its files lie in a local folder, and a thread copies what changes.

An object store cannot append. The journal goes there in *parts*, objects named by the byte at which they
begin; the end of the search puts the whole journal in their place. Who reads takes the whole one first, then
what parts have beyond it, so that no order of writes and deaths shows a record twice or with a gap before it.
Other files are copied whole when they have changed. Checkpoints do not come by here: trials store them.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from heliostat.train.storage.arrow import ArrowStorage
from heliostat.tune.error import TuneError

logger = logging.getLogger("heliostat")

JOURNAL = "experiment_log.pkl"
PARTS = f"{JOURNAL}.parts"
TUNER = "tuner.pkl"

EVERY_S = 1.0  # between two copies of what the journal has more
# Between two looks at all other files, which take at most so much of the time.
LOOK_EVERY_S, LOOK_SHARE = 10.0, 0.05
FILES_AT_ONCE = 16
_CHECKPOINT = re.compile(r"(^|/)checkpoint_\d{6}/")
_LEFT_OUT = re.compile(r"(^|/)\.lock$|\.part$")


class Mirror:
    """Copies the files of a search to its storage."""

    def __init__(self, folder: str, storage: ArrowStorage) -> None:
        self._folder, self._storage, self._path = folder, storage, storage.path
        self._sent = 0  # bytes of the journal
        self._seen: dict[str, tuple[int, int]] = {}  # files as they were when they were copied
        self._next_look = 0.0
        self._error: OSError | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._main, name="heliostat-mirror", daemon=True)

    def begin(self, is_there: bool) -> None:
        """Begin to copy.

        Args:
            is_there: Whether the storage has what the folder has now of its trials.

        Raises:
            TuneError: The storage takes nothing.
        """
        try:
            if is_there:
                self._seen = {name: mark for name, mark in self._files() if "/" in name}
                self._put_whole()  # parts may end in a torn record, which was cut off here
            self._copy_files()
            self._copy_journal()
        except OSError as error:
            raise TuneError(f"A search cannot keep its files in {self._path}: {error}") from error
        self._thread.start()

    def close(self) -> None:
        """Copy the rest.

        Raises:
            TuneError: It was not possible; the message says where the files are.
        """
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._copy_files()
            self._put_whole()
        except OSError as error:
            raise TuneError(
                f"The files of the search cannot be copied to {self._path}: {error}. They are in "
                f"{self._folder} until this process ends."
            ) from error

    def _main(self) -> None:
        while not self._ends.wait(EVERY_S):
            try:
                self._copy_journal()
                if time.monotonic() >= self._next_look:
                    self._copy_files()
                self._error = None
            except OSError as error:
                if self._error is None:
                    logger.warning(
                        "What the search has written is not in %s yet, and is tried again: %s",
                        self._path,
                        error,
                    )
                self._error = error

    def _put_whole(self) -> None:
        """The journal in one object instead of its parts."""
        with open(os.path.join(self._folder, JOURNAL), "rb") as file:
            whole = file.read()
        self._storage.write(JOURNAL, whole)
        self._storage.delete(PARTS)
        self._sent = len(whole)

    def _copy_journal(self) -> None:
        if self._journal_bytes() == self._sent:
            return
        with open(os.path.join(self._folder, JOURNAL), "rb") as file:
            file.seek(self._sent)
            more = file.read()
        self._storage.write(f"{PARTS}/{self._sent:016d}", more)
        self._sent += len(more)

    def _journal_bytes(self) -> int:
        try:
            return os.path.getsize(os.path.join(self._folder, JOURNAL))
        except FileNotFoundError:
            return 0

    def _copy_files(self) -> None:
        began = time.monotonic()
        changed = [(name, mark) for name, mark in self._files() if self._seen.get(name) != mark]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            for name, mark in zip(
                (name for name, _ in changed), pool.map(self._copy, changed), strict=True
            ):
                self._seen[name] = mark
        took = time.monotonic() - began
        self._next_look = time.monotonic() + max(LOOK_EVERY_S, took / LOOK_SHARE)

    def _copy(self, changed: tuple[str, tuple[int, int]]) -> tuple[int, int]:
        name, mark = changed
        try:
            with open(os.path.join(self._folder, name), "rb") as file:
                self._storage.write(name, file.read())
        except FileNotFoundError:
            pass  # it was a file for a moment
        return mark

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for here, _, names in os.walk(self._folder):
            for file in names:
                name = os.path.relpath(os.path.join(here, file), self._folder).replace(os.sep, "/")
                if name == JOURNAL or _LEFT_OUT.search(name) or _CHECKPOINT.search(name):
                    continue
                try:
                    about = os.stat(os.path.join(here, file))
                except FileNotFoundError:
                    continue
                yield name, (about.st_mtime_ns, about.st_size)


def staging_folder(name: str) -> str:
    """A local folder for the files of a search, which goes when the process ends."""
    folder = tempfile.mkdtemp(prefix=f"{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def has_search(storage: ArrowStorage) -> bool:
    """Whether a search has its files there."""
    if storage.read(TUNER) is None:
        return False
    return storage.read(JOURNAL) is not None or storage.exists(PARTS)


def fetch(storage: ArrowStorage) -> str:
    """Copy the files of a search, without its checkpoints, into a local folder, which is returned."""
    import pyarrow.fs

    folder = staging_folder(storage.name)
    root = storage.path.rstrip("/")
    selector = pyarrow.fs.FileSelector(root, recursive=True)
    names = [
        info.path.removeprefix(f"{root}/")
        for info in storage.filesystem.get_file_info(selector)
        if info.type == pyarrow.fs.FileType.File
    ]
    parts = sorted(name for name in names if name.startswith(f"{PARTS}/"))
    others = [
        name
        for name in names
        if name not in parts and not _CHECKPOINT.search(name) and name != JOURNAL
    ]

    def copy(name: str) -> None:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(storage.read(name) or b"")

    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        list(pool.map(copy, others))
    with open(os.path.join(folder, JOURNAL), "wb") as file:
        file.write(_whole(storage, parts))
    return folder


def _whole(storage: ArrowStorage, parts: list[str]) -> bytes:
    journal = bytearray(storage.read(JOURNAL) or b"")
    for name in parts:
        begin = int(name.rpartition("/")[2])
        if begin > len(journal):
            break  # the part between is not there
        journal += (storage.read(name) or b"")[len(journal) - begin :]
    return bytes(journal)


def is_of_one_process(filesystem: object) -> bool:
    """Whether what a process writes there is seen by no other, as with ``memory://``."""
    spec = getattr(getattr(filesystem, "handler", None), "fs", None)
    return getattr(filesystem, "type_name", "") == "mock" or "memory" in (
        getattr(spec, "protocol", None) or ()
    )
