"""torch does without numpy, which it cannot make buffers without; so do tensors in calls (contract F3.11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.harness import start_driver

pytest.importorskip("torch")

DRIVER = """
import ray, torch

@ray.remote
def double(tensor):
    return tensor * 2

@ray.remote
class Keeper:
    def keep(self, tensors):
        self.tensors = tensors
        return {"sum": sum(t.sum() for t in tensors)}

ray.init(num_cpus=1)
try:
    torch.ones(1).numpy()
    print("numpy=there")
except RuntimeError:
    print("numpy=missing")
small, large = torch.arange(4), torch.arange(100_000)
print("doubled=", ray.get(double.remote(small)).tolist(), sep="")
print("large=", torch.equal(ray.get(double.remote(ray.put(large))), large * 2), sep="")
print("sum=", ray.get(Keeper.remote().keep.remote([small, large]))["sum"].item(), sep="")
"""


@pytest.mark.contract("F3.11")
def test_tensors_travel_without_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('numpy is not installed')\n")
    driver = start_driver(
        tmp_path, DRIVER, env={"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    )
    done = driver.finish().check()
    assert done.value("numpy") == "missing"
    assert done.value("doubled") == "[0, 2, 4, 6]"
    assert done.value("large") == "True"
    assert done.value("sum") == str(6 + sum(range(100_000)))
