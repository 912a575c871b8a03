"""Advantages, V-trace and sums of n steps against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from heliostat.util.returns import advantages, n_step, next_values, vtrace

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
    following = next_values(values, last, terminateds, truncateds, at, final)
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
    following = next_values(values, last, terminateds, truncateds, at, final)
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
