"""Metadata of files for programs' own sources, before they read the files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from heliostat.data.block import BlockMetadata
from heliostat.data.sources.files import find

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value


__all__ = [
    "BaseFileMetadataProvider",
    "DefaultFileMetadataProvider",
    "FileMetadataProvider",
    "_handle_read_os_error",
]

# pyarrow's message where S3 answers that the caller may not see a file, without saying why.
_NOT_ALLOWED = re.compile(
    r"AWS Error (\[code \d+\]|UNKNOWN \(HTTP status 400\) during HeadObject operation"
    r"|ACCESS_DENIED during HeadObject operation): No response body\."
)


class FileMetadataProvider:
    """Says how many rows and bytes the files of one block have: implement :meth:`_get_block_metadata`.

    Examples:
        >>> from ray.data.datasource import DefaultFileMetadataProvider
        >>> provider = DefaultFileMetadataProvider()  # a FileMetadataProvider
        >>> known = provider(["a.bin", "b.bin"], rows_per_file=10, file_sizes=[100, 200])
        >>> known.num_rows, known.size_bytes
        (20, 300)
    """

    def _get_block_metadata(self, paths: list[str], **kwargs: Value) -> BlockMetadata:
        """Return what is known of the block that these files make."""
        raise NotImplementedError(f"{type(self).__name__} must implement _get_block_metadata()")

    def __call__(self, paths: list[str], **kwargs: object) -> BlockMetadata:
        return self._get_block_metadata(paths, **kwargs)


class BaseFileMetadataProvider(FileMetadataProvider):
    """Also finds the files: implement :meth:`expand_paths`, too.

    Examples:
        >>> from ray.data.datasource import BaseFileMetadataProvider, DefaultFileMetadataProvider
        >>> isinstance(DefaultFileMetadataProvider(), BaseFileMetadataProvider)
        True
    """

    def expand_paths(
        self,
        paths: list[str],
        filesystem: pa.fs.FileSystem,
        partitioning: object = None,
        ignore_missing_paths: bool = False,
    ) -> Iterator[tuple[str, int | None]]:
        """Yield each file below the paths, and its size in bytes. To be implemented.

        Args:
            paths: Files and folders on the filesystem.
            filesystem: Of pyarrow or fsspec. ``None``: as each path says.
            partitioning: How folders name columns.
            ignore_missing_paths: Pass over a path that does not exist. Default False.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement expand_paths()")


class DefaultFileMetadataProvider(BaseFileMetadataProvider):
    """Files as the filesystem lists them, in the order of their paths.

    Examples:
        >>> import pathlib, tempfile
        >>> from pyarrow.fs import LocalFileSystem
        >>> from ray.data.datasource import DefaultFileMetadataProvider
        >>> folder = tempfile.mkdtemp()
        >>> pathlib.Path(folder, "a.txt").write_text("four")
        4
        >>> [(path, size)] = DefaultFileMetadataProvider().expand_paths([folder], LocalFileSystem())
        >>> pathlib.Path(path).name, size
        ('a.txt', 4)
    """

    def _get_block_metadata(
        self,
        paths: list[str],
        *,
        rows_per_file: int | None = None,
        file_sizes: list[int | None] | None = None,
        **_: object,
    ) -> BlockMetadata:
        """Return the files' sum.

        Args:
            paths: The files.
            rows_per_file: Rows of each file, None if that is not known.
            file_sizes: In bytes, in the order of the files; None in it: not known.
        """
        sizes = [None] if file_sizes is None else file_sizes
        known = [size for size in sizes if size is not None]
        return BlockMetadata(
            None if rows_per_file is None else rows_per_file * len(paths),
            int(sum(known)) if len(known) == len(sizes) else None,
            input_files=list(paths),
        )

    def expand_paths(
        self,
        paths: list[str],
        filesystem: pa.fs.FileSystem,
        partitioning: object = None,
        ignore_missing_paths: bool = False,
    ) -> Iterator[tuple[str, int | None]]:
        """Yield each file below the paths, and its size in bytes.

        Args:
            paths: Files and folders on the filesystem.
            filesystem: Of pyarrow or fsspec. None: as each path says.
            partitioning: Without effect: all files are listed.
            ignore_missing_paths: Pass over a path that does not exist.

        Raises:
            FileNotFoundError: A path does not exist.
            ValueError: There is no file, and no path is missing.
        """
        found, _ = find(paths, filesystem, None, ignore_missing_paths)
        yield from ((file.path, file.size) for file in found)


def _handle_read_os_error(error: OSError, paths: str | list[str]) -> NoReturn:
    """Raise an error of storage again; one that means missing rights in S3 says what to look at.

    Args:
        error: What reading raised.
        paths: The file or the files that were read.
    """
    if _NOT_ALLOWED.search(str(error)) is None:
        raise error
    raise OSError(
        f"Failing to read AWS S3 file(s): {paths!r}. Does the file exist, and may these credentials read it? "
        "`aws s3 ls` with the same credentials says more."
    ) from error
