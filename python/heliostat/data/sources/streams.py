"""Opening files to read from, packed or not."""

from __future__ import annotations

import pyarrow as pa

from heliostat.core.platform.extras import required

SNAPPY = "snappy"


def opened(filesystem: pa.fs.FileSystem, path: str, open_args: dict[str, object]) -> pa.NativeFile:
    """A stream of a file's contents; "gz", "bz2", "zst", "lz4", "br" and "snappy" are unpacked.

    ``open_args`` are those of ``FileSystem.open_input_stream``; ``compression`` may also be "snappy".
    By default the file's name decides.

    Raises:
        ImportError: The file is packed with Snappy, and the package that unpacks it is missing.
    """
    chosen = open_args.get("compression", "detect")
    by_name = chosen in (None, "detect")
    if chosen != SNAPPY and not (by_name and path.endswith(f".{SNAPPY}")):
        if by_name:
            open_args = {**open_args, "compression": "detect"}
        return filesystem.open_input_stream(path, **open_args)
    # Arrow unpacks single blocks of Snappy, not its framing format, which is what files have.
    cramjam = required("cramjam", "files packed with Snappy")
    plain = {**open_args, "compression": None}
    with filesystem.open_input_stream(path, **plain) as stream:
        return pa.BufferReader(pa.py_buffer(bytes(cramjam.snappy.decompress(stream.read()))))
