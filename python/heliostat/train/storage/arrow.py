"""A run's folder on a ``pyarrow.fs`` filesystem, object stores included.

An object store cannot rename: files go to their final place at once, and the checkpoint becomes
visible when the snapshot, which is one object, records it.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from heliostat.train.storage.base import Storage
from heliostat.train.storage.filesystems import local_filesystem

_CHUNK_BYTES = 8 << 20


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
        import pyarrow.fs

        if not os.path.isdir(folder):
            raise FileNotFoundError(f"The reported checkpoint folder {folder} does not exist.")
        self.filesystem.create_dir(self.join(final), recursive=True)
        pyarrow.fs.copy_files(
            folder,
            self.join(final),
            source_filesystem=local_filesystem(),
            destination_filesystem=self.filesystem,
            chunk_size=_CHUNK_BYTES,
        )

    def take(self, folder: str, stage: str, final: str) -> None:
        self.upload(folder, stage, final)
        shutil.rmtree(folder, ignore_errors=True)

    def publish(self, stage: str, final: str) -> None:
        """Nothing to move: the snapshot makes it visible."""

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
