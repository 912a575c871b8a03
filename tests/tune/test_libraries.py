"""Searchers that ask other libraries (contract F11.07, F11.08).

The libraries are no dependency: with one of them installed its test asks the real one. `make test-extras`
installs all of them.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Searcher, create_searcher

pytestmark = [
    pytest.mark.contract("F11.07", "F11.08"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries
]

# The searcher's name, its options, what is imported.
LIBRARIES = [
    ("ax", {}, "ax"),
    ("bayesopt", {"random_search_steps": 6}, "bayes_opt"),
    ("bohb", {}, "hpbandster"),
    ("hebo", {"random_state_seed": 1, "max_concurrent": 4}, "hebo"),
    ("hyperopt", {"random_state_seed": 1, "n_initial_points": 8}, "hyperopt"),
    ("nevergrad", {}, "nevergrad"),
    ("zoopt", {"budget": 60}, "zoopt"),
]
NAMES = [one[0] for one in LIBRARIES]
# These fit a model for each point after the first few, which takes seconds of a core.
FITTING = ("ax", "hebo")


def is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def made(name: str, **more: Any) -> Any:
    """The searcher, where its library is installed."""
    _, options, module = LIBRARIES[NAMES.index(name)]
    pytest.importorskip(module, reason=f"{name} asks a library that is not installed")
    return create_searcher(name, **options, **more)


def space_of(name: str) -> dict[str, Any]:
    space: dict[str, Any] = {"model": {"x": tune.uniform(-1, 1)}, "y": tune.uniform(0, 4)}
    if name != "bayesopt":  # it has real numbers alone
        space["n"] = tune.randint(1, 4)
        space["kind"] = tune.choice(["bad", "good"])
    return space


def loss(config: dict[str, Any]) -> float:
    kind = config.get("kind", "good")
    return float((config["model"]["x"] - 0.3) ** 2 + (config["y"] - 1) ** 2 + (kind == "bad"))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads that fit a model wait for each other without sleeping: where cores are shared, for minutes."""
    import threadpoolctl
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpoolctl.threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@pytest.mark.timeout(3600)  # Ax and HEBO fit models: many times half a minute beside others
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "bohb"])
def test_a_searcher_learns(name: str, mode: str, tmp_path: Path, one_thread: None) -> None:
    """Results, some of them missing; before the last third the state goes through a file."""
    searcher = made(name)
    asked, goal = (12, 2.0) if name in FITTING else (30, 0.6)
    sign = 1 if mode == "min" else -1
    assert searcher.set_search_properties("loss", mode, space_of(name))
    losses: list[float] = []
    for number in range(asked):
        trial_id = f"t{number}"
        config = searcher.suggest(trial_id)
        if config in (None, Searcher.FINISHED):
            continue
        assert -1 <= config["model"]["x"] <= 1
        assert 0 <= config["y"] <= 4
        assert config.get("n", 1) in (1, 2, 3)
        assert isinstance(config.get("n", 1), int)
        assert config.get("kind", "good") in ("good", "bad")
        losses.append(loss(config))
        if number == 3:
            searcher.on_trial_complete(trial_id, error=True)
        elif number == 4:
            searcher.on_trial_complete(trial_id, {"loss": float("nan")})
        else:
            searcher.on_trial_result(trial_id, {"loss": sign * losses[-1]})
            searcher.on_trial_complete(trial_id, {"loss": sign * losses[-1]})
        if number == asked * 2 // 3:
            searcher.save(str(tmp_path / "state"))
            again = made(name)
            again.restore(str(tmp_path / "state"))
            searcher = again
    assert len(losses) >= asked // 2
    assert min(losses) < goal


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bohb"])
def test_points_come_first(name: str) -> None:
    point: dict[str, Any] = {"model": {"x": 0.25}, "y": 1.5}
    if name != "bayesopt":
        point.update(n=2, kind="good")
    searcher = made(name, points_to_evaluate=[point], metric="loss", mode="min")
    searcher.set_search_properties(None, None, space_of(name))
    first = searcher.suggest("a")
    assert first["model"]["x"] == pytest.approx(0.25)
    assert first["y"] == pytest.approx(1.5)
    assert first.get("kind", "good") == "good"
    searcher.on_trial_complete("a", {"loss": loss(first)})
    assert searcher.suggest("b") != first


@pytest.mark.parametrize("name", ["bayesopt", "hyperopt", "nevergrad"])
def test_what_is_known_already_is_told(name: str) -> None:
    searcher = made(name, metric="loss", mode="min")
    searcher.set_search_properties(None, None, space_of(name))
    known: dict[str, Any] = {"model": {"x": 0.3}, "y": 1.0}
    if name != "bayesopt":
        known.update(n=1, kind="good")
    searcher.add_evaluated_point(known, 0.0)
    assert searcher.suggest("a")


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_searched_is_said(name: str) -> None:
    searcher = made(name)
    with pytest.raises(RuntimeError, match="no search space"):
        searcher.suggest("a")
    for space, said in (
        ({"a": tune.grid_search([1])}, "grid"),
        ({"a": tune.sample_from(lambda config: 1)}, "sample_from"),
        ({"a": 3}, "nothing"),
    ):
        with pytest.raises(ValueError, match=said):
            searcher.set_search_properties("loss", "min", space)
    searcher.set_search_properties(None, None, space_of(name))
    with pytest.raises(RuntimeError, match="metric"):
        searcher.suggest("a")


@pytest.mark.parametrize("name", ["bayesopt", "hyperopt", "nevergrad", "zoopt"])
def test_a_search_with_a_library(fit: Any, name: str) -> None:
    searcher = ConcurrencyLimiter(made(name), 2)

    def trainable(config: dict[str, Any]) -> None:
        x, y, kind = config["model"]["x"], config["y"], config.get("kind", "good")
        tune.report({"loss": (x - 0.3) ** 2 + (y - 1) ** 2 + (kind == "bad")})

    grid = fit(
        trainable,
        {**space_of(name), "constant": 3},
        search_alg=searcher,
        num_samples=12,
        metric="loss",
        mode="min",
    )
    assert len(grid) == 12
    assert grid.num_errors == 0
    assert all(result.config["constant"] == 3 for result in grid)


@pytest.fixture
def fake_hebo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """HEBO's documented interface, in small; what is told to it."""
    pandas = pytest.importorskip("pandas", reason="HEBO speaks in frames")
    told: list[Any] = []

    class DesignSpace:
        def parse(self, parameters: list[dict[str, Any]]) -> Any:
            self.parameters = parameters
            return self

    class HEBO:
        def __init__(self, space: Any) -> None:
            told.append(space.parameters)

        def suggest(self, n_suggestions: int) -> Any:
            rows = [{"m/x": n / 10, "n": n, "k": "a"} for n in range(n_suggestions)]
            return pandas.DataFrame(rows)

        def observe(self, rows: Any, losses: Any) -> None:
            told.append((rows.to_dict("records"), losses.tolist()))

    install(monkeypatch, "hebo.optimizers.hebo", HEBO=HEBO)
    install(monkeypatch, "hebo.design_space.design_space", DesignSpace=DesignSpace)
    return told


def install(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A module, and those above it."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        above = ".".join(parts[:count])
        if above not in sys.modules or count == len(parts):
            monkeypatch.setitem(sys.modules, above, types.ModuleType(above))
    vars(sys.modules[name]).update(content)


SPACE = {"m": {"x": tune.uniform(0, 1)}, "n": tune.randint(0, 9), "k": tune.choice(["a", "b"])}


def test_hebo_is_asked_in_batches_and_told_losses(fake_hebo: list[Any]) -> None:
    point = {"m": {"x": 0.5}, "n": 1, "k": "b"}
    searcher = create_searcher(
        "hebo",
        metric="score",
        mode="max",
        max_concurrent=2,
        points_to_evaluate=[point],
        evaluated_rewards=[7.0],
    )
    assert searcher.set_search_properties(None, None, SPACE)
    assert searcher.suggest("a") == {"m": {"x": 0.0}, "n": 0, "k": "a"}
    assert searcher.suggest("b") == {"m": {"x": 0.1}, "n": 1, "k": "a"}
    assert searcher.suggest("c") is None
    searcher.on_trial_complete("b", {"score": 3})
    searcher.on_trial_complete("a", error=True)
    space, known, result = fake_hebo
    assert space == [
        {"name": "m/x", "type": "num", "lb": 0, "ub": 1},
        {"name": "n", "type": "int", "lb": 0, "ub": 8},
        {"name": "k", "type": "cat", "categories": ["a", "b"]},
    ]
    assert known == ([{"m/x": 0.5, "n": 1, "k": "b"}], [-7.0])
    assert result == ([{"m/x": 0.1, "n": 1, "k": "a"}], [-3.0])


def test_ax_is_asked_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented interface of Ax's client, in small."""
    told: list[Any] = []

    class DataRequired(Exception):
        pass

    class AxClient:
        given = 0

        def __init__(self, **options: Any) -> None:
            constraint = types.SimpleNamespace(metric=types.SimpleNamespace(name="size"))
            config = types.SimpleNamespace(outcome_constraints=[constraint])
            self.experiment = types.SimpleNamespace(optimization_config=config)

        def create_experiment(self, **options: Any) -> None:
            told.append(options)

        def get_next_trial(self) -> tuple[dict[str, Any], int]:
            if self.given == 2:
                raise DataRequired
            self.given += 1
            return {"m/x": 0.1 * self.given, "n": 1, "k": "a"}, self.given

        def attach_trial(self, values: dict[str, Any]) -> tuple[dict[str, Any], int]:
            return values, 99

        def complete_trial(self, trial_index: int, raw_data: dict[str, Any]) -> None:
            told.append((trial_index, raw_data))

        def abandon_trial(self, trial_index: int, reason: str) -> None:
            told.append((trial_index, "abandoned"))

    install(monkeypatch, "ax.exceptions.core", DataRequiredError=DataRequired)
    limit = type("Limit", (Exception,), {})
    install(monkeypatch, "ax.exceptions.generation_strategy", MaxParallelismReachedException=limit)
    content = {"AxClient": AxClient, "ObjectiveProperties": lambda minimize: ("least", minimize)}
    install(monkeypatch, "ax.service.ax_client", **content)
    monkeypatch.setattr(
        sys.modules["ax.service"], "ax_client", sys.modules["ax.service.ax_client"], raising=False
    )
    point = {"m": {"x": 0.9}, "n": 2, "k": "b"}
    searcher = create_searcher("ax", points_to_evaluate=[point], outcome_constraints=["size <= 3"])
    assert searcher.set_search_properties("score", "max", SPACE)
    assert searcher.suggest("a") == point
    assert searcher.suggest("b") == {"m": {"x": 0.1}, "n": 1, "k": "a"}
    assert searcher.suggest("c")["m"] == {"x": 0.2}
    assert searcher.suggest("d") is None
    searcher.on_trial_complete("a", {"score": 3, "size": 1})
    searcher.on_trial_complete("b", {"score": 3})
    searcher.on_trial_complete("c", error=True)
    made, *results = told
    assert made["objectives"] == {"score": ("least", False)}
    assert made["outcome_constraints"] == ["size <= 3"]
    assert made["parameters"][0]["bounds"] == [0, 1]
    assert made["parameters"][1]["bounds"] == [0, 8]
    assert results == [
        (99, {"score": (3.0, None), "size": (1.0, None)}),
        (1, "abandoned"),
        (2, "abandoned"),
    ]
