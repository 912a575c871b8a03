"""Sharded state in memory: what one rank puts into the object store, and a reader over all parts.

Which rank keeps what follows from the tensors alone, so that ranks need not talk: of a sharded tensor
each rank its shard, of what several ranks have the same, one of them.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from heliostat.train.torch.resume.view import local

# Pages of shared memory are mapped as they are read: one core alone takes as long for that as for the copy.
_COPIES_AT_ONCE = 4


@dataclass
class Chunk:
    """A piece of a tensor: where it begins in the whole, and how large it is."""

    name: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    whole: tuple[int, ...]
    dtype: torch.dtype


@dataclass
class Header:
    """The meaning of the arrays of a part, in their order; ``values`` are the entries that are not
    tensors.
    """

    chunks: list[Chunk]
    values: dict[str, Any]

    def dump(self) -> bytes:
        """The state as bytes, so that a process without torch can carry it."""
        return pickle.dumps(self)

    @staticmethod
    def load(data: bytes) -> Header:
        """Read what ``dump`` wrote."""
        header: Header = pickle.loads(data)
        return header


def part(flat: dict[str, Any], rank: int, world_size: int) -> tuple[Header, list[torch.Tensor]]:
    """Return the part of the state that ``rank`` keeps: the description, and the local tensors as
    they lie in memory.

    Raises:
        ValueError: A tensor is sharded in a way that does not say where the shard lies.
    """
    owners = _owners(flat, world_size)
    header, tensors = Header([], {}), []
    for name, value in flat.items():
        if not isinstance(value, torch.Tensor):
            if rank == 0:
                header.values[name] = value
            continue
        whole = tuple(value.shape)
        if name in owners:
            if owners[name] != rank:
                continue
            chunk = Chunk(name, (0,) * len(whole), whole, whole, value.dtype)
        else:
            if not _is_first_copy(value):
                continue
            places = _places(name, value)
            if not places:
                continue
            (place,) = places
            chunk = Chunk(name, tuple(place.offsets), tuple(place.sizes), whole, value.dtype)
        header.chunks.append(chunk)
        tensors.append(local(value))
    return header, tensors


def _places(name: str, value: Any) -> list[ChunkStorageMetadata]:
    if not hasattr(value, "__create_chunk_list__") or not hasattr(value, "to_local"):
        raise ValueError(
            f"{name} is a {type(value).__name__}: CheckpointConfig(memory_every_n_steps=...) needs "
            "plain tensors or those of fully_shard() and parallelize_module()."
        )
    if not local(value).numel():
        return []
    places: list[ChunkStorageMetadata] = value.__create_chunk_list__()
    if len(places) != 1:
        raise ValueError(f"{name} lies in {len(places)} pieces on a rank, which is not supported.")
    return places


def _owners(flat: dict[str, Any], world_size: int) -> dict[str, int]:
    """Return the rank that keeps each tensor that all ranks have whole: as evenly by bytes as they
    come.
    """
    plain = {
        name: value.numel() * value.element_size()
        for name, value in flat.items()
        if isinstance(value, torch.Tensor)
        and not hasattr(value, "placements")
        and not hasattr(value, "local_shards")
    }
    loads, owners = [0] * world_size, {}
    for name in sorted(plain, key=lambda n: (-plain[n], n)):
        rank = loads.index(min(loads))
        owners[name] = rank
        loads[rank] += plain[name]
    return owners


def _is_first_copy(value: Any) -> bool:
    """Whether this rank is the first of those that hold the same shard."""
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        return False
    return all(
        place.is_shard() or index == 0
        for place, index in zip(value.placements, coordinate, strict=True)
    )


def as_bytes(tensor: torch.Tensor) -> numpy.ndarray[Any, numpy.dtype[numpy.uint8]]:
    """The bytes of a tensor on the CPU, without a copy where it lies there in one piece."""
    flat = tensor.cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else numpy.empty(0, numpy.uint8)


def _tensor_over(array: Any) -> torch.Tensor:
    with (
        warnings.catch_warnings()
    ):  # it is read only, which torch does not know; nobody writes to it
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


class MemoryReader(StorageReader):  # type: ignore[misc]  # torch's modules here have no types
    """Reads the tensors of a state whose parts lie in memory; only parts that are needed are fetched.

    What is not a tensor is not read through torch, which would pickle each value: it is in ``values``.
    """

    def __init__(self, headers: dict[int, Header], fetch: Callable[[int], list[Any]]) -> None:
        """``fetch(rank)`` returns the arrays of that rank's part."""
        self._headers = headers
        self._fetch = fetch
        self._fetched: dict[int, list[Any]] = {}
        self._where = {
            (chunk.name, chunk.offsets): (rank, place)
            for rank, header in headers.items()
            for place, chunk in enumerate(header.chunks)
        }

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing is remembered."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the description of the tensors and values that are there."""
        found: dict[str, Any] = {}
        for header in self._headers.values():
            for name in header.values:
                found[name] = BytesStorageMetadata()
            for chunk in header.chunks:
                entry = found.setdefault(
                    chunk.name,
                    TensorStorageMetadata(
                        TensorProperties(dtype=chunk.dtype), torch.Size(chunk.whole), []
                    ),
                )
                place = ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes))
                entry.chunks.append(place)
        return Metadata(found)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing to set up."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Plan the tensors of this rank."""
        return replace(plan, items=[i for i in plan.items if i.type != LoadItemType.BYTE_IO])

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Copy what the plan asks for."""
        copies = [
            (item, planner.resolve_tensor(item).detach(), self._piece(item)) for item in plan.items
        ]
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            list(pool.map(lambda c: c[1].copy_(c[2]), copies))  # raises what went wrong
        for item, target, _ in copies:
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _piece(self, item: ReadItem) -> torch.Tensor:
        index: MetadataIndex = item.storage_index
        rank, place = self._where[index.fqn, tuple(index.offset or ())]
        chunk = self._headers[rank].chunks[place]
        if rank not in self._fetched:
            self._fetched[rank] = self._fetch(rank)
        data = _tensor_over(self._fetched[rank][place])
        tensor = data.view(chunk.dtype).reshape(chunk.sizes)
        for axis, (start, size) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            tensor = tensor.narrow(axis, start, size)
        return tensor

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """There is no such id."""
        return False

    def values(self) -> dict[str, Any]:
        """Return the entries that are not tensors."""
        return {k: v for header in self._headers.values() for k, v in header.values.items()}
