"""Fields of an environment that change the worker's command, and those that there are not.

What starts the worker is a program of the test's own, which leaves a mark and becomes the interpreter.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig

from tests.helpers.harness import IS_HELIOSTAT

pytestmark = [
    pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's agent wants the real programs"),
    pytest.mark.contract("F7.09"),
]


@ray.remote
def look() -> dict[str, Any]:
    names = ("MARK", "GIVEN", "OF_PLUGIN")
    return {**{name: os.environ.get(name) for name in names}, "pid": os.getpid()}


@ray.remote
class Looking:
    def look(self) -> Any:
        return look._function()

    def fail(self) -> None:
        os._exit(3)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Make a program that the node finds; its arguments are kept beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CONDA_EXE", raising=False)

    def make(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$*" >> {folder}/{name}.called\n'
            f"export MARK={name}\n{script}\n"
        )
        path.chmod(0o755)
        return folder / f"{name}.called"

    return make


# Becomes what follows the program's own options: the interpreter.
AFTER_OPTIONS = f"""
while [ "$1" != "{sys.executable}" ]; do shift; done
exec "$@"
"""

# Does what `podman run` does as far as a test can see: the variables, the folder, the command.
PODMAN = f"""
shift
while :; do
  case "$1" in
    --env=*) export "${{1#--env=}}";;
    --workdir=*) cd "${{1#--workdir=}}";;
    --*) ;;
    *) break;;
  esac
  shift
done
export OF_IMAGE="$1"; shift
export MARK="$OF_IMAGE"
exec {sys.executable} "$@"
"""

CONDA = f"""
if [ "$1" = run ]; then echo {{prefix}}; exit; fi
while [ "$1" != -p ]; do shift; done
grep -q no-such-package "$4" && {{{{ echo "nothing provides no-such-package" >&2; exit 1; }}}}
mkdir -p "$2/bin"
printf '#!/bin/sh\\nexport MARK=python-of-conda\\nexec {sys.executable} "$@"\\n' > "$2/bin/python"
chmod 755 "$2/bin/python"
"""


@pytest.mark.parametrize(
    ("name", "env", "called"),
    [
        ("nsys", {"nsight": "default"}, "profile -t cuda,cudnn,cublas,nvtx --stop-on-exit=true -o"),
        ("nsys", {"_nsight": {"t": "nvtx", "o": "mine"}}, "profile -t nvtx -o"),
        ("rocprof-sys-python", {"rocprof_sys": "default"}, "-F true --"),
    ],
)
def test_a_profiler_starts_the_worker(
    ray_fresh: Any,
    program: Callable[[str, str], Path],
    tmp_path: Path,
    name: str,
    env: Any,
    called: str,
) -> None:
    record = program(name, AFTER_OPTIONS)
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "s"))
    assert ray.get(look.options(runtime_env=env).remote(), timeout=100)["MARK"] == name
    assert called in record.read_text()
    assert ray.get(look.remote())["MARK"] is None
    actor = Looking.options(runtime_env=env).remote()
    assert ray.get(actor.look.remote(), timeout=100)["MARK"] == name


@pytest.mark.parametrize("field", ["container", "image_uri"])
def test_a_container_is_around_the_worker(
    ray_fresh: Any, program: Callable[[str, str], Path], tmp_path: Path, field: str
) -> None:
    record = program("podman", PODMAN)
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "s"))
    image: Any = "of/mine:1"
    if field == "container":
        image = {"image": image, "run_options": ["--cap-drop SYS_ADMIN", "--log-level=debug"]}
        image["run_options"] = ["--log-level=debug"]
    env = {field: image, "env_vars": {"GIVEN": "yes"}}
    # Variables of the environment are the worker's, and so the container's.
    task = look.options(runtime_env={**env, "env_vars": {"RAY_GIVEN": "1", "GIVEN": "yes"}})
    found = ray.get(task.remote(), timeout=100)
    assert found["MARK"] == "of/mine:1"
    assert found["GIVEN"] == "yes"
    text = record.read_text()
    for option in ("run --rm", "--network=host", "--pid=host", "--ipc=host", "--entrypoint=python"):
        assert option in text
    assert ("--log-level=debug" in text) == (field == "container")


@pytest.mark.parametrize("tool", ["conda", "mamba", "micromamba"])
def test_an_interpreter_of_conda(
    ray_fresh: Any, program: Callable[[str, str], Path], tmp_path: Path, tool: str
) -> None:
    prefix = tmp_path / "named"
    record = program(tool, CONDA.format(prefix=prefix))
    (prefix / "bin").mkdir(parents=True)
    python = prefix / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexport MARK=named\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "s"))
    by_name = {"conda": "of-mine"}
    assert ray.get(look.options(runtime_env=by_name).remote(), timeout=100)["MARK"] == "named"
    described = {"conda": {"dependencies": ["pip", {"pip": ["a-package"]}]}}
    for extra in ({}, {"env_vars": {"GIVEN": "1"}}):
        task = look.options(runtime_env={**described, **extra})
        assert ray.get(task.remote(), timeout=100)["MARK"] == "python-of-conda"
    (made,) = (line for line in record.read_text().splitlines() if "-p" in line)
    assert made.startswith("create -y" if tool == "micromamba" else "env create")
    broken = {"conda": {"dependencies": ["no-such-package"]}}
    with pytest.raises(RuntimeEnvSetupError, match="nothing provides no-such-package"):
        ray.get(look.options(runtime_env=broken).remote(), timeout=100)
    assert record.read_text().count("\n") == 3, "what fails is not tried again"
    path = tmp_path / "environment.yml"
    path.write_text("dependencies:\n- another\n")
    task = look.options(runtime_env={"conda": str(path)})
    assert ray.get(task.remote(), timeout=100)["MARK"] == "python-of-conda"


@pytest.mark.parametrize(
    ("env", "program_name"),
    [
        ({"nsight": "default"}, "nsys"),
        ({"rocprof_sys": "default"}, "rocprof-sys-python"),
        ({"image_uri": "x"}, "podman"),
        ({"conda": "x"}, "micromamba or mamba or conda"),
    ],
)
def test_a_node_says_what_it_does_not_have(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch, env: Any, program_name: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CONDA_EXE", raising=False)
    ray_fresh(num_cpus=1)
    with pytest.raises(RuntimeEnvSetupError, match=f"no program {program_name}"):
        ray.get(look.options(runtime_env=env).remote(), timeout=100)


PLUGIN = """
import os
from pathlib import Path
from ray._private.runtime_env.plugin import RuntimeEnvPlugin

class Mine(RuntimeEnvPlugin):
    name = "mine"

    @staticmethod
    def validate(env):
        if not isinstance(env["mine"], dict):
            raise TypeError("mine must be a dictionary")

    def get_uris(self, env):
        return env["mine"].get("uris", [])

    async def create(self, uri, env, context, logger):
        with open(os.environ["MADE"], "a") as file:
            print(uri, file=file)
        if env["mine"].get("broken"):
            raise OSError("the plugin has no room")
        return 1

    def modify_context(self, uris, env, context, logger):
        context.env_vars["OF_PLUGIN"] = env["mine"]["says"]
        if prefix := env["mine"].get("prefix"):
            context.command_prefix += prefix
"""


def test_a_plugin_changes_the_worker(
    ray_fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_plugin_of_mine.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    plugins = [{"class": "a_plugin_of_mine.Mine", "priority": 5}]
    monkeypatch.setenv("RAY_RUNTIME_ENV_PLUGINS", json.dumps(plugins))
    made = tmp_path / "made"
    monkeypatch.setenv("MADE", str(made))
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "s"))
    with pytest.raises(TypeError, match="must be a dictionary"):
        look.options(runtime_env={"mine": 3})
    env = {"mine": {"says": "hello", "uris": ["a", "b"]}}
    for extra in ({}, {"env_vars": {"GIVEN": "1"}}):
        found = ray.get(look.options(runtime_env={**env, **extra}).remote(), timeout=100)
        assert found["OF_PLUGIN"] == "hello"
    assert made.read_text().split() == ["a", "b"], "once a node"
    prefix = {"mine": {"says": "x", "prefix": ["export", "MARK=prefix", "&&"]}}
    assert ray.get(look.options(runtime_env=prefix).remote(), timeout=100)["MARK"] == "prefix"

    @dataclasses.dataclass
    class Says:
        says: str

    typed = RuntimeEnv()
    typed.set("mine", Says("typed"))
    assert typed.get("mine", data_class=Says) == Says("typed")
    assert typed.plugins() == [("mine", {"says": "typed"})]
    assert ray.get(look.options(runtime_env=typed).remote(), timeout=100)["OF_PLUGIN"] == "typed"
    with pytest.raises(RuntimeEnvSetupError, match="the plugin has no room"):
        broken = {"mine": {"says": "x", "broken": True}}
        ray.get(look.options(runtime_env=broken).remote(), timeout=100)
    monkeypatch.delenv("RAY_RUNTIME_ENV_PLUGINS")
    with pytest.raises(ValueError, match="RAY_RUNTIME_ENV_PLUGINS"):
        look.options(runtime_env=env)


@pytest.mark.contract("F7.08")
@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"pips": ["a"]}, "did you mean 'pip'"),
        ({"working-dir": "/tmp"}, "did you mean 'working_dir'"),
        ({"env_var": {"A": "1"}}, "did you mean 'env_vars'"),
        ({"docker": "x"}, "no field 'docker'"),
        ({"config": {"setup_timeout": 3}}, "did you mean 'setup_timeout_seconds'"),
        ({"java_jars": ["a.jar"]}, "no workers in Java"),
        ({"pip": ["a"], "conda": "b"}, "cannot both be given"),
        ({"container": {"run_options": []}}, "'image'"),
        ({"image_uri": "x", "pip": ["a"]}, "cannot be given together with pip"),
        ({"conda": "/nowhere/environment.yml"}, "no such file"),
    ],
)
def test_nothing_is_passed_over(env: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        look.options(runtime_env=env).remote()


@pytest.mark.contract("F7.06", "F7.08")
def test_an_environment_tells_what_it_says() -> None:
    env = RuntimeEnv(
        env_vars={"A": "1"},
        pip=["a", "b"],
        config={"setup_timeout_seconds": 5},
        py_executable="python -s",
    )
    assert env.env_vars() == {"A": "1"}
    assert (env.has_pip(), env.has_uv(), env.has_conda()) == (True, False, False)
    assert env.pip_config()["packages"] == ["a", "b"]
    assert env.uv_config() == {}
    assert env.pip_uri() == RuntimeEnv(pip=["a", "b"]).pip_uri()
    assert (env.uv_uri(), env.conda_uri(), env.virtualenv_name()) == (None, None, None)
    assert (env.has_working_dir(), env.working_dir(), env.working_dir_uri()) == (False, "", None)
    assert (env.py_modules(), env.py_modules_uris(), env.java_jars()) == ([], [], [])
    assert (env.has_py_container(), env.py_container_image()) == (False, None)
    assert (env.py_container_worker_path(), env.py_container_run_options()) == (None, None)
    assert (env.nsight(), env.plugins(), env.plugin_uris()) == (None, [], [])
    assert env.get_extension("_ray_commit") is None
    with pytest.raises(ValueError, match="Extension key"):
        env.get_extension("pip")
    conda = RuntimeEnv(conda="mine")
    assert (conda.has_conda(), conda.conda_env_name(), conda.conda_config()) == (True, "mine", None)
    described = RuntimeEnv(conda={"dependencies": ["a"]})
    assert described.conda_config() == '{"dependencies": ["a"]}'
    assert described.conda_env_name() is None
    container = RuntimeEnv(container={"image": "a", "run_options": ["--x"]})
    assert container.has_py_container()
    assert (container.py_container_image(), container.py_container_run_options()) == ("a", ["--x"])
    assert RuntimeEnv.deserialize(env.serialize()).pip_config()["packages"] == ["a", "b"]
    plain = RuntimeEnv(config=RuntimeEnvConfig(setup_timeout_seconds=5)).to_dict()
    assert type(plain["config"]) is dict
    env["pips"] = ["c"]  # a plugin's, perhaps: it is refused where no cluster has it
    assert env.plugins() == [("pips", ["c"])]
    env["uv"] = None
    assert "uv" not in env


@pytest.mark.contract("F7.06")
def test_a_configuration_of_environments() -> None:
    default = RuntimeEnvConfig.default_config()
    assert (default["setup_timeout_seconds"], default["eager_install"]) == (600, True)
    parse = RuntimeEnvConfig.parse_and_validate_runtime_env_config
    assert parse(default) is default
    assert parse({"eager_install": False})["eager_install"] is False
    assert RuntimeEnvConfig.from_proto(default.build_proto_runtime_env_config()) == default
    assert default.to_dict() == dict(default)
    assert "setup_timeout_seconds" in RuntimeEnvConfig.known_fields
    for wrong in ("x", 3):
        with pytest.raises(TypeError, match="RuntimeEnvConfig"):
            parse(wrong)
