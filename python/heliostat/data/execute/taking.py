"""Taking blocks from the generator of a task, and telling a death from an error.

A task that dies is begun again here rather than by the core: the new task makes the same blocks
again, and leaves out those that came already.
"""

from __future__ import annotations

from typing import Any

import heliostat as ray
from heliostat.data.block import BlockMetadata
from heliostat.data.plan.operators import Bundle
from heliostat.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    WorkerCrashedError,
)

# What ends a task although its function did nothing wrong.
DEATHS = (WorkerCrashedError, RayActorError, NodeDiedError, OutOfMemoryError)


def next_block(generator: Any) -> tuple[Bundle, BlockMetadata] | None:
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
