"""Random programs with known answers (``make programs`` runs more of them)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.harness import IS_HELIOSTAT, clean_env
from tests.programs.draw import draw
from tests.programs.emit import script_of, text_of
from tests.programs.hunt import Hunt
from tests.programs.model import from_json, to_json
from tests.programs.shrink import Shrinker

# As many as run within half a minute on two cores that do nothing else; `make programs` runs others.
SEEDS = range(150)
# Seconds after which a program counts as hanging, and so does the test.
HANG_S = 300.0


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.contract("F1.05", "F3.02", "F3.03", "F3.09")
def test_random_programs_give_what_they_must() -> None:
    hunt = Hunt(shrink_s=0.0, limit_s=HANG_S)
    hunt.run([draw(seed) for seed in SEEDS])
    report = "\n\n".join(f"{failure.error}\n\n{failure.script}" for failure in hunt.failures)
    assert not hunt.failures, report
    assert hunt.coverage.n_programs == len(SEEDS)


def test_a_seed_always_gives_the_same_program() -> None:
    for seed in range(20):
        program = draw(seed)
        assert to_json(draw(seed)) == to_json(program)
        assert text_of(from_json(to_json(program))) == text_of(program)


def test_a_script_needs_nothing_but_ray() -> None:
    program = next(p for p in map(draw, range(100)) if p.session == "usual" and len(p.ops) > 8)
    ended = subprocess.run(
        [sys.executable, "-c", script_of(program)],
        env={**clean_env(), "PYTHONPATH": ""},
        cwd="/tmp",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert "every reading gave what it must" in ended.stdout


@pytest.mark.heliostat_only("the pool of hosts runs on this interpreter either way")
def test_a_wrong_expectation_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks can fail: an oracle that is wrong about one kind of value disagrees."""
    assert IS_HELIOSTAT
    from tests.programs import graph

    right = graph.put_key
    monkeypatch.setattr("tests.programs.emit.put_key", lambda tag, value: right(tag, value) + 1)
    program = next(
        p
        for p in map(draw, range(100))
        if p.session == "usual" and any("ray.put" in line for line in text_of(p).splitlines())
    )
    shrinker = Shrinker(program, "wrong", seconds=30.0)
    assert "expected" in shrinker.fails(program)
    small = shrinker.run()
    assert len(small.ops) < len(program.ops)
    assert len(small.ops) <= 3
