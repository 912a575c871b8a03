"""What callbacks are told, when, and with which arguments (F11.02)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune.callback import CallbackList

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.02")

ABOUT_TRIALS = {"iteration": int, "trials": list, "trial": "Trial"}
# Hook: the kinds of what it is told, by name.
HOOKS: dict[str, dict[str, Any]] = {
    "on_step_begin": {"iteration": int, "trials": list},
    "on_step_end": {"iteration": int, "trials": list},
    "on_trial_start": ABOUT_TRIALS,
    "on_trial_restore": ABOUT_TRIALS,
    "on_trial_save": ABOUT_TRIALS,
    "on_trial_result": {**ABOUT_TRIALS, "result": dict},
    "on_trial_complete": ABOUT_TRIALS,
    "on_trial_recover": ABOUT_TRIALS,
    "on_trial_error": ABOUT_TRIALS,
    "on_checkpoint": {**ABOUT_TRIALS, "checkpoint": tune.Checkpoint},
    "on_experiment_end": {"trials": list},
}


class Recorder(tune.Callback):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        about = {"stop": stop, "num_samples": num_samples, "total_num_samples": total_num_samples}
        self.heard.append(("setup", {**about, **info}))

    @property
    def names(self) -> list[str]:
        """The hooks in their order, without the turns of the loop."""
        return [name for name, _ in self.heard if not name.startswith("on_step")]


def _recording(hook: str) -> Any:
    def record(self: Recorder, **about: Any) -> None:
        self.heard.append((hook, about))

    return record


for _hook in HOOKS:
    setattr(Recorder, _hook, _recording(_hook))


def function(config: dict[str, Any]) -> None:
    """Reports 0, 1, 2, with a checkpoint each; fails once after 1."""
    begun, before = 0, tune.get_checkpoint()
    if before is not None:
        with before.as_directory() as folder:
            begun = int(Path(folder, "n").read_text()) + 1
    for n in range(begun, 3):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "n").write_text(str(n))
            tune.report({"score": n}, checkpoint=tune.Checkpoint.from_directory(folder))
        if n == 1 and before is None:
            raise RuntimeError("once")


class Steps(tune.Trainable):
    """The same by steps."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n, self.is_first = -1, True

    def step(self) -> dict[str, Any]:
        self.n += 1
        if self.n == 2 and self.is_first:
            raise RuntimeError("once")
        return {"score": self.n, "done": self.n == 2}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.n, self.is_first = checkpoint["n"], False


def run(trainable: Any, callbacks: list[Any], max_failures: int = 1, **more: Any) -> dict[str, Any]:
    """Arguments of a RunConfig."""
    frequency = 1 if trainable is Steps else 0
    return {
        "callbacks": callbacks,
        "failure_config": tune.FailureConfig(max_failures=max_failures),
        "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=frequency),
        **more,
    }


REPORT = ["on_trial_result", "on_checkpoint", "on_trial_save"]


@pytest.mark.parametrize("trainable", [function, Steps])
def test_hooks_are_called_with_the_arguments_that_they_take(fit: Any, trainable: Any) -> None:
    recorder = Recorder()
    fit(trainable, {}, run(trainable, [recorder]))
    assert recorder.names == [
        "setup",
        "on_trial_start",
        *REPORT,
        *REPORT,
        "on_trial_recover",
        "on_trial_start",
        "on_trial_restore",
        *REPORT,
        "on_trial_complete",
        "on_experiment_end",
    ]
    for hook, about in recorder.heard[1:]:
        kinds = HOOKS[hook]
        assert about.keys() == kinds.keys()
        for name, kind in kinds.items():
            if kind == "Trial":
                assert type(about[name]).__name__ == "Trial"
            else:
                assert isinstance(about[name], kind), (hook, name)
    for hook, about in recorder.heard:
        if hook == "on_checkpoint":
            assert os.path.isdir(about["checkpoint"].path)


@pytest.mark.parametrize("trainable", [function, Steps])
def test_a_trial_that_fails_for_good_is_told_of(fit: Any, trainable: Any) -> None:
    recorder = Recorder()
    fit(trainable, {}, run(trainable, [recorder], max_failures=0))
    assert recorder.names[-2:] == ["on_trial_error", "on_experiment_end"]
    assert "on_trial_complete" not in recorder.names


def test_turns_are_counted_from_0(fit: Any) -> None:
    recorder = Recorder()
    fit(function, {}, run(function, [recorder]))
    turns = [
        (hook.removeprefix("on_step_"), about["iteration"])
        for hook, about in recorder.heard
        if hook.startswith("on_step")
    ]
    count = len(turns) // 2
    assert turns == [pair for n in range(count) for pair in (("begin", n), ("end", n + 1))]


@pytest.mark.parametrize(
    ("stop", "told"),
    [({"score": 9}, {"score": 9}), (None, {}), (lambda trial_id, result: False, {})],
)
def test_setup_is_told_of_the_search(fit: Any, stop: Any, told: Any) -> None:
    recorder = Recorder()
    space = {"x": tune.grid_search([1, 2, 3])}
    fit(
        function,
        space,
        run(function, [recorder], stop=stop),
        num_samples=2,
        time_budget_s=100,
    )
    hook, about = recorder.heard[0]
    expected = {"stop": told, "num_samples": 2, "total_num_samples": 6, "time_budget_s": 100}
    assert (hook, about) == ("setup", expected)


def test_setup_of_a_search_without_end(fit: Any) -> None:
    recorder = Recorder()
    fit(function, {}, run(function, [recorder]), num_samples=-1, time_budget_s=0)
    about = recorder.heard[0][1]
    assert (about["num_samples"], about["total_num_samples"]) == (sys.maxsize, sys.maxsize)


def test_setup_by_position_and_without_arguments(fit: Any) -> None:
    """Ray's documented signature, and the one of old."""

    class Positional(tune.Callback):
        def setup(self, stop: Any, num_samples: int, total_num_samples: int, **info: Any) -> None:
            self.total = total_num_samples

    class Old(tune.Callback):
        was_set_up = False

        def setup(self) -> None:  # type: ignore[override] # that is what is tested
            self.was_set_up = True

    positional, old = Positional(), Old()
    with pytest.warns(FutureWarning, match=r"Old\.setup .* `total_num_samples`"):
        fit(function, {}, run(function, [positional, old]))
    assert positional.total == 1
    assert old.was_set_up


def test_an_error_in_setup_is_no_old_signature(fit: Any) -> None:
    class Broken(tune.Callback):
        def setup(self, **info: Any) -> None:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        fit(function, {}, run(function, [Broken()]))


@pytest.mark.parametrize("trainable", [function, Steps])
def test_what_a_callback_adds_to_a_result_stays(fit: Any, tmp_path: Path, trainable: Any) -> None:
    class Adds(tune.Callback):
        def on_trial_result(self, *, result: dict[str, Any], **about: Any) -> None:
            result["twice"] = 2 * result["score"]

    recorder = Recorder()
    (result,) = fit(trainable, {}, run(trainable, [Adds(), recorder]))
    assert result.metrics["twice"] == 4
    assert [row["twice"] for row in result.metrics_dataframe.to_dict("records")] == [0, 2, 4]
    told = [about["result"]["twice"] for hook, about in recorder.heard if "result" in about]
    assert told == [0, 2, 4]
    restored = tune.Tuner.restore(str(tmp_path / "search"), trainable)
    assert restored.get_results()[0].metrics["twice"] == 4


@pytest.mark.parametrize("hook", [name for name in HOOKS if name != "on_checkpoint"])
def test_an_error_of_a_hook_ends_the_search(fit: Any, hook: str) -> None:
    class Broken(Recorder):
        pass

    def broken(self: Any, **about: Any) -> None:
        raise RuntimeError(f"in {hook}")

    setattr(Broken, hook, broken)
    failures = 0 if hook == "on_trial_error" else 1
    with pytest.raises(Exception, match=f"in {hook}"):
        fit(function, {}, run(function, [Broken()], max_failures=failures))


def test_an_error_in_on_checkpoint_is_warned_of(fit: Any, caplog: Any) -> None:
    class Broken(Recorder):
        def on_checkpoint(self, **about: Any) -> None:
            raise RuntimeError("no room")

    (result,) = fit(function, {}, run(function, [Broken()]))
    assert result.metrics["score"] == 2
    assert result.checkpoint is not None
    assert "no room" in caplog.text


class Counting(tune.Callback):
    """Has a state."""

    def __init__(self) -> None:
        self.count, self.restored_from = 0, None

    def on_trial_result(self, **about: Any) -> None:
        self.count += 1

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = self.restored_from = state["count"]


def test_states_come_back_with_a_restored_search(fit: Any, tmp_path: Path) -> None:
    fit(function, {}, run(function, [Recorder(), Counting()], max_failures=0))
    tuner = tune.Tuner.restore(str(tmp_path / "search"), function, resume_errored=True)
    tuner.fit()
    _, counting = tuner._run.callbacks
    assert counting.restored_from == 2
    assert counting.count == 3


def test_a_list_of_callbacks_is_one(tmp_path: Path) -> None:
    recorder, counting = Recorder(), Counting()
    both = CallbackList([recorder, counting])
    for hook in HOOKS:
        getattr(both, hook)(iteration=1, trials=[], trial=None, result={}, checkpoint=None)
    assert recorder.names == [hook for hook in HOOKS if not hook.startswith("on_step")]
    assert list(both) == [both[0], both[1]] == [recorder, counting]
    assert len(both) == 2
    assert not both.can_restore(str(tmp_path))
    with pytest.raises(RuntimeError, match="no states"):
        both.restore_from_dir(str(tmp_path))
    both.save_to_dir(str(tmp_path), session_str="one")
    assert both.can_restore(str(tmp_path))
    fresh = Counting()
    CallbackList([Recorder(), fresh]).restore_from_dir(str(tmp_path))
    assert fresh.restored_from == 1
    CallbackList([Recorder()]).save_to_dir(str(tmp_path / "nowhere"))
