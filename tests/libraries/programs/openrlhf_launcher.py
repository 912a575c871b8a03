"""OpenRLHF's launcher: a group of actors in a placement group, which find their master and share a batch."""

import os
import sys
import tempfile
from pathlib import Path

# The package of its launcher loads what needs a GPU's software and is not used here.
folder = tempfile.mkdtemp()
for module in ("vllm", "flash_attn"):
    Path(folder, f"{module}.py").write_text("""
import importlib.machinery
import sys
from unittest.mock import MagicMock

class Stub(MagicMock):
    __path__ = []

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.startswith(__name__ + ".") else None
    def create_module(self, spec):
        return Stub()
    def exec_module(self, module): ...

__path__ = []
sys.meta_path.append(Finder())
def __getattr__(name):
    return type(name, (), {})
""")
sys.path.insert(0, folder)
os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

import ray  # noqa: E402
from openrlhf.trainer.ray.launcher import BaseModelActor, RayActorGroup  # noqa: E402
from proof import on_the_cluster  # noqa: E402


@ray.remote(num_cpus=1)
class Scorer(BaseModelActor):
    def init_model_from_pretrained(self, offset):
        self.offset = offset
        return self._rank, self._world_size

    def score(self, numbers):
        return [number + self.offset for number in numbers]


# Nobody looks for the GPUs: they are counted.
ray.init(num_cpus=4, num_gpus=2)
group = RayActorGroup(1, 2, Scorer)
found = ray.get(group.async_init_model_from_pretrained(10))
assert sorted(found) == [(0, 2), (1, 2)], found
on_the_cluster("Scorer")
