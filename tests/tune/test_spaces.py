"""Search spaces: which configurations they make (contract F11.04). Numbers are those that Ray 2.60 draws."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search import BasicVariantGenerator, sample
from ray.tune.search.variant_generator import (
    RecursiveDependencyError,
    format_vars,
    generate_variants,
    parse_spec_vars,
)

pytestmark = pytest.mark.contract("F11.04", "F11.07")

SPACE = {
    "a": tune.uniform(0, 1),
    "b": tune.quniform(0, 10, 0.5),
    "c": tune.loguniform(1e-4, 1),
    "d": tune.qloguniform(1, 100, 0.5),
    "e": tune.randint(0, 100),
    "f": tune.qrandint(0, 100, 5),
    "g": tune.lograndint(1, 1000),
    "h": tune.qlograndint(1, 1000, 10),
    "i": tune.randn(1, 2),
    "j": tune.qrandn(0, 10, 0.2),
    "k": tune.choice(["x", 2, [3]]),
    "n": {"m": tune.grid_search([1, 2]), "l": [tune.uniform(2, 3), 7]},
    "z": tune.sample_from(lambda spec: spec.config.a * 2),
}
FIRST = {
    "a": 0.7739560485559633,
    "b": 4.5,
    "c": 0.27188902645221674,
    "d": 25.0,
    "e": 20,
    "f": 5,
    "g": 845,
    "h": 330,
    "i": 0.3675148153128356,
    "j": -0.2,
    "k": [3],
    "n": {"m": 1, "l": [2.370798024232581, 7]},
    "z": 1.5479120971119267,
}


def configs(space: dict[str, Any], num_samples: int = 1, **options: Any) -> list[dict[str, Any]]:
    algorithm = BasicVariantGenerator(**options)
    made = [config for config, _ in algorithm.configurations(space, num_samples)]
    assert len(made) == algorithm.count(space, num_samples)
    return made


def test_the_same_seed_draws_what_ray_draws() -> None:
    first, second = configs(SPACE, random_state=42)
    assert _close(first, FIRST)
    assert second["a"] == pytest.approx(0.9267649888486018)
    assert (second["k"], second["n"]["m"], second["h"]) == ("x", 2, 10)
    assert configs(SPACE, 2, random_state=42)[:2] == [first, second]


def _close(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            _close(found[k], expected[k]) for k in expected
        )
    if isinstance(expected, list):
        return all(_close(*pair) for pair in zip(found, expected, strict=True))
    return bool(
        found == pytest.approx(expected) if isinstance(expected, float) else found == expected
    )


def test_without_a_seed_numpys_global_one_counts() -> None:
    np.random.seed(7)
    space = {"a": tune.uniform(0, 1), "g": tune.grid_search([1, 2]), "k": tune.choice([1, 2, 3])}
    first, second = configs(space)
    assert first == {"a": pytest.approx(0.07630828937395717), "g": 1, "k": 2}
    assert second == {"a": pytest.approx(0.31897222577340323), "g": 2, "k": 1}


def test_grids_are_multiplied_out_once_per_sample() -> None:
    space: dict[str, Any] = {"x": tune.grid_search([1, 2, 3])}
    space["in"] = {"y": tune.grid_search(["a", "b"])}
    made = configs(space, 2)
    pairs = [(config["x"], config["in"]["y"]) for config in made]
    assert pairs == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")] * 2


def test_a_choice_may_be_a_space() -> None:
    space = {"model": tune.choice([{"kind": "tree", "depth": tune.randint(1, 5)}])}
    (made,) = configs(space, random_state=1)
    assert made["model"]["kind"] == "tree"
    assert made["model"]["depth"] in range(1, 5)


def test_functions_see_other_values_in_any_order() -> None:
    space = {
        "sum": tune.sample_from(lambda config: config["double"] + config["in"]["x"]),
        "double": tune.sample_from(lambda spec: spec.config["in"].x * 2),
        "in": {"x": tune.grid_search([1, 5])},
    }
    assert [config["sum"] for config in configs(space)] == [3, 15]
    with pytest.raises(tune.TuneError, match=r"'wrong'.*'nothing'"):
        configs({"wrong": tune.sample_from(lambda config: config["nothing"])})


def test_constant_grid_search_draws_once_per_sample() -> None:
    space = {"g": tune.grid_search([1, 2, 3]), "u": tune.uniform(0, 1)}
    made = configs(space, 2, constant_grid_search=True, random_state=3)
    values = [config["u"] for config in made]
    assert values[0] == values[1] == values[2] != values[3] == values[5]


def test_points_to_evaluate_come_first() -> None:
    space = {"a": tune.uniform(0, 1), "g": tune.grid_search([1, 2])}
    made = configs(space, 2, points_to_evaluate=[{"a": 0.5, "g": 9}], random_state=1)
    assert made[0] == {"a": 0.5, "g": 9}
    assert [config["g"] for config in made[1:]] == [1, 2]


def test_the_space_itself_is_not_changed() -> None:
    inner = {"list": [tune.uniform(0, 1)]}
    space = {"inner": inner, "kept": object()}
    (made,) = configs(space)
    assert made["kept"] is space["kept"]
    assert isinstance(made["inner"]["list"][0], float)
    assert isinstance(inner["list"][0], type(tune.uniform(0, 1)))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: tune.loguniform(0, 1), "greater than 0"),
        (lambda: tune.lograndint(0, 5), "greater than 0"),
        (lambda: tune.quniform(0.1, 1, 0.25), "0.1 is not divisible by quantization factor 0.25"),
        (lambda: tune.sample_from(3), "not a callable object"),
        (lambda: configs({"x": tune.grid_search(3)}), "expected list of values"),
        (
            lambda: configs({"x": 1}, points_to_evaluate=[{"y": 2}]),
            "'y' is not in the search space",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, error: str) -> None:
    with pytest.raises((ValueError, TypeError, tune.TuneError), match=error):
        make()


def test_domains_draw_on_their_own() -> None:
    assert len(tune.choice([1, 2]).sample(size=3)) == 3
    assert 0 <= tune.uniform(0, 1).sample() <= 1
    assert not tune.uniform(0, 1).is_valid(3)
    values = {tune.qrandint(0, 10, 5).sample(random_state=seed) for seed in range(50)}
    assert values == {0, 5, 10}, "both bounds are drawn"


def test_a_domain_says_how_it_is_drawn() -> None:
    """Searchers of other libraries ask a domain for its sampler, its bounds and its step."""
    names = {
        "Uniform": (tune.uniform(0, 1), tune.randint(0, 9), tune.choice([1])),
        "LogUniform": (tune.loguniform(1, 9), tune.lograndint(1, 9)),
        "Normal": (tune.randn(1, 2),),
    }
    for name, domains in names.items():
        for domain in domains:
            assert str(domain.get_sampler()) == name
    for domain, q in ((tune.quniform(0, 1, 0.5), 0.5), (tune.qlograndint(2, 8, 2), 2)):
        sampler = domain.get_sampler()
        assert isinstance(sampler, sample.Quantized)
        assert sampler.q == q
        assert str(sampler.get_sampler()) in ("Uniform", "LogUniform")
    normal = tune.randn(1, 2).get_sampler()
    assert (normal.mean, normal.sd) == (1, 2)
    assert tune.sample_from(lambda: 7).sample() == 7
    assert tune.sample_from(lambda config: config["a"]).sample({"a": 3}) == 3
    wanted = [
        inspect.signature(d.is_valid).parameters["value"].annotation for d in names["Uniform"]
    ]
    assert wanted == [float, int, Any]
    assert (tune.uniform(0, 1).cast(1), tune.randint(0, 9).cast(2.0)) == (1.0, 2)


def test_a_domain_is_given_a_sampler() -> None:
    """Domains are made by hand as well: the class, then how it is drawn."""
    assert sample.Float(1, 4).loguniform().quantized(0.5).sample(random_state=1) % 0.5 == 0
    assert 2 <= sample.Integer(2, 9).uniform().sample() < 9
    assert sample.Categorical(["a"]).uniform().sample() == "a"
    assert isinstance(sample.Float(None, None).normal(0, 1).sample(), float)
    with pytest.raises(ValueError, match="sampler"):
        tune.uniform(0, 1).set_sampler(sample.Uniform())
    with pytest.raises(ValueError, match="lower bound"):
        sample.Float(None, 1).uniform()


def test_a_choice_can_be_a_grid() -> None:
    grid = sample.Categorical([1, 2]).grid()
    assert grid.is_grid()
    assert not tune.choice([1, 2]).is_grid()
    assert [config["x"] for config in configs({"x": grid})] == [1, 2]


def test_a_space_is_walked_by_hand() -> None:
    space = {"a": {"b": tune.grid_search([1, 2])}, "c": tune.uniform(0, 1)}
    found = list(generate_variants(space, random_state=1))
    assert [chosen[("a", "b")] for chosen, _ in found] == [1, 2]
    assert all(spec["c"] == chosen[("c",)] for chosen, spec in found)


def test_a_function_of_a_space_is_called_by_hand() -> None:
    for function in (lambda spec: spec.config.x, lambda spec: spec["x"], lambda spec: spec.x):
        assert tune.sample_from(function).sample({"x": 5}) == 5
    assert tune.sample_from(lambda: 3).sample({"x": 5}) == 3


def test_functions_that_cannot_be_called_are_named() -> None:
    def asks_for_itself(spec: Any) -> Any:
        return spec.config.a

    def fails(spec: Any) -> Any:
        return 1 / 0

    with pytest.raises(RecursiveDependencyError, match="'a'"):
        list(generate_variants({"a": tune.sample_from(asks_for_itself)}))
    with pytest.raises(ValueError, match="'b/c' raised ZeroDivisionError"):
        list(generate_variants({"b": {"c": tune.sample_from(fails)}}))


def test_what_a_choice_of_spaces_has_chosen() -> None:
    inner = {"x": tune.grid_search([1, 2])}
    found = generate_variants({"a": tune.grid_search([inner, 7])})
    assert [chosen for chosen, _ in found] == [
        {("a",): {"x": 1}, ("a", "x"): 1},
        {("a",): {"x": 2}, ("a", "x"): 2},
        {("a",): 7},
    ]


def test_a_space_in_its_parts() -> None:
    rate, grid = tune.uniform(0, 1), tune.grid_search([1, 2])
    constants, domains, grids = parse_spec_vars({"a": rate, "b": {"c": grid}, "d": [4, 5]})
    assert constants == [(("d", 0), 4), (("d", 1), 5)]
    assert domains == [(("a",), rate)]
    assert grids == [(("b", "c"), [1, 2])]
    assert format_vars({("b", "c"): 1, ("a",): 0.25}) == "a=0.2500,c=1"
