"""What happens when the object store is full, and where objects go then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ObjectLostError

from tests.helpers.harness import IS_HELIOSTAT, wait_until

MIB = 1 << 20


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


def disk_bytes(folder: Path) -> int:
    paths = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sum(os.stat(path).st_blocks * 512 for path in paths)


@pytest.mark.contract("F3.05")
def test_objects_larger_than_the_store_are_put_and_returned(ray_fresh: Any, tmp_path: Path) -> None:
    ray_fresh(num_cpus=2, object_store_memory=80 * MIB, object_spilling_directory=str(tmp_path))
    large = ray.remote(lambda i: np.full(100 * MIB, i, np.uint8))
    total = ray.remote(lambda values: int(values[::MIB].sum()))
    put, made = ray.put(np.full(100 * MIB, 1, np.uint8)), large.remote(2)
    values = ray.get([put, made], timeout=60)
    assert [(int(value[0]), int(value[-1]), len(value)) for value in values] == [
        (i, i, 100 * MIB) for i in (1, 2)
    ]
    assert not any(value.flags.writeable for value in values)
    # As arguments, and beside what fits.
    assert ray.get([total.remote(ref) for ref in (put, made)], timeout=60) == [100, 200]
    assert ray.get(ray.put(np.full(10 * MIB, 3, np.uint8)))[-1] == 3
    if IS_HELIOSTAT:
        del put, made, values
        wait_until(lambda: disk_bytes(tmp_path) < MIB, what="the disk is given back")


@pytest.mark.contract("F3.05", "F3.06")
@pytest.mark.parametrize("store_mib", [100, 250])
@pytest.mark.parametrize(("argument_mib", "result_mib"), [(30, 30), (60, 10), (10, 60), (90, 90)])
def test_arguments_and_results_of_running_tasks_need_not_fit_the_store_together(
    ray_fresh: Any, store_mib: int, argument_mib: int, result_mib: int
) -> None:
    ray_fresh(num_cpus=4, object_store_memory=store_mib * MIB)

    @ray.remote
    def more(values: Any, size: int) -> Any:
        return np.full(size, values[-1] + 1, np.uint8)

    arguments = [ray.put(np.full(argument_mib * MIB, i, np.uint8)) for i in range(6)]
    results = [more.remote(ref, result_mib * MIB) for ref in arguments]
    found = [int(ray.get(ref, timeout=120)[-1]) for ref in results]
    assert found == [i + 1 for i in range(6)]


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


@pytest.mark.contract("F3.04", "F3.05", "F3.06")
def test_one_can_read_on_while_views_keep_the_whole_store(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB)
    refs = [ray.put(np.full(30 * MIB, i, np.uint8)) for i in range(6)]
    views = [ray.get(ref, timeout=60) for ref in refs]
    assert [(int(view[0]), int(view[-1])) for view in views] == [(i, i) for i in range(6)]
    assert not any(view.flags.writeable for view in views)
    # A task's argument finds no room in memory either.
    total = ray.remote(lambda values: int(values.sum()))
    assert ray.get(total.remote(refs[5]), timeout=60) == 30 * MIB * 5
    # The views stay what they are without their references, and after the session.
    del refs
    ray.shutdown()
    assert [int(view[-1]) for view in views] == list(range(6))


@pytest.mark.contract("F3.04", "F3.05", "F3.06")
def test_one_get_reads_more_than_the_store_holds_while_it_is_made(
    ray_fresh: Any, tmp_path: Path
) -> None:
    ray_fresh(num_cpus=2, object_store_memory=80 * MIB, object_spilling_directory=str(tmp_path))
    large = ray.remote(lambda i: np.full(10_000_000, i, np.uint8))
    values = ray.get([large.remote(i) for i in range(40)], timeout=120)
    assert [(int(value[0]), int(value[-1])) for value in values] == [(i, i) for i in range(40)]


@pytest.mark.contract("F3.05")
def test_one_can_write_on_while_views_keep_the_whole_store(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB)
    refs = [ray.put(np.full(35 * MIB, i, np.uint8)) for i in range(2)]
    views = [ray.get(ref) for ref in refs]
    beside = [ray.put(np.full(30 * MIB, 7, np.uint8)) for _ in range(3)]
    assert [int(ray.get(ref, timeout=60)[-1]) for ref in beside] == [7, 7, 7]
    assert [int(view[-1]) for view in views] == [0, 1]


def cut_off(path: str) -> None:
    os.truncate(path, 0)


def change_a_byte(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(5 * MIB)
        before = file.read(1)
        file.seek(5 * MIB)
        file.write(bytes([before[0] ^ 16]))


# Ray does not look whether what it reads is what was written.
@pytest.mark.parametrize("harm", [cut_off, change_a_byte] if IS_HELIOSTAT else [cut_off])
@pytest.mark.contract("F3.06")
def test_a_spilled_object_whose_file_is_gone_or_damaged_is_lost_or_made_again(
    ray_fresh: Any, tmp_path: Path, harm: Callable[[str], None]
) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB, object_spilling_directory=str(tmp_path))
    make = ray.remote(lambda i: np.full(30 * MIB, i, np.uint8))
    made = make.remote(7)
    ray.wait([made], fetch_local=False)
    put = ray.put(np.full(30 * MIB, 8, np.uint8))
    filling = [ray.put(np.full(30 * MIB, 9, np.uint8)) for _ in range(4)]
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            harm(os.path.join(folder, name))
    assert int(ray.get(made, timeout=60)[0]) == 7
    if IS_HELIOSTAT:
        with pytest.raises(ObjectLostError):
            ray.get(put, timeout=60)
    del filling


@pytest.mark.contract("F3.14")
def test_the_error_says_where_a_lost_object_was_made(run_driver: Any, tmp_path: Path) -> None:
    script = """
        import os, sys
        import numpy as np
        import ray

        folder = sys.argv[1]
        ray.init(num_cpus=1, object_store_memory=80 << 20, object_spilling_directory=folder)
        make = ray.remote(max_retries=0)(lambda: np.zeros(30 << 20, np.uint8))

        def order():
            return make.remote()

        ref = order()
        ray.wait([ref], fetch_local=False)
        assert ":order:" in ref.call_site(), ref.call_site()
        filling = [ray.put(np.zeros(30 << 20, np.uint8)) for _ in range(4)]
        for where, _, names in os.walk(folder):
            for name in names:
                os.truncate(os.path.join(where, name), 0)
        try:
            ray.get(ref, timeout=60)
        except ray.exceptions.ObjectLostError as error:
            print("told:", ref.hex() in str(error), ":order:" in str(error))
    """
    env = {"RAY_record_ref_creation_sites": "1"}
    finished = run_driver(script, env=env, args=[str(tmp_path)]).check()
    assert "told: True True" in finished.stdout
