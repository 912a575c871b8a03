"""Runtime environments of single tasks and actors, and of jobs."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.job_config import JobConfig

CLUSTER = {"num_cpus": 4}


@ray.remote
def see(*names: str) -> list[str | None]:
    return [os.environ.get(name) for name in names]


@ray.remote
def load(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name).VALUE
    except ImportError:
        return None


@pytest.mark.contract("F1.14", "F7.01", "F7.08")
def test_options_replace_the_environment_of_the_decorator(ray_start: Any) -> None:
    task = ray.remote(runtime_env={"env_vars": {"A": "1", "B": "2"}})(see._function)
    assert ray.get(task.remote("A", "B")) == ["1", "2"]
    other = task.options(runtime_env={"env_vars": {"A": "9"}})
    assert ray.get(other.remote("A", "B")) == ["9", None]


@pytest.mark.contract("F7.01")
def test_variables_named_as_fields_are_variables(run_driver: Any, tmp_path: Path) -> None:
    source = """
import os, ray
ray.init(num_cpus=1, runtime_env={"env_vars": {"working_dir": "A", "pip": "B"}})
see = ray.remote(lambda: [os.environ["working_dir"], os.environ["pip"], os.getcwd()])
print(f"value={' '.join(ray.get(see.remote()))}")
"""
    seen = run_driver(source, cwd=tmp_path).check().value("value")
    assert seen == f"A B {tmp_path}", "the folder is the driver's: the environment names none"


@pytest.mark.contract("F7.01", "F7.08")
def test_children_inherit_and_add(ray_start: Any) -> None:
    @ray.remote(runtime_env={"env_vars": {"A": "1"}})
    def parent() -> list[list[str | None]]:
        more = see.options(runtime_env={"env_vars": {"B": "3"}})
        return ray.get([see.remote("A", "B"), more.remote("A", "B")])

    assert ray.get(parent.remote()) == [["1", None], ["1", "3"]]


@pytest.mark.contract("F7.01")
def test_values_refer_to_the_nodes_variables(ray_start: Any) -> None:
    task = see.options(runtime_env={"env_vars": {"WITH_PATH": "${PATH}:/more"}})
    (value,) = ray.get(task.remote("WITH_PATH"))
    assert value is not None
    assert value.endswith(":/more")
    assert "${" not in value


@pytest.mark.contract("F7.03", "F1.14")
def test_modules_of_one_task(ray_start: Any, tmp_path: Path) -> None:
    package = tmp_path / "a_package_of_one_task"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 'folder'\n")
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a_zipped_module.py", "VALUE = 'archive'\n")
    task = load.options(runtime_env={"py_modules": [str(package), str(archive)]})
    assert ray.get(task.remote("a_package_of_one_task")) == "folder"
    assert ray.get(task.remote("a_zipped_module")) == "archive"
    assert ray.get(load.remote("a_package_of_one_task")) is None


@pytest.mark.contract("F7.03")
def test_modules_that_are_not_there(ray_start: Any) -> None:
    with pytest.raises(ValueError, match="no such folder"):
        load.options(runtime_env={"py_modules": ["/nowhere/at/all"]}).remote("x")
    with pytest.raises(TypeError, match="list"):
        load.options(runtime_env={"py_modules": "/tmp"})


@pytest.mark.contract("F7.09")
def test_a_hook_runs_before_the_first_task(ray_start: Any) -> None:
    def hook() -> None:
        os.environ["SET_BY_THE_HOOK"] = "yes"

    task = see.options(runtime_env={"worker_process_setup_hook": hook})
    assert ray.get(task.remote("SET_BY_THE_HOOK")) == ["yes"]


@pytest.mark.contract("F7.07", "F7.09")
def test_a_hook_that_fails_is_the_error_of_the_task(ray_start: Any) -> None:
    def hook() -> None:
        raise ValueError("the hook is broken")

    task = see.options(runtime_env={"worker_process_setup_hook": hook})
    with pytest.raises(RuntimeEnvSetupError, match="the hook is broken"):
        ray.get(task.remote("A"))


class NeverLoaded:
    """Can be sent, and not be made again."""

    def __reduce__(self) -> Any:
        return int, ("this is not loaded",)


@pytest.mark.contract("F7.07", "F7.09")
def test_a_hook_that_cannot_be_loaded_is_the_error_of_calls(ray_start: Any) -> None:
    inside = NeverLoaded()

    def hook() -> None:
        print(inside)

    env = {"worker_process_setup_hook": hook}
    with pytest.raises(RuntimeEnvSetupError, match="this is not loaded"):
        ray.get(see.options(runtime_env=env).remote("A"))
    actor = ray.remote(type("Actor", (), {})).options(runtime_env=env).remote()
    with pytest.raises(RuntimeEnvSetupError, match="this is not loaded"):
        ray.get(actor.__ray_ready__.remote())


@pytest.mark.contract("F7.07", "F7.09")
@pytest.mark.parametrize("max_restarts", [0, -1])
def test_a_hook_that_fails_is_the_error_of_an_actors_calls(
    ray_start: Any, max_restarts: int
) -> None:
    def hook() -> None:
        raise ValueError("the hook is broken")

    @ray.remote(max_restarts=max_restarts, max_task_retries=max_restarts)
    class Actor:
        def method(self) -> None:
            pass

    actor = Actor.options(runtime_env={"worker_process_setup_hook": hook}).remote()
    waiting = [actor.method.remote() for _ in range(2)]
    for call in (*waiting, actor.method.remote()):
        with pytest.raises(RuntimeEnvSetupError, match="the hook is broken"):
            ray.get(call)
    with pytest.raises(RuntimeEnvSetupError):
        ray.get(actor.method.remote())


@pytest.mark.contract("F4.08", "F7.08")
def test_the_context_shows_what_the_user_said(ray_start: Any, tmp_path: Path) -> None:
    @ray.remote(runtime_env={"env_vars": {"A": "1"}, "py_modules": [str(tmp_path)]})
    def own() -> Any:
        context = ray.get_runtime_context()
        return dict(context.runtime_env), context.get_runtime_env_string()

    env, text = ray.get(own.remote())
    assert env["env_vars"] == {"A": "1"}
    assert "SETUP" not in text
    assert ray.get_runtime_context().get_runtime_env_string() == "{}"


@pytest.mark.contract("F0.20", "F0.07")
def test_a_job_config(ray_fresh: Any) -> None:
    job = JobConfig(ray_namespace="mine", runtime_env={"env_vars": {"OF_THE_JOB": "1"}})
    job.set_metadata("key", "value")
    ray_fresh(num_cpus=1, job_config=job)
    assert job.metadata == {"key": "value"}
    assert ray.get_runtime_context().namespace == "mine"
    assert ray.get(see.remote("OF_THE_JOB")) == ["1"]


@pytest.mark.contract("F0.20", "F2.17")
def test_what_a_job_config_takes() -> None:
    with pytest.raises(ValueError, match="detached"):
        JobConfig(default_actor_lifetime="odd")
    with pytest.raises(TypeError, match="code_search_path"):
        JobConfig(code_search_path="/x")  # type: ignore[arg-type] # wrong on purpose
    assert JobConfig(default_actor_lifetime="detached").default_actor_lifetime == "detached"


@pytest.mark.contract("F7.01")
def test_fields_are_set_and_checked() -> None:
    env = ray.runtime_env.RuntimeEnv(env_vars={"A": "1"})
    env.set("env_vars", {"A": "2"})
    env["working_dir"] = os.getcwd()
    assert env["env_vars"] == {"A": "2"}
    assert env.get("nothing", 5) == 5
    with pytest.raises(TypeError):
        env.set("env_vars", {"A": 1})
    with pytest.raises(TypeError):
        env.set("pip", 3)
    assert env.env_vars() == {"A": "2"}


@pytest.mark.contract("F7.01")
def test_a_field_of_a_plugin_that_only_the_cluster_has_can_be_set() -> None:
    env = ray.runtime_env.RuntimeEnv()
    env.set("of_a_plugin", {"a": 1})
    env["of_another"] = 2
    assert (env.get("of_a_plugin"), env["of_another"]) == ({"a": 1}, 2)
    assert env.to_dict() == {"of_a_plugin": {"a": 1}, "of_another": 2}


@pytest.mark.contract("F7.01")
@pytest.mark.heliostat_only("Ray passes over a field without a plugin")
def test_a_field_that_no_plugin_has_is_refused_when_it_is_used() -> None:
    env = ray.runtime_env.RuntimeEnv()
    env.set("of_a_plugin", 1)
    with pytest.raises(ValueError, match="no field 'of_a_plugin'"):
        ray.remote(len).options(runtime_env=env)
