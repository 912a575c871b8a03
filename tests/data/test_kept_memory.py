"""Workers keep the memory that Arrow frees."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource, time
from heliostat.data.execute import kept_memory
import numpy as np, pyarrow as pa, pyarrow.compute as pc
assert kept_memory.VARIABLE not in os.environ
rows = pa.array(np.arange(1 << 20))
for number in range(6):
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pc.add(rows, 1)
    time.sleep(0.05)  # longer than the allocator keeps what is free by default
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun
    if number:
        print(pa.default_memory_pool().backend_name, faults)
"""


@pytest.mark.heliostat_only("which memory workers keep is ours to say")
def test_memory_of_arrow_is_used_again_without_the_kernel() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=170, check=True
    )
    for line in done.stdout.splitlines():
        backend, faults = line.split()
        assert backend != "mimalloc" or int(faults) < 500, done.stdout  # of the 2,048 pages
    assert len(done.stdout.splitlines()) == 5
