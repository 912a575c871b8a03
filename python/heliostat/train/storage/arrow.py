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
        sizes = _sizes(folder)
        self.filesystem.create_dir(self.join(final), recursive=True)
        pyarrow.fs.copy_files(
            folder,
            self.join(final),
            source_filesystem=local_filesystem(),
            destination_filesystem=self.filesystem,
            chunk_size=_CHUNK_BYTES,
        )
        # Arrow only logs what goes wrong as it closes a file: half of a checkpoint would be published.
        selector = pyarrow.fs.FileSelector(self.join(final), recursive=True)
        found = self.filesystem.get_file_info(selector)
        arrived = {info.path.rpartition(f"{final}/")[2]: info.size for info in found}
        for name, size in sizes.items():
            if (arrived.get(name) or 0) < size:
                raise OSError(
                    f"{name} of the reported checkpoint did not arrive whole in {self.join(final)}: "
                    "the connection to the storage was cut off."
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


def _sizes(folder: str) -> dict[str, int]:
    """The files below a folder by their relative names, in bytes."""
    paths = (os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder): os.path.getsize(path) for path in paths}
