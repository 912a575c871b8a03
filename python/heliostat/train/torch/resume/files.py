"""Sharded state in a folder, in the format of ``torch.distributed.checkpoint``, with checksums.

Each rank writes its shards and says what it has written in ``.sums-<rank>.json``; the folder of one
rank and that of another are merged by `report`. What is read has been compared with the sums.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, StorageReader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from heliostat.train.errors import CheckpointMismatchError, DamagedCheckpointError
from heliostat.train.torch.resume.view import REST

_SUMS = ".sums-{}.json"
_CHUNK = 4 << 20


def sign(folder: str, rank: int, world_size: int) -> None:
    """Write down what the files of ``folder``, which rank ``rank`` has written, are like."""
    files = {name: _sum(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
    content = {"files": files, "world_size": world_size}
    Path(folder, _SUMS.format(rank)).write_text(json.dumps(content))


def _sum(path: str) -> list[int]:
    """Size and CRC-32."""
    size = digest = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            size, digest = size + len(chunk), zlib.crc32(chunk, digest)
    return [size, digest]


def verify(folder: str, rank: int = 0, world_size: int = 1) -> None:
    """Compare the files with their sums; with several ranks, this rank's share of them.

    Raises:
        DamagedCheckpointError: A file is missing, or other than it was written.
        CheckpointMismatchError: The folder holds something else.
    """
    first = Path(folder, _SUMS.format(0))
    if not first.exists() and not Path(folder, ".metadata").exists():
        raise CheckpointMismatchError(
            f"The checkpoint {folder} holds no sharded state: it was not made by "
            "train.torch.resumable(...).report(). Load it as it was saved."
        )
    files: dict[str, list[int]] = {}
    try:
        writers = json.loads(first.read_text())["world_size"]
        for writer in range(writers):
            files.update(json.loads(Path(folder, _SUMS.format(writer)).read_text())["files"])
    except (OSError, ValueError, KeyError) as error:
        raise DamagedCheckpointError(
            f"The checkpoint {folder} is incomplete: its sums cannot be read ({error})."
        ) from error
    for number, name in enumerate(sorted(files)):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise DamagedCheckpointError(
                f"The checkpoint {folder} is incomplete: {name} is missing."
            )
        is_mine = number % world_size == rank
        if os.path.getsize(path) != files[name][0] or (is_mine and _sum(path) != files[name]):
            raise DamagedCheckpointError(
                f"The checkpoint {folder} is damaged: {name} is not as it was written."
            )


def load(flat: dict[str, Any], reader: StorageReader, where: str) -> None:
    """Fill ``flat`` in place, each rank with what it holds now, however it was saved.

    Raises:
        CheckpointMismatchError: A tensor is missing there, or has another shape.
    """
    _check(flat, reader.read_metadata(), where)
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    try:
        with warnings.catch_warnings():  # that each rank reads alone is meant
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            dcp.load(flat, storage_reader=reader, planner=planner, no_dist=True)
    except CheckpointException as error:
        cause = next(iter(error.failures.values()))[0]
        raise DamagedCheckpointError(f"{where} cannot be read: {cause}") from error


def _is_tensor(value: Any, name: str) -> bool:
    return isinstance(value, torch.Tensor) or name == REST


def load_folder(flat: dict[str, Any], folder: str) -> None:
    """``load`` from files."""
    load(flat, FileSystemReader(folder), f"The checkpoint {folder}")


def _check(flat: dict[str, Any], metadata: Metadata, where: str) -> None:
    there = metadata.state_dict_metadata
    for name in [n for n, v in flat.items() if n not in there and not _is_tensor(v, n)]:
        del flat[name]  # an option of an optimizer, which stays as it is
    for name, value in flat.items():
        if name not in there:
            raise CheckpointMismatchError(
                f"{where} has no {name}: it was saved from another model or optimizer. Make them as "
                "they were made there; only the number of workers and the mesh may differ."
            )
        saved = there[name]
        if not isinstance(value, torch.Tensor) or not isinstance(saved, TensorStorageMetadata):
            continue
        if tuple(saved.size) != tuple(value.shape):
            raise CheckpointMismatchError(
                f"{where} has {name} with the shape {tuple(saved.size)}, and here it has "
                f"{tuple(value.shape)}: it cannot be resharded. Make the model as it was made there; "
                "only the number of workers and the mesh may differ."
            )
    objects = {name.split(".")[0] for name in flat}
    extra = sorted(
        name
        for name, saved in there.items()
        if isinstance(saved, TensorStorageMetadata)
        and name not in flat
        and name.split(".")[0] in objects
    )
    if extra:
        raise CheckpointMismatchError(
            f"{where} has {extra[0]}, which is not here: it was saved from another model or "
            "optimizer. Make them as they were made there; only the number of workers and the mesh "
            "may differ."
        )
