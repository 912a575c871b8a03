"""What happens when the object store is full, and where objects go then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from harness import IS_HELIOSTAT
from ray.exceptions import GetTimeoutError, ObjectStoreFullError

MIB = 1 << 20


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.contract("F3.05")
@pytest.mark.heliostat_only("Ray puts what is too large into a file outside of its limit")
def test_an_object_larger_than_the_store(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB)
    with pytest.raises(ObjectStoreFullError) as caught:
        ray.put(np.zeros(100 * MIB, np.uint8))
    assert "ray memory" in str(caught.value)
    assert ray.get(ray.put(np.full(10 * MIB, 3, np.uint8)))[-1] == 3


@pytest.mark.contract("F3.05")
@pytest.mark.heliostat_only("Ray puts what is too large into a file outside of its limit")
def test_a_result_larger_than_the_store_is_the_tasks_error(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB)
    large = ray.remote(lambda: np.zeros(100 * MIB, np.uint8))
    with pytest.raises(ObjectStoreFullError):
        ray.get(large.remote(), timeout=60)


@pytest.mark.contract("F0.11", "F3.06")
def test_the_folder_for_what_does_not_fit(ray_fresh: Any, tmp_path: Path) -> None:
    ray_fresh(num_cpus=1, object_store_memory=100 * MIB, object_spilling_directory=str(tmp_path))
    refs = [ray.put(np.full(20 * MIB, i, np.uint8)) for i in range(10)]
    assert [int(ray.get(ref)[5]) for ref in refs] == list(range(10))
    assert files(tmp_path)
    del refs
    ray.shutdown()
    if IS_HELIOSTAT:
        assert not files(tmp_path)


@pytest.mark.contract("F3.05")
@pytest.mark.heliostat_only("Ray goes on with files outside of its limit")
def test_who_waits_for_room_that_views_keep_is_told(ray_fresh: Any, capsys: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB)
    refs = [ray.put(np.full(30 * MIB, i, np.uint8)) for i in range(3)]
    views = [ray.get(ref) for ref in refs[:2]]
    with pytest.raises(GetTimeoutError) as caught:
        ray.get(refs[2], timeout=8)
    pinned = f"pid {os.getpid()} (a driver)"
    assert pinned in str(caught.value)
    with pytest.raises(ObjectStoreFullError, match="pinned by readers") as full:
        ray.put(np.zeros(30 * MIB, np.uint8))
    assert pinned in str(full.value)
    views.clear()
    assert int(ray.get(refs[2], timeout=60)[0]) == 2
    ray.shutdown()
    told = capsys.readouterr().err
    assert told.count("waits to be brought here from disk") == 1
    assert pinned in told
