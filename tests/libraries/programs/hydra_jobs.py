"""Hydra: a multirun whose jobs its launcher starts as tasks, with their folders and their results."""

import os
import sys
import tempfile

import hydra

FOLDER = os.environ.setdefault("HYDRA_JOBS", tempfile.mkdtemp())


@hydra.main(version_base=None, config_path=None, config_name=None)
def app(config):
    with open(os.path.join(FOLDER, f"x{config.x}"), "w") as file:
        file.write(str(os.getpid()))
    return config.x * 2


sys.argv[1:] = [
    "--multirun",
    "hydra/launcher=ray",
    "+x=1,2,3",
    f"hydra.sweep.dir={os.path.join(FOLDER, 'sweep')}",
]
if __name__ == "__main__":
    app()
    made = sorted(name for name in os.listdir(FOLDER) if name.startswith("x"))
    assert made == ["x1", "x2", "x3"], made
    with open(os.path.join(FOLDER, "x1")) as file:
        assert int(file.read()) != os.getpid()
    assert sorted(os.listdir(os.path.join(FOLDER, "sweep")))[:3] == ["0", "1", "2"]
    print("cluster=yes")
