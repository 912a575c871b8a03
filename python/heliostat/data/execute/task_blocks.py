"""Taking blocks from the generator of a task.

If the task's process dies, the core begins it again, and the new attempt goes on with the next block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data.block import BlockMetadata
from heliostat.data.plan.operators import Bundle

if TYPE_CHECKING:
    from heliostat import ObjectRef


def next_block(generator: Iterator[ObjectRef]) -> tuple[Bundle, BlockMetadata] | None:
    """The next block of a task whose generator is ready; None at its end. Raises what it raised."""
    first = next(generator, None)
    if first is None:
        return None
    second = next(generator, None)
    about: BlockMetadata = ray.get(first if second is None else second)  # one alone is an error
    bundle = Bundle(
        first,
        about.num_rows,
        about.size_bytes,
        about.schema,
        files=tuple(about.input_files or ()),
        node=about.node,
    )
    return bundle, about
