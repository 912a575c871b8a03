"""A folder of files that a training function saved: on a local disk or on any ``pyarrow.fs``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heliostat.train.storage.filesystems import local_filesystem, resolve

_METADATA_FILE = ".metadata.json"


class Checkpoint:
    """A reference to a folder; it holds no data itself and is cheap to send.

    Attributes:
        path: The folder, as an absolute path or as a path on ``filesystem``.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> from ray.train import Checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> _ = pathlib.Path(folder, "weights.txt").write_text("0.5")
        >>> checkpoint = Checkpoint.from_directory(folder)
        >>> with checkpoint.as_directory() as found:
        ...     pathlib.Path(found, "weights.txt").read_text()
        '0.5'
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: Any | None = None) -> None:
        """Refer to ``path``, which may be a URI such as ``s3://bucket/dir``.

        Args:
            path: Folder of the checkpoint.
            filesystem: A ``pyarrow.fs.FileSystem``. Default: the local disk, or what the URI names.
        """
        self._filesystem, self.path = resolve(os.fspath(path), filesystem)

    @property
    def filesystem(self) -> Any:
        """The ``pyarrow.fs.FileSystem`` of the checkpoint (this property needs pyarrow)."""
        return local_filesystem() if self._filesystem is None else self._filesystem

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Refer to a local folder. Nothing is copied until it is reported.

        Args:
            path: The folder.

        Returns:
            The checkpoint.
        """
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files into a folder.

        Args:
            path: The folder. Default: a new temporary one.

        Returns:
            The folder.

        Raises:
            FileNotFoundError: The checkpoint is gone.
        """
        target = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint_")
        target = os.path.abspath(os.path.expanduser(target))
        os.makedirs(target, exist_ok=True)
        if self._filesystem is None:
            self._require_local()
            shutil.copytree(self.path, target, dirs_exist_ok=True)
        else:
            import pyarrow.fs

            pyarrow.fs.copy_files(
                self.path,
                target,
                source_filesystem=self._filesystem,
                destination_filesystem=local_filesystem(),
            )
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give a local folder with the files: the folder itself when it is local already.

        A remote checkpoint is downloaded once per node, shared by all processes that have it
        open, and removed when the last one leaves the block. Do not change the files.

        Raises:
            FileNotFoundError: The checkpoint is gone.
        """
        if self._filesystem is None:
            self._require_local()
            yield self.path
        else:
            with self._shared_download() as folder:
                yield folder

    def _require_local(self) -> None:
        if os.path.isfile(self.path):
            raise NotADirectoryError(
                f"The checkpoint {self.path} is a file. A checkpoint is a folder: put the file into "
                "one, and pass that to Checkpoint.from_directory()."
            )
        if not os.path.isdir(self.path):
            raise FileNotFoundError(
                f"The checkpoint folder {self.path} does not exist (any more). Report a checkpoint "
                "before its folder is removed, inside `with tempfile.TemporaryDirectory()`; one "
                "that was reported may have been removed by CheckpointConfig(num_to_keep=...)."
            )

    @contextlib.contextmanager
    def _shared_download(self) -> Iterator[str]:
        import fcntl

        digest = hashlib.sha1(f"{self._filesystem!r}|{self.path}".encode()).hexdigest()[:20]
        key = getattr(self._filesystem, "type_name", "fs")
        root = Path(tempfile.gettempdir(), f"heliostat-checkpoints-{os.getuid()}")
        root.mkdir(mode=0o700, exist_ok=True)
        folder = root / f"{key}-{digest}"
        with open(f"{folder}.lock", "w") as lock:
            # Exclusive while downloading, shared while in use; who can get it exclusively at the
            # end is the last user.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                partial = f"{folder}.part"
                shutil.rmtree(partial, ignore_errors=True)
                self.to_directory(partial)
                os.rename(partial, folder)
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield str(folder)
            finally:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata stored with the checkpoint, ``{}`` if there is none."""
        name = os.path.join(self.path, _METADATA_FILE)
        try:
            if self._filesystem is None:
                data = Path(name).read_bytes()
            else:
                with self._filesystem.open_input_stream(name) as stream:
                    data = stream.read()
        except FileNotFoundError:
            return {}
        loaded: dict[str, Any] = json.loads(data)
        return loaded

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata that is stored with the checkpoint.

        Args:
            metadata: Values by name, which fit into JSON.
        """
        name = os.path.join(self.path, _METADATA_FILE)
        data = json.dumps(metadata).encode()
        if self._filesystem is None:
            Path(f"{name}.tmp").write_bytes(data)
            os.replace(f"{name}.tmp", name)
        else:
            with self._filesystem.open_output_stream(name) as stream:
                stream.write(data)

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add to the metadata that is stored with the checkpoint.

        Args:
            metadata: Values by name, which fit into JSON.
        """
        self.set_metadata({**self.get_metadata(), **metadata})

    def __repr__(self) -> str:
        kind = "local" if self._filesystem is None else self._filesystem.type_name
        return f"Checkpoint(filesystem={kind}, path={self.path})"

    def __fspath__(self) -> str:
        if self._filesystem is not None:
            raise TypeError(f"{self!r} is not a local folder; use as_directory()")
        return self.path
