"""Advantages, V-trace and sums of n steps against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from heliostat.util.returns import Chances, advantages, n_step, next_values, vtrace

pytestmark = pytest.mark.heliostat_only("our functions of arrays")
STEPS, ENVS = 23, 3


def sampled(seed: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    rewards, values = random.normal(size=(2, STEPS, ENVS)).astype(np.float32)
    terminateds = random.random((STEPS, ENVS)) < 0.1
    truncateds = (random.random((STEPS, ENVS)) < 0.1) & ~terminateds
    last = random.normal(size=ENVS).astype(np.float32)
    at = np.argwhere(terminateds | truncateds)
    final = random.normal(size=len(at)).astype(np.float32)
    return rewards, values, terminateds, truncateds, last, at, final


@pytest.mark.parametrize("seed", range(5))
def test_advantages_are_those_of_a_loop(seed: int) -> None:
    rewards, values, terminateds, truncateds, last, at, final = sampled(seed)
    over = terminateds | truncateds
    following = next_values(values, last, terminateds, at, final)
    found = advantages(rewards, values, following, over, 0.9, 0.8)
    ended = {tuple(place): value for place, value in zip(at, final, strict=True)}
    for env in range(ENVS):
        running = 0.0
        for step in reversed(range(STEPS)):
            after = values[step + 1, env] if step + 1 < STEPS else last[env]
            if truncateds[step, env]:
                after = ended[step, env]
            if terminateds[step, env]:
                after = 0.0
            if over[step, env]:
                running = 0.0
            delta = rewards[step, env] + 0.9 * after - values[step, env]
            running = delta + 0.9 * 0.8 * running
            assert found[step, env] == pytest.approx(running, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_vtrace_is_that_of_a_loop(seed: int) -> None:
    rewards, values, terminateds, truncateds, last, at, final = sampled(seed)
    over = terminateds | truncateds
    following = next_values(values, last, terminateds, at, final)
    ratios = np.random.default_rng(seed).normal(size=(STEPS, ENVS)).astype(np.float32)
    targets, pg = vtrace(ratios, rewards, values, following, over, 0.9, 1.0, 1.0)
    for env in range(ENVS):
        for step in range(STEPS):
            total, weight, discount = 0.0, 1.0, 1.0
            for t in range(step, STEPS):
                rho = min(1.0, np.exp(ratios[t, env]))
                delta = rewards[t, env] + 0.9 * following[t, env] - values[t, env]
                total += discount * weight * rho * delta
                weight *= rho
                discount *= 0.9
                if over[t, env]:
                    break
            assert targets[step, env] == pytest.approx(
                values[step, env] + total, rel=1e-3, abs=1e-3
            )
            inside = step + 1 < STEPS and not over[step, env]
            after = targets[step + 1, env] if inside else following[step, env]
            rho = min(1.0, np.exp(ratios[step, env]))
            expected = rho * (rewards[step, env] + 0.9 * after - values[step, env])
            assert pg[step, env] == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("steps", [1, 3])
def test_sums_of_n_steps_are_those_of_a_loop(steps: int) -> None:
    rewards, _, terminateds, truncateds, *_ = sampled(1)
    over = terminateds | truncateds
    total, length = n_step(rewards, over, 0.9, steps)
    for env in range(ENVS):
        for step in range(STEPS):
            expected, count = 0.0, 0
            for t in range(step, min(step + steps, STEPS)):
                expected += 0.9**count * rewards[t, env]
                count += 1
                if over[t, env]:
                    break
            assert total[step, env] == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert length[step, env] == count


def test_columns_may_lie_in_any_order() -> None:
    """Rows of steps or of environments, with gaps, backwards, in other types: the numbers are the same."""
    rewards, values, terminateds, truncateds, last, at, final = sampled(2)
    over = terminateds | truncateds
    following = next_values(values, last, terminateds, at, final)
    expected = advantages(rewards, values, following, over, 0.9, 0.8)
    wide = np.zeros((STEPS, 2 * ENVS), np.float32)
    wide[:, ::2] = values
    others = [
        (np.asfortranarray(rewards), wide[:, ::2], following.astype(np.float64), over),
        (rewards[::-1].copy()[::-1], values, np.asfortranarray(following), over.astype(float)),
    ]
    for columns in others:
        found = advantages(*columns, 0.9, 0.8)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


def test_what_does_not_fit_is_refused() -> None:
    rewards, values, terminateds, _, last, at, final = sampled(3)
    with pytest.raises(ValueError, match="different shapes"):
        advantages(rewards, values[1:], values, terminateds, 0.9, 0.8)
    with pytest.raises(ValueError, match="steps and environments"):
        advantages(rewards[0], values[0], values[0], terminateds[0], 0.9, 0.8)
    with pytest.raises(ValueError, match="one value for each"):
        next_values(values, last[1:], terminateds, at, final)
    with pytest.raises(ValueError, match="at no step"):
        next_values(values, last, terminateds, at + STEPS, final)
    chances = Chances(4)
    with pytest.raises(ValueError, match="no place 4"):
        chances.set(np.array([4]), 1.0)
    with pytest.raises(ValueError, match="one chance"):
        chances.set(np.array([1, 2, 3]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="has no 5"):
        chances.draw(np.array([0.5]), 5, 1.0)


@pytest.mark.parametrize("count", [1, 37, 1000])
def test_places_are_drawn_as_often_as_their_chances_say(count: int) -> None:
    random = np.random.default_rng(count)
    given = random.random(count) ** 3 + 1e-3
    given[:: max(2, count // 5)] = 0.0
    given[-1] = 1.0
    chances = Chances(count)
    chances.set(np.arange(count), 7.0)
    chances.set(np.arange(count), given)
    places, weights = chances.draw(random.random(200_000), count, 0.5)
    often = np.bincount(places, minlength=count) / len(places)
    np.testing.assert_allclose(often, given / given.sum(), atol=2e-3)
    # Against a plain loop.
    total, smallest = given.sum(), given[places].min()
    for row in range(0, len(places), 997):
        expected = (count * given[places[row]] / total) ** -0.5 / (count * smallest / total) ** -0.5
        assert weights[row] == pytest.approx(expected, rel=1e-4)
