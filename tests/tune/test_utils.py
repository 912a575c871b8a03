"""`ray.tune.utils`, and checkpoints that a trainable or a callback asks for (F11.02)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune.registry import get_trainable_cls
from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.utils import (
    deep_update,
    diagnose_serialization,
    flatten_dict,
    merge_dicts,
    unflattened_lookup,
    validate_save_restore,
)
from ray.tune.utils.mock_trainable import (
    MOCK_TRAINABLE_NAME,
    MyTrainableClass,
    register_mock_trainable,
)

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize(
    ("given", "options", "flat"),
    [
        ({"a": {"b": 1, "c": {"d": 2}}, "e": [1]}, {}, {"a/b": 1, "a/c/d": 2, "e": [1]}),
        ({"a": {"b": 1}, "g": {}}, {"delimiter": "."}, {"a.b": 1}),
        ({"a": {1: {2: 3}}, 5: 6}, {}, {"a/1/2": 3, 5: 6}),
        (
            {"e": [1, {"f": 2}, [3]], "h": []},
            {"flatten_list": True},
            {"e/0": 1, "e/1/f": 2, "e/2/0": 3},
        ),
    ],
)
def test_flat_dicts(given: dict[Any, Any], options: dict[str, Any], flat: dict[Any, Any]) -> None:
    assert flatten_dict(given, **options) == flat


def test_a_key_with_the_delimiter_in_it_can_be_refused() -> None:
    assert flatten_dict({"a": {"b/x": 1}}) == {"a/b/x": 1}
    with pytest.raises(ValueError, match="'b/x' has the delimiter '/'"):
        flatten_dict({"a": {"b/x": 1}}, prevent_delimiter=True)


def test_flat_keys_find_values_in_dicts_and_lists() -> None:
    nested = {"a": {"b": 5}, "c": [{"d": 4}]}
    assert unflattened_lookup("a/b", nested) == 5
    assert unflattened_lookup("c.0.d", nested, delimiter=".") == 4
    assert unflattened_lookup("a/c", nested, default=None) is None
    for absent in ("a/c", "a/b/c", "c/x"):
        with pytest.raises(KeyError):
            unflattened_lookup(absent, nested)
    with pytest.raises(IndexError):
        unflattened_lookup("c/1", nested)


def test_dicts_are_merged_at_any_depth() -> None:
    first = {"a": {"b": 1}}
    assert merge_dicts(first, {"a": {"c": 2}, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert first == {"a": {"b": 1}}, "the arguments stay as they are"
    with pytest.raises(Exception, match=r"Unknown config parameter `c`.*'b'"):
        deep_update({"a": {"b": 1}}, {"a": {"c": 2}})
    assert deep_update({"a": {"b": 1}}, {"a": {"c": 2}}, False, ["a"]) == {"a": {"b": 1, "c": 2}}
    whole = deep_update({"a": {"type": 1, "x": 3}}, {"a": {"type": 2}}, True, [], ["a"])
    assert whole == {"a": {"type": 2}}
    kept = deep_update({"a": {"type": 1, "x": 3}}, {"a": {"type": 1, "y": 4}}, True, [], ["a"])
    assert kept == {"a": {"type": 1, "x": 3, "y": 4}}
    assert deep_update({"a": {"x": 1}}, {"a": {"y": 2}}, True, None, None, ["a"]) == {"a": {"y": 2}}


def test_what_cannot_be_sent_to_a_worker_is_named() -> None:
    lock = threading.Lock()

    def holds(config: dict[str, Any]) -> None:
        lock.acquire()

    assert diagnose_serialization(MyTrainableClass) is True
    register_mock_trainable()
    assert get_trainable_cls(MOCK_TRAINABLE_NAME) is MyTrainableClass
    assert lock in diagnose_serialization(holds)


class Forgets(MyTrainableClass):
    def restore(self, checkpoint_path: str) -> None:
        """Keep the own state."""


def test_saving_and_restoring_is_checked(ray_start: Any) -> None:
    assert validate_save_restore(MyTrainableClass, {"width": 2})
    with pytest.raises(AssertionError, match="does not go on"):
        validate_save_restore(Forgets)


class Asks(MyTrainableClass):
    def step(self) -> dict[str, Any]:
        wants = self.timestep in self.config["at"]
        return {**super().step(), SHOULD_CHECKPOINT: wants}


class AsksForIt(tune.Callback):
    def __init__(self, at: set[int]) -> None:
        self.at, self.saved = at, []

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
    ) -> None:
        if result["training_iteration"] in self.at:
            result[SHOULD_CHECKPOINT] = True

    def on_checkpoint(
        self, iteration: int, trials: Any, trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        self.saved.append(trial.last_result["training_iteration"])


@pytest.mark.contract("F11.02")
@pytest.mark.parametrize(
    ("trainable", "asked", "saved"),
    [(Asks, set(), [2, 4]), (MyTrainableClass, {1, 3}, [1, 3]), (Asks, {1, 2}, [1, 2, 4])],
)
def test_a_trainable_or_a_callback_asks_for_a_checkpoint(
    fit: Any, trainable: Callable[..., Any], asked: set[int], saved: list[int]
) -> None:
    callback = AsksForIt(asked)
    run = {"stop": {"training_iteration": 5}, "callbacks": [callback]}
    (result,) = fit(trainable, {"at": [1, 3]}, run, metric="episode_reward_mean")
    assert callback.saved == saved
    assert result.checkpoint is not None
    assert len(list(Path(result.path).glob("checkpoint_*"))) == len(saved)
