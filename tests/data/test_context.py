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
