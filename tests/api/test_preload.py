"""Modules that take long to load are loaded once a node, from when a driver's script mentions them.

A small `torch` stands in for the large one; it notes every process that imports it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only("how workers are made is Heliostat's own")

NOTES = """
import os
from pathlib import Path
with open(Path(__file__).parent.parent / "imports", "a") as notes:
    notes.write(f"{os.getpid()}\\n")
"""

# Makes an actor whose module mentions torch and says where it was imported.
ACTOR = """
    import os
    import ray

    def use():
        import torch
        return torch.value

    @ray.remote
    class Trainer:
        def look(self):
            import sys
            return os.getpid(), "torch" in sys.modules

    ray.init(num_cpus=2)
    pid, has_it = ray.get(Trainer.remote().look.remote())
    print(f"pid={pid}")
    print(f"has_it={has_it}")
"""


@pytest.fixture
def fake_torch(tmp_path: Path) -> Any:
    """Writes a package `torch` with this source; returns the environment in which it is found."""

    def write(source: str) -> dict[str, str]:
        package = tmp_path / "fake" / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(NOTES + source)
        return {"PYTHONPATH": str(package.parent)}

    return write


def importers(tmp_path: Path) -> list[str]:
    notes = tmp_path / "fake" / "imports"
    return notes.read_text().split() if notes.exists() else []


@pytest.mark.contract("F0.02")
def test_a_script_that_mentions_a_large_module_has_it_loaded_at_once(
    start_driver: Any, fake_torch: Any, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    driver = start_driver(
        """
        import ray

        def train():
            import torch

        ray.init(num_cpus=2)
        open("go").close()  # a pipe: waits for its other end
        """,
        env=fake_torch("value = 1"),
    )
    wait_until(lambda: importers(tmp_path), what="an import without an actor")
    assert str(driver.pid) not in importers(tmp_path)
    (tmp_path / "go").open("w").close()
    driver.finish().check()


@pytest.mark.contract("F0.02")
def test_a_script_that_does_not_mention_it_does_not_have_it_loaded(
    run_driver: Any, fake_torch: Any, tmp_path: Path
) -> None:
    run_driver(
        """
        import ray

        @ray.remote
        class Counter:
            def look(self):
                import sys
                return "torch" in sys.modules

        ray.init(num_cpus=2)
        assert not ray.get(Counter.remote().look.remote())
        """,
        env=fake_torch("value = 1"),
    ).check()
    assert importers(tmp_path) == []


@pytest.mark.contract("F0.02")
def test_an_actor_is_forked_with_it(run_driver: Any, fake_torch: Any, tmp_path: Path) -> None:
    done = run_driver(ACTOR, env=fake_torch("value = 1")).check()
    assert done.value("has_it") == "True"
    (importer,) = importers(tmp_path)
    assert importer != done.value("pid")


@pytest.mark.contract("F0.02")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("raise ImportError('libtorch_cpu.so: no such file')", id="cannot be imported"),
        pytest.param("os.kill(os.getpid(), 9)", id="ends the process"),
        pytest.param("raise SystemExit(3)", id="exits"),
    ],
)
def test_one_that_cannot_be_loaded_leaves_workers_without(
    run_driver: Any, fake_torch: Any, source: str
) -> None:
    done = run_driver(ACTOR, env=fake_torch(source)).check()
    assert done.value("has_it") == "False"


@pytest.mark.contract("F0.02")
def test_one_that_leaves_a_thread_behind_is_not_forked(run_driver: Any, fake_torch: Any) -> None:
    """A fork copies only the thread that forks: the worker is started afresh."""
    thread = (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    done = run_driver(ACTOR, env=fake_torch(thread)).check()
    assert done.value("has_it") == "False"
