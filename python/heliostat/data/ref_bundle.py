"""``RefBundle``: a block in the object store and what is known of it, as programs see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from heliostat.data.block import BlockMetadata

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat import ObjectRef


class BlockEntry(NamedTuple):
    """A reference to a block, and the block's metadata."""

    ref: ObjectRef
    metadata: BlockMetadata


@dataclass(frozen=True)
class RefBundle:
    """References to whole blocks, each with its ``BlockMetadata``.

    Args:
        blocks: A ``ref`` and ``metadata`` each.
        schema: The Arrow schema that they share, None if it is not known.
        owns_blocks: Whether nobody else has the blocks.
    """

    blocks: tuple[BlockEntry, ...]
    schema: pa.Schema | None = None
    owns_blocks: bool = False

    @property
    def block_refs(self) -> list[ObjectRef]:
        """References to the blocks; ``ray.get`` gives tables."""
        return [ref for ref, _ in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        """The metadata of each block."""
        return [about for _, about in self.blocks]

    def num_rows(self) -> int:
        """Return the number of rows."""
        rows: int = sum(about.num_rows for about in self.metadata)
        return rows

    def size_bytes(self) -> int:
        """Return the size in memory."""
        size: int = sum(about.size_bytes for about in self.metadata)
        return size

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[BlockEntry]:
        return iter(self.blocks)
