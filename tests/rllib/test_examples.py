"""The examples of reinforcement learning run, and what they train is better than chance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.heliostat_only("the examples import heliostat"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_policy_that_was_trained_is_served(run_driver: Any) -> None:
    pytest.importorskip("fastapi", reason="Serve's")
    done = run_driver(EXAMPLES / "serve_policy.py", timeout=600).check()
    # Actions at random keep the pole up for 20 steps or so.
    assert (
        int(re.findall(r"^steps of the served policy: (\d+)$", done.stdout, re.MULTILINE)[0]) > 60
    )


def test_answers_get_better_by_their_rewards(run_driver: Any) -> None:
    done = run_driver(
        EXAMPLES / "grpo.py",
        args=["--steps", "60", "--rollouts", "1", "--learners", "2"],
        env={"OMP_NUM_THREADS": "1"},
        timeout=1150,
    ).check()
    first, last = (
        float(re.findall(rf"^{name} reward: ([\d.]+)$", done.stdout, re.MULTILINE)[0])
        for name in ("first", "last")
    )
    assert first < 0.3
    assert last > first + 0.25


def test_a_simulator_elsewhere_is_learned_from(run_driver: Any) -> None:
    pytest.importorskip("msgpack", reason="messages are MessagePack")
    done = run_driver(EXAMPLES / "external_env.py", timeout=900).check()
    returns = [int(r) for r in re.findall(r"^return=(\d+)$", done.stdout, re.MULTILINE)]
    assert returns[0] < 50
    assert returns[-1] >= 75
