"""A run's folder on a ``pyarrow.fs`` filesystem, object stores included.

An object store cannot rename: files go to their final place at once, and the checkpoint becomes
visible when the snapshot, which is one object, records it.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from heliostat.train.storage.base import Storage

_CHUNK_BYTES = 8 << 20
_FILES_AT_ONCE = 8


class ArrowStorage(Storage):
    """See ``Storage``."""

    filesystem: Any

    def read(self, name: str) -> bytes | None:
        try:
            with self.filesystem.open_input_stream(self.join(name)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        self.filesystem.create_dir(os.path.dirname(self.join(name)), recursive=True)
        with self.filesystem.open_output_stream(self.join(name)) as stream:
            stream.write(data)

    def upload(self, folder: str, stage: str, final: str) -> None:
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"The reported checkpoint folder {folder} does not exist.")
        files = []
        for here, _, names in os.walk(folder):
            there = os.path.normpath(os.path.join(self.join(final), os.path.relpath(here, folder)))
            self.filesystem.create_dir(there, recursive=True)
            files += [(os.path.join(here, name), f"{there}/{name}") for name in names]
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            list(pool.map(lambda pair: self._copy(*pair), files))  # raises what went wrong

    def _copy(self, source: str, target: str) -> None:
        # `pyarrow.fs.copy_files` only logs what goes wrong as it closes a file, and half of a checkpoint
        # would be published. What is there afterwards proves nothing: another rank may be about to
        # write a file of the same name.
        with open(source, "rb") as file, self.filesystem.open_output_stream(target) as stream:
            shutil.copyfileobj(file, stream, _CHUNK_BYTES)

    def take(self, folder: str, stage: str, final: str) -> None:
        self.upload(folder, stage, final)
        shutil.rmtree(folder, ignore_errors=True)

    def publish(self, stage: str, final: str) -> None:
        """Move nothing: the snapshot makes it visible."""

    def retain(self, name: str, files: set[str]) -> None:
        import pyarrow.fs

        root = self.join(name)
        selector = pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True)
        for info in self.filesystem.get_file_info(selector):
            is_file = info.type == pyarrow.fs.FileType.File
            if is_file and info.path.removeprefix(f"{root}/") not in files:
                self.filesystem.delete_file(info.path)

    def abandon(self, stage: str) -> None:
        """Do nothing: files under their final name are removed by that name."""

    def delete(self, name: str) -> None:
        import pyarrow.fs

        if self.filesystem.get_file_info(self.join(name)).type == pyarrow.fs.FileType.Directory:
            self.filesystem.delete_dir(self.join(name))

    def clear_staging(self) -> None:
        """Interrupted uploads lie under their final names; the snapshot does not list them."""

    def exists(self, name: str) -> bool:
        import pyarrow.fs

        kind = self.filesystem.get_file_info(self.join(name)).type
        return bool(kind == pyarrow.fs.FileType.Directory)
