"""The settings of datasets: those that act, and those that are only kept."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.contract("F10.27")
def test_settings_without_effect_have_the_defaults_of_ray() -> None:
    from ray.data.context import AutoscalingConfig, DataContext

    context = DataContext()
    assert context.large_args_threshold == 52428800
    assert context.op_resource_reservation_ratio == 0.5
    assert context.autoscaling_config == AutoscalingConfig(1.75, 0.5, None)
    assert context.iceberg_config.catalog_max_attempts == 5
    assert "503" in context.delta_config.commit_retried_errors
    context.issue_detectors_config.hanging_detector_config.detection_time_interval_s = -1
    other = DataContext().issue_detectors_config.hanging_detector_config
    assert other.detection_time_interval_s == 30.0
    copied = context.copy()
    context.autoscaling_config.actor_pool_max_upscaling_delta = 4
    assert copied.autoscaling_config.actor_pool_max_upscaling_delta is None


@pytest.mark.contract("F10.27")
def test_names_that_are_no_settings() -> None:
    from ray.data.context import DataContext

    context = DataContext()
    context.mine = 1  # kept, as by Ray
    assert context.copy().mine == 1
    with pytest.raises(AttributeError, match="nope"):
        _ = context.nope
    with pytest.raises(TypeError, match="nope"):
        DataContext(nope=1)


@pytest.mark.contract("F10.17", "F10.27")
def test_shuffle_strategies_are_checked() -> None:
    from ray.data.context import DataContext, ShuffleStrategy

    context = DataContext()
    assert context.shuffle_strategy is ShuffleStrategy.SHUFFLE_V2
    context.shuffle_strategy = "hash_shuffle"
    assert context.shuffle_strategy is ShuffleStrategy.HASH_SHUFFLE
    with pytest.raises(ValueError, match="no_shuffle"):
        context.shuffle_strategy = "no_shuffle"
    context.use_push_based_shuffle = True
    assert context.shuffle_strategy == "sort_shuffle_push_based"


@pytest.mark.contract("F10.27")
def test_settings_for_a_while() -> None:
    from ray.data.context import DataContext

    before = DataContext.get_current()
    mine = before.copy()
    mine.max_errored_blocks = 5
    with DataContext.current(mine):
        assert DataContext.get_current() is mine
    assert DataContext.get_current() is before


@pytest.mark.contract("F10.11", "F10.27")
def test_a_dataset_with_other_strategies(rd: Any) -> None:
    dataset = rd.range(20)
    dataset.context.shuffle_strategy = "gpu_shuffle"
    assert sorted(row["id"] for row in dataset.random_shuffle(seed=1).take_all()) == list(range(20))


@pytest.mark.contract("F10.03", "F10.27")
def test_reads_go_on_after_errors_that_pass(rd: Any, tmp_path: Any) -> None:
    import pyarrow as pa

    class Flaky(rd.Datasource):  # type: ignore[misc] # the class comes from a fixture
        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            from ray.data.block import BlockMetadata

            def read() -> Any:
                yield pa.table({"id": [0]})
                tries = len(list(tmp_path.iterdir()))
                (tmp_path / str(tries)).touch()
                if tries < 1:
                    raise OSError("the store says SLOW DOWN")
                yield pa.table({"id": [1]})

            about = BlockMetadata(num_rows=2, size_bytes=16, input_files=None, exec_stats=None)
            return [rd.ReadTask(read, about)]

    dataset = rd.read_datasource(Flaky())
    dataset.context.retried_io_errors = ["SLOW DOWN"]
    assert [row["id"] for row in dataset.take_all()] == [0, 1]
    assert len(list(tmp_path.iterdir())) == 2

    for path in tmp_path.iterdir():
        path.unlink()
    dataset = rd.read_datasource(Flaky())
    assert "AWS Error SLOW_DOWN" in dataset.context.retried_io_errors
    with pytest.raises(OSError, match="SLOW DOWN"):
        dataset.take_all()


@pytest.mark.contract("F10.06", "F10.27")
@pytest.mark.parametrize("chosen", [True, "its class", "another", False])
def test_actors_tasks_are_tried_again(rd: Any, tmp_path: Any, chosen: Any) -> None:
    class Flaky:
        def __call__(self, batch: Any) -> Any:
            tries = len(list(tmp_path.iterdir()))
            (tmp_path / str(tries)).touch()
            if tries < 2:
                raise ValueError("flaky")
            return batch

    dataset = rd.range(3, override_num_blocks=1)
    dataset.context.actor_task_retry_on_errors = {
        "its class": [ValueError],
        "another": [KeyError],
    }.get(chosen, chosen)
    mapped = dataset.map_batches(Flaky, concurrency=1)
    if chosen in (True, "its class"):
        assert mapped.count() == 3
        assert len(list(tmp_path.iterdir())) == 3
    else:
        with pytest.raises(ValueError, match="flaky"):
            mapped.materialize()
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.contract("F15.11", "F10.27")
def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.data.context import DataContext, ShuffleStrategy

    for name, value in {
        "DISABLE_PROGRESS_BARS": "1",
        "DEFAULT_MIN_PARALLELISM": "7",
        "LOG_INTERNAL_STACK_TRACE_TO_STDOUT": "1",
        "RAISE_ORIGINAL_MAP_EXCEPTION": "true",
        "EXECUTION_NO_PROGRESS_TIMEOUT_S": "12.5",
        "PUSH_BASED_SHUFFLE": "1",
        "DEFAULT_WAIT_FOR_MIN_ACTORS_S": "600",
    }.items():
        monkeypatch.setenv(f"RAY_DATA_{name}", value)
    context = DataContext()
    assert not context.enable_progress_bars
    assert (context.min_parallelism, context.read_op_min_num_blocks) == (7, 7)
    assert context.log_internal_stack_trace
    assert context.raise_original_map_exception
    assert context.execution_no_progress_timeout_s == 12.5
    assert context.shuffle_strategy is ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED
    assert context.wait_for_min_actors_s == 600
    monkeypatch.setenv("RAY_DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match=r"NO_PROGRESS_TIMEOUT_S=.soon."):
        DataContext()


@pytest.mark.contract("F15.11", "F10.27")
def test_an_older_name_of_a_setting() -> None:
    from ray.data.context import DataContext

    context = DataContext()
    context.min_parallelism = 3
    assert context.read_op_min_num_blocks == 3


@pytest.mark.contract("F15.11", "F10.27")
def test_an_execution_that_does_not_move(rd: Any, tmp_path: Any) -> None:
    import time

    from ray.data.exceptions import ExecutionTimeoutError

    ends = tmp_path / "ends"

    def hang(row: Any) -> Any:
        while row["id"] == 1 and not ends.exists():
            time.sleep(0.05)
        return row

    dataset = rd.range(2, override_num_blocks=2).map(hang)
    dataset.context.execution_no_progress_timeout_s = 1.5
    try:
        with pytest.raises(ExecutionTimeoutError, match=r"hang"):
            dataset.take_all()
    finally:
        ends.touch()
    # The limit is for what does not move: it does not count what the consumer takes its time for.
    rows = iter(dataset.iter_rows())
    next(rows)
    time.sleep(2)
    assert len(list(rows)) == 1


@pytest.mark.contract("F10.28")
def test_amounts_of_resources() -> None:
    from ray.data import ExecutionOptions, ExecutionResources

    some = ExecutionResources(cpu=1, gpu=2, memory=3e9, object_store_memory=4)
    assert repr(some) == (
        "ExecutionResources(cpu=1, gpu=2, object_store_memory=4.0B, memory=2.8GiB)"
    )
    assert some == ExecutionResources(1, 2, 4, 3e9)
    assert some.to_resource_dict() == {"CPU": 1, "GPU": 2, "object_store_memory": 4, "memory": 3e9}
    assert ExecutionResources.from_resource_dict({"CPU": 1, "x": 2}) == ExecutionResources(cpu=1)
    assert ExecutionResources(1).gpu == 0.0
    assert some.add(ExecutionResources(1, 1)) == ExecutionResources(2, 3, 4, 3e9)
    assert some.subtract(ExecutionResources(2)).is_non_negative() is False
    assert some.max(ExecutionResources(0, 5)) == ExecutionResources(1, 5, 4, 3e9)
    assert some.min(ExecutionResources(0, 5)) == ExecutionResources(0, 2)
    assert some.scale(2).cpu == 2
    assert some.floordiv(ExecutionResources(2, 1)).gpu == 2
    assert some.copy(gpu=7) == ExecutionResources(1, 7, 4, 3e9)
    assert ExecutionResources.combine_sum([some, some]) == some.scale(2)
    assert ExecutionResources.combine([], max) is None
    assert ExecutionResources.zero().is_zero()
    assert some.satisfies_limit(ExecutionResources.for_limits(cpu=1))
    assert not some.satisfies_limit(ExecutionResources.for_limits(cpu=1, object_store_memory=3))
    limits = ExecutionResources.for_limits(object_store_memory=3)
    assert some.satisfies_limit(limits, ignore_object_store_memory=True)
    options = ExecutionOptions(resource_limits=ExecutionResources(cpu=1))
    assert options.resource_limits == ExecutionResources.for_limits(cpu=1)
    with pytest.raises(AttributeError):
        some.cpu = 3  # type: ignore[misc]
