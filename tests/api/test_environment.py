"""Environment variables that users set, each in a driver of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

INIT = """
import os, ray
def init(**more):
    return ray.init("local", num_cpus=1, include_dashboard=False, **more)
"""


@pytest.mark.contract("F15.01", "F0.04", "F0.13")
def test_address_and_namespace(ray_fresh: Any, run_driver: Any) -> None:
    context = ray_fresh(num_cpus=1)
    env = {"RAY_ADDRESS": context.address_info["address"], "RAY_NAMESPACE": "from-outside"}
    done = run_driver(
        """
        import ray
        ray.init()
        context = ray.get_runtime_context()
        print(f"node={context.get_node_id()}")
        print(f"namespace={context.namespace}")
        """,
        env=env,
    ).check()
    assert done.value("node") == ray.get_runtime_context().get_node_id()
    assert done.value("namespace") == "from-outside"


@pytest.mark.contract("F15.02", "F7.01")
def test_a_variable_of_the_training_guide_is_an_ordinary_one(ray_start: Any) -> None:
    name = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"

    @ray.remote(runtime_env={"env_vars": {name: "0"}})
    def see() -> str | None:
        return os.environ.get(name)

    assert ray.get(see.remote()) == "0"


@pytest.mark.contract("F15.03", "F4.02")
def test_more_gpus_than_are_visible(run_driver: Any) -> None:
    done = run_driver(INIT + "init(num_gpus=3)", env={"CUDA_VISIBLE_DEVICES": "3,5"})
    assert done.rc != 0
    assert "ValueError" in done.stderr
    assert "CUDA_VISIBLE_DEVICES" in done.stderr


@pytest.mark.contract("F15.03", "F4.03")
def test_visible_devices_are_named_as_they_were(run_driver: Any) -> None:
    source = (
        INIT
        + """
init(num_gpus=1)
@ray.remote(num_gpus=1)
def see():
    return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")
print(f"seen={ray.get(see.remote())}")
"""
    )
    narrowed = run_driver(source, env={"CUDA_VISIBLE_DEVICES": "5"}).check()
    assert narrowed.value("seen") == "(['5'], '5')"
    left = run_driver(source, env={"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}).check()
    assert left.value("seen") == "([0], None)"


@pytest.mark.contract("F15.04", "F2.09")
def test_variables_of_a_process_group_are_the_actors_own(ray_start: Any) -> None:
    names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"]

    @ray.remote
    class Worker:
        def set(self, rank: int) -> None:
            os.environ.update(dict.fromkeys(names, str(rank)))

        def get(self) -> list[str | None]:
            return [os.environ.get(name) for name in names]

    workers = [Worker.remote() for _ in range(2)]
    assert ray.get(workers[0].get.remote()) == [None] * 5
    ray.get([worker.set.remote(rank) for rank, worker in enumerate(workers)])
    assert ray.get([worker.get.remote() for worker in workers]) == [["0"] * 5, ["1"] * 5]


@pytest.mark.contract("F15.05", "F0.18")
def test_the_folder_of_all_sessions(run_driver: Any, tmp_path: Path) -> None:
    done = run_driver(
        INIT + 'print("session=" + init().address_info["session_dir"])',
        env={"RAY_TMPDIR": str(tmp_path)},
    ).check()
    assert Path(done.value("session")).is_relative_to(tmp_path)


@pytest.mark.contract("F15.05", "F0.06")
@pytest.mark.parametrize(
    "env",
    [
        {"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "100000000"},
        {"RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION": "0.0000001"},
    ],
)
def test_the_size_of_the_store(run_driver: Any, env: dict[str, str]) -> None:
    done = run_driver(
        INIT + "init(); print('size=%d' % ray.cluster_resources()['object_store_memory'])",
        env=env,
    ).check()
    assert 60_000_000 < int(done.value("size")) <= 100_000_000


@pytest.mark.contract("F15.06")
def test_the_level_of_the_apis_own_messages(run_driver: Any) -> None:
    assert "Started a local" in run_driver(INIT + "init()").check().stderr
    quiet = run_driver(INIT + "init()", env={"RAY_LOGGER_LEVEL": "ERROR"}).check()
    assert "Started a local" not in quiet.output


@pytest.mark.contract("F15.06", "F0.17")
def test_lines_without_a_prefix(run_driver: Any) -> None:
    source = (
        INIT
        + """
init()
@ray.remote
def talk():
    print("said by a worker")
ray.get(talk.remote())
ray.shutdown()
"""
    )
    assert ") said by a worker" in run_driver(source).check().stdout
    bare = run_driver(source, env={"RAY_DISABLE_WORKER_LOG_PREFIX": "1"}).check()
    assert "said by a worker" in bare.stdout.splitlines()


TALK = """
@ray.remote
def talk():
    print("said by a worker")
ray.get(talk.remote())
ray.shutdown()
"""


@pytest.mark.contract("F15.06", "F0.17")
@pytest.mark.parametrize("more", ["", "log_to_driver=False"])
def test_lines_as_if_workers_wrote_to_the_terminal(run_driver: Any, more: str) -> None:
    done = run_driver(INIT + f"init({more})" + TALK, env={"RAY_LOG_TO_STDERR": "1"}).check()
    assert "said by a worker" in done.output.splitlines()


@pytest.mark.contract("F15.06")
@pytest.mark.parametrize(("how", "colours"), [("0", 0), ("1", 1), (None, 1)])
@pytest.mark.heliostat_only("Ray colours what is no terminal, too")
def test_colours_of_prefixes(run_driver: Any, how: str | None, colours: int) -> None:
    source = (
        """
import sys
sys.stdout.isatty = lambda: True
"""
        + INIT
        + "init()"
        + TALK
    )
    done = run_driver(source, env={} if how is None else {"RAY_COLOR_PREFIX": how}).check()
    (line,) = (line for line in done.stdout.splitlines() if "said by a worker" in line)
    assert line.count("\x1b[0m") == colours, line


@pytest.mark.contract("F15.01", "F0.04")
def test_an_empty_address_is_none(run_driver: Any) -> None:
    done = run_driver(
        "import ray; ray.init(num_cpus=3, include_dashboard=False);"
        "print(f\"cpus={ray.cluster_resources()['CPU']}\")",
        env={"RAY_ADDRESS": "", "RAY_TMPDIR": "/tmp/hs-empty"},
    ).check()
    assert done.value("cpus") == "3.0"


@pytest.mark.contract("F0.04")
def test_auto_finds_the_cluster_of_another_driver(start_driver: Any, run_driver: Any) -> None:
    env = {"RAY_TMPDIR": "/tmp/hs-auto"}
    first = start_driver(
        INIT + "init()\nprint('node=' + ray.get_runtime_context().get_node_id())\n"
        "import time; time.sleep(60)",
        env=env,
    )
    node = first.wait_line("node")
    source = (
        'import ray; ray.init("auto"); print("node=" + ray.get_runtime_context().get_node_id())'
    )
    assert run_driver(source, env=env).check().value("node") == node
    # Without "auto" a cluster that a driver has begun for itself is left alone.
    source = source.replace('"auto"', "num_cpus=1, include_dashboard=False")
    assert run_driver(source, env=env).check().value("node") != node


@pytest.mark.contract("F15.03", "F4.02")
def test_a_call_without_a_gpu_sees_none_where_that_is_asked_for(run_driver: Any) -> None:
    source = (
        INIT
        + """
init(num_gpus=2)
@ray.remote
def see():
    return os.environ.get("CUDA_VISIBLE_DEVICES")
print(f"seen={ray.get(see.remote())!r} {ray.get(see.options(num_gpus=1).remote())!r}")
"""
    )
    name, env = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", {"CUDA_VISIBLE_DEVICES": "4,6"}
    default = run_driver(source, env=env).check().value("seen")
    assert default.startswith("'4,6' ")
    hidden = run_driver(source, env={**env, name: "1"}).check().value("seen")
    assert hidden.startswith("'' ")
    assert hidden[3:] in ("'4'", "'6'")


@pytest.mark.contract("F15.07", "F0.09")
def test_sessions_that_must_not_begin_by_themselves(run_driver: Any) -> None:
    done = run_driver(
        """
        import ray
        for call in (lambda: ray.put(1), lambda: ray.get_actor("x"), lambda: ray.wait([])):
            try:
                call()
            except ray.exceptions.RaySystemError as error:
                assert "not been started" in str(error)
            else:
                raise AssertionError
        print(f"context={type(ray.get_runtime_context()).__name__}")
        print(f"started={ray.is_initialized()}")
        """,
        env={"RAY_ENABLE_AUTO_CONNECT": "0"},
    ).check()
    assert done.value("context") == "RuntimeContext"
    assert done.value("started") == "False"


@pytest.mark.contract("F15.08", "F6.22")
def test_a_token_from_the_environment(run_driver: Any) -> None:
    source = INIT + "init(); print(f'value={ray.get(ray.put(1))}')"
    for env in (
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 40},
        {"RAY_AUTH_MODE": "disabled"},
    ):
        assert run_driver(source, env=env).check().value("value") == "1"


@pytest.mark.contract("F15.09", "F5.04", "F1.10")
def test_the_default_number_of_retries(run_driver: Any, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    done = run_driver(
        INIT
        + f"""
@ray.remote
def crash():
    with open({str(tries)!r}, "a") as file:
        file.write("x")
    os._exit(1)
os.environ["RAY_TASK_MAX_RETRIES"] = "1"  # read when the call is made
init()
try:
    ray.get(crash.remote())
except ray.exceptions.WorkerCrashedError:
    print("error=yes")
""",
    ).check()
    assert done.value("error") == "yes"
    assert tries.read_text() == "xx"


@pytest.mark.contract("F15.07", "F15.09", "F15.10", "F15.11")
def test_variables_without_meaning_here_do_no_harm(run_driver: Any) -> None:
    names = [
        "RAY_TRAIN_V2_ENABLED",
        "RAY_DATA_DISABLE_PROGRESS_BARS",
        "RAY_DISABLE_IMPORT_WARNING",
        "RAY_BACKEND_LOG_LEVEL",
        "RAY_max_lineage_bytes",
        "RAY_record_ref_creation_sites",
        "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE",
        "RAY_USAGE_STATS_ENABLED",
    ]
    source = INIT + "init(); print(f'value={ray.get(ray.remote(lambda: 1).remote())}')"
    assert run_driver(source, env=dict.fromkeys(names, "1")).check().value("value") == "1"


@pytest.mark.contract("F15.08", "F6.22")
@pytest.mark.parametrize("how", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_a_wrong_token_is_refused(
    ray_fresh: Any, run_driver: Any, tmp_path: Path, how: str
) -> None:
    """What the user names is what is shown, though the session's own token lies beside it."""
    context = ray_fresh(num_cpus=1)
    path = tmp_path / "token"
    path.write_text("b" * 64)
    done = run_driver(
        f"""
        import ray
        try:
            ray.init({context.address_info["address"]!r})
        except ray.exceptions.AuthenticationError as error:
            print("refused=" + str(error).replace(chr(10), " "))
        """,
        env={how: str(path) if how.endswith("PATH") else "b" * 64, "RAY_AUTH_MODE": "token"},
    ).check()
    assert "token" in done.value("refused")
