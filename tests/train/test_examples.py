"""Every file of examples/ runs to its end on CPUs and says what it promises."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import Finished

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.heliostat_only("the examples import heliostat"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"

# DeepSpeed compiles an operation at its first start, and keeps it for later starts: half a minute on a
# quiet machine, and more than six on a busy one.
with_deepspeed = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="DeepSpeed compiles on CPUs: needs g++"),
]

# What other tests show in seconds takes half a minute here: tests/frameworks has rows of these libraries,
# tests/tune has searches. `make test-extras` runs all examples.
of_extras = pytest.mark.skipif(
    not os.environ.get("HELIOSTAT_EXTRAS"), reason="make test-extras runs this example"
)

Run = Callable[..., Finished]


@pytest.fixture
def run(run_driver: Any, tmp_path: Path) -> Run:
    """Run an example; what it stores goes to a folder of the test's own."""

    def run(name: str, *args: str, storage: bool = True) -> Finished:
        done: Finished = run_driver(
            EXAMPLES / f"{name}.py",
            args=[*args, *(["--storage", str(tmp_path / "runs")] if storage else [])],
            env={"OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0"},
            timeout=1150,
        )
        return done.check()

    return run


def after(done: Finished, title: str) -> Any:
    """What was printed behind ``title: `` as a Python value."""
    return ast.literal_eval(text_after(done, title))


def text_after(done: Finished, title: str) -> str:
    found = re.findall(rf"^{re.escape(title)}:? +(.*)$", done.stdout, re.MULTILINE)
    assert found, done.report()
    text: str = found[-1]
    return text


def test_each_example_is_tested() -> None:
    tests = "".join(p.read_text() for p in Path(__file__).parents[1].rglob("test_*.py"))
    assert [p.stem for p in EXAMPLES.glob("*.py") if f'"{p.stem}' not in tests] == []


@pytest.mark.contract("F2.02", "F2.05")
def test_000_worker_group(run: Run) -> None:
    done = run("worker_group", "--workers", "2", storage=False)
    assert "all-reduce done: every rank holds 1" in done.stdout


@pytest.mark.contract("F9.01", "F9.05", "F9.09", "F9.15", "F9.17", "F9.29", "F9.30")
def test_001_vision_transformer(run: Run) -> None:
    """`make demo` is the same with its defaults; here for a few epochs, with the lost worker."""
    done = run("vit_digits", "--workers", "2", "--epochs", "4", "--accuracy", "0.3")
    assert "going on with epoch 2" in done.output
    assert "1 restart" in done.output
    assert Path(text_after(done, "best checkpoint"), "model.pt").exists()
    assert Path(text_after(done, "page of the run")).exists()


@of_extras
@pytest.mark.contract("F9.07", "F9.18", "F9.32")
@pytest.mark.parametrize("workers", [pytest.param(2, marks=with_deepspeed)])
def test_001_zero3(run: Run, workers: int) -> None:
    for name in ("deepspeed", "transformers", "torchmetrics"):
        pytest.importorskip(name)
    pytest.importorskip("heliostat.data", reason="ZeRO-3 reads a dataset of heliostat.data")
    done = run("zero3", "--workers", str(workers), "--epochs", "2")
    assert float(re.findall(r"accuracy=([\d.]+)", done.stdout)[-1]) > 0.6
    # Every rank's shard is in the one checkpoint.
    for rank in range(workers):
        assert f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" in done.stdout


@of_extras
@pytest.mark.contract("F9.32")
@pytest.mark.parametrize("stages", [pytest.param(2, marks=with_deepspeed)])
def test_001_pipeline(run: Run, stages: int) -> None:
    pytest.importorskip("deepspeed")
    done = run("pipeline", "--stages", str(stages), "--epochs", "2", "--steps", "15")
    assert after(done, "Final metrics")["loss"] < 2.0
    for stage in range(stages):
        assert f"stage {stage} of {stages} has" in done.output


@pytest.mark.contract("F1.01", "F1.03", "F1.06", "F2.01", "F2.04")
def test_002_tasks_and_actors(run: Run) -> None:
    done = run("tasks_and_actors", storage=False)
    assert after(done, "squares") == [0, 1, 4, 9]
    assert after(done, "counter") == 10
    assert after(done, "slots") == ["first had the slot", "second had the slot"]


@pytest.mark.contract("F1.06")
def test_002_ensemble(run: Run) -> None:
    done = run("ensemble", "--models", "4", "--steps", "60", storage=False)
    assert "4/4 trained" in done.stdout


@pytest.mark.contract("F9.01", "F9.05", "F9.15", "F9.17")
def test_003_cluster_training(run: Run) -> None:
    done = run("cluster_training", "--epochs", "4")
    rows = re.findall(r"^(\d+) +(\d+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert [(index, epoch) for index, epoch, _ in rows] == [(str(i), str(i)) for i in range(4)]
    losses = [float(loss) for _, _, loss in rows]
    assert losses == sorted(losses, reverse=True)
    assert float(text_after(done, "Final loss")) == pytest.approx(losses[-1], abs=1e-3)
    assert "Checkpoint(filesystem=local, path=" in text_after(done, "First checkpoint")


@pytest.mark.contract("F9.26", "F9.27", "F9.29", "F9.31")
def test_004_parallelism(run: Run) -> None:
    done = run("parallelism")
    losses = [float(text_after(done, name).split()[-1]) for name in ("ddp", "fsdp", "fully_shard")]
    # Sharding changes where numbers are, not what they are.
    assert max(losses) - min(losses) < 1e-3
    assert float(text_after(done, "tensor").split()[-1]) < 2.0
    held = dict(re.findall(r"(\w+): rank 0 of 2 holds (\d+) parameters", done.output))
    assert int(held["ddp"]) == 64 * 128 + 128 + 128 * 10 + 10
    assert all(int(held[name]) < 5000 for name in ("fsdp", "fully_shard", "tensor"))


@of_extras
@pytest.mark.contract("F9.35", "F9.36")
def test_lightning(run: Run) -> None:
    pytest.importorskip("lightning")
    done = run("lightning_digits", "--epochs", "2")
    assert done.stdout.count("{'workers': 2, 'batches': 15}") == 2
    assert done.stdout.count("['checkpoint.ckpt']") == 2
    assert "deepspeed: left out, since Lightning runs DeepSpeed on GPUs only" in done.stdout


@of_extras
@pytest.mark.contract("F9.37")
def test_transformers(run: Run) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    done = run("transformers_digits", "--epochs", "2")
    assert after(done, "workers") == 2
    assert after(done, "metrics")["epoch"] == 2.0
    assert "eval_accuracy" in after(done, "metrics")
    assert int(text_after(done, "loaded").split()[0]) > 10_000


@pytest.mark.contract("F9.26", "F9.37")
def test_accelerate(run: Run) -> None:
    pytest.importorskip("accelerate")
    done = run("accelerate_digits", "--epochs", "2")
    wanted = {"workers": 2, "device": "cpu", "model": "DistributedDataParallel"}
    assert after(done, "ran as") == wanted
    assert after(done, "metrics")["accuracy"] > 0.7


@pytest.mark.contract("F9.38", "F9.39")
@pytest.mark.parametrize("library", [pytest.param("xgboost", marks=of_extras), "lightgbm"])
def test_boosting(run: Run, library: str) -> None:
    pytest.importorskip(library)
    done = run("boosting", "--only", library, "--rounds", "7")
    assert all(key.startswith("train-") for key in after(done, f"{library} metrics"))
    # After the fifth round and at the end.
    assert after(done, f"{library} checkpoints") == 2
    # Each worker has seen half of the rows; the model knows all of them.
    assert after(done, f"{library} accuracy") > 0.95


@of_extras
@pytest.mark.contract("F11.01", "F11.06")
def test_013_asha(run: Run) -> None:
    done = run("tune_asha")
    assert float(text_after(done, "accuracy")) > 0.8
    trained, most = map(int, text_after(done, "epochs").split(" of "))
    assert trained < most * 2 / 3, "bad ones end early"


@pytest.mark.contract("F11.01", "F11.06")
def test_014_population(run: Run) -> None:
    done = run("tune_pbt")
    assert float(text_after(done, "accuracy")) > 0.85
    assert int(text_after(done, "copies")) > 0
    assert len(after(done, "learning rates of the best")) > 1, "it changed on the way"


@pytest.mark.contract("F11.01", "F11.07")
def test_015_two_aims(run: Run) -> None:
    pytest.importorskip("optuna")
    done = run("tune_multi_objective")
    assert int(text_after(done, "forests")) == 24
    found = re.findall(r"^ *(\d+) nodes, accuracy ([\d.]+)", done.stdout, re.MULTILINE)
    assert len(found) > 1
    nodes, values = [int(one) for one, _ in found], [float(one) for _, one in found]
    assert (nodes, values) == (sorted(nodes), sorted(values)), "who is larger is better"
