"""F15: what each environment variable does."""

from __future__ import annotations

import tempfile
from typing import Any

from kit import driver, snippet

INIT = """
import os, ray
def init(**more):
    return ray.init("local", num_cpus=2, include_dashboard=False, **more)
"""


def _short_folder() -> str:
    return tempfile.mkdtemp(prefix="d", dir="/tmp")


@snippet("F15.03", "F4.02", cluster=None, limit_s=200)
def devices() -> Any:
    source = (
        INIT
        + """
init(num_gpus=2)
@ray.remote
def see():
    return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")
@ray.remote(num_gpus=1)
class Actor:
    def see(self):
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")
print("> none", ray.get(see.remote()))
print("> two", ray.get(see.options(num_gpus=2).remote()))
ids, visible = ray.get(Actor.remote().see.remote())
print("> actor", type(ids[0]).__name__, visible == str(ids[0]))
"""
    )
    return {
        "plain": driver(source),
        "narrowed": driver(source, env={"CUDA_VISIBLE_DEVICES": "4,6"}),
        "override": driver(source, env={"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}),
        "narrowed override": driver(
            source,
            env={"CUDA_VISIBLE_DEVICES": "4,6", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"},
        ),
        "left alone": driver(source, env={"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}),
        "left alone, narrowed": driver(
            source,
            env={"CUDA_VISIBLE_DEVICES": "4,6", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"},
        ),
    }


@snippet("F15.06", "F0.17", cluster=None, limit_s=200)
def words_of_workers() -> Any:
    source = (
        INIT
        + """
init()
@ray.remote
def talk():
    print("said aloud")
ray.get(talk.remote())
import time; time.sleep(2)
"""
    )
    show = ["said aloud", "(talk pid=", ") said aloud"]
    return {
        "plain": driver(source, show=show),
        "colourless": driver(source, env={"RAY_COLOR_PREFIX": "0"}, show=show),
        "coloured": driver(source, env={"RAY_COLOR_PREFIX": "1"}, show=show[:2]),
        "to stderr": driver(source, env={"RAY_LOG_TO_STDERR": "1"}, show=show),
        "backend": driver(source, env={"RAY_BACKEND_LOG_LEVEL": "debug"}, show=show[:2]),
        "off": driver(source, env={"RAY_LOG_TO_DRIVER": "0"}, show=show[:1]),
        "no prefix": driver(source, env={"RAY_DISABLE_WORKER_LOG_PREFIX": "1"}, show=show),
        "json": driver(source, env={"RAY_LOGGING_CONFIG_ENCODING": "JSON"}, show=show[:1]),
        "wrong encoding": driver(source, env={"RAY_LOGGING_CONFIG_ENCODING": "XML"}, show=["JSON"]),
    }


@snippet("F15.06", cluster=None, limit_s=240)
def levels_of_messages() -> Any:
    source = INIT + "init()\nprint('>', ray.is_initialized())"
    show = ["Started a local"]
    return {
        level: driver(source, env={"RAY_LOGGER_LEVEL": level}, show=show)
        for level in ("INFO", "info", "warning", "ERROR", "debug")
    }


@snippet("F15.09", "F1.10", cluster=None, limit_s=200)
def numbers_of_retries() -> Any:
    source = (
        INIT
        + """
import tempfile
path = os.path.join(tempfile.mkdtemp(), "tries")
@ray.remote
def crash():
    with open(path, "a") as file:
        file.write("x")
    os._exit(1)
if os.environ.get("LATER"):
    os.environ["RAY_TASK_MAX_RETRIES"] = os.environ["LATER"]
init()
def tries(task):
    try:
        open(path, "w").close()
        ray.get(task.remote())
    except ray.exceptions.WorkerCrashedError:
        return os.path.getsize(path)
print("> default", tries(crash))
print("> own", tries(crash.options(max_retries=2)))
"""
    )
    return {
        "unset": driver(source),
        "0": driver(source, env={"RAY_TASK_MAX_RETRIES": "0"}),
        "1": driver(source, env={"RAY_TASK_MAX_RETRIES": "1"}),
        "set after the definition": driver(source, env={"LATER": "1"}),
    }


@snippet("F15.02", "F7.04", cluster=None, limit_s=120)
def working_dir_variable() -> Any:
    return driver(
        INIT
        + """
name = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"
os.makedirs("work")
init(runtime_env={"working_dir": os.getcwd() + "/work", "env_vars": {name: "0"}})
@ray.remote
def see():
    return os.environ.get(name)
@ray.remote
class Actor:
    def see(self):
        return os.environ.get(name)
print(">", ray.get(see.remote()), ray.get(Actor.remote().see.remote()))
print(">", ray.get(see.options(runtime_env={"env_vars": {name: "1"}}).remote()))
"""
    )


@snippet("F15.05", "F0.06", cluster=None, limit_s=150)
def sizes_of_the_store() -> Any:
    source = INIT + "init(); print('>', int(ray.cluster_resources()['object_store_memory']))"
    tenth = source.replace("print('>', int(", "print('>', 80_000_000 < (").replace(
        "'])", "']) < 5e9"
    )
    return {
        "most": driver(source, env={"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "123000000"}),
        "part": driver(tenth, env={"RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION": "0.1"}),
        "slow": driver(source, env={
            "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
            "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "123000000"}),
    }  # fmt: skip


@snippet("F15.05", "F0.18", cluster=None)
def folder_of_sessions() -> Any:
    folder = _short_folder()
    return driver(
        INIT
        + """
context = init()
folder = context.address_info["session_dir"]
print(">", folder.startswith(os.environ["RAY_TMPDIR"] + "/ray/session_"))
ray.shutdown()
context = init(_temp_dir=os.environ["OTHER"])
print(">", context.address_info["session_dir"].startswith(os.environ["OTHER"] + "/session_"))
""",
        env={"RAY_TMPDIR": folder, "OTHER": _short_folder()},
    )


@snippet("F15.01", "F0.13", cluster=None, limit_s=120)
def targets() -> Any:
    return driver(
        INIT
        + """
import subprocess, sys
address = init().address_info["address"]
def ask(code, **env):
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env={**os.environ, **env})
    return out.stdout.split() or out.stderr.strip().splitlines()[-1].split(":")[0]
code = "import ray; ray.init(namespace='given'); print(ray.get_runtime_context().namespace)"
print("> given", ask(code, RAY_ADDRESS=address, RAY_NAMESPACE="other"))
code = "import ray; ray.put(1); print(ray.is_initialized(), len(ray.nodes()))"
print("> by itself", ask(code, RAY_ADDRESS=address))
code = "import ray; ray.init(num_cpus=1); print(1)"
print("> with cpus", ask(code, RAY_ADDRESS=address))
code = "import ray; ray.init(); print(1)"
print("> malformed", ask(code, RAY_ADDRESS="nonsense"))
"""
    )


@snippet("F15.07", "F0.09", cluster=None, limit_s=120)
def conveniences() -> Any:
    source = (
        INIT
        + """
for call in (lambda: ray.put(1), lambda: ray.get([]), lambda: ray.wait([]),
             lambda: ray.kill(3), lambda: ray.cancel(3), lambda: ray.get_actor("x"),
             lambda: ray.remote(lambda: 1).remote()):
    try:
        call()
        print("> fine")
    except Exception as error:
        print(">", type(error).__name__, "has not been started" in str(error))
init()
print(">", ray.get(ray.put(1)))
"""
    )
    return {
        "off": driver(source, env={"RAY_ENABLE_AUTO_CONNECT": "0"}),
        "usage": driver(
            INIT + "init(); print('>', 1)",
            env={"RAY_USAGE_STATS_ENABLED": "1", "RAY_DISABLE_IMPORT_WARNING": "1"},
        ),
    }


@snippet("F15.09", cluster=None, limit_s=200)
def memory_monitor() -> Any:
    source = (
        INIT
        + """
init()
@ray.remote(max_retries=0)
def hold():
    import time
    time.sleep(4)
    return "ended well"
try:
    print(">", ray.get(hold.remote(), timeout=40))
except ray.exceptions.OutOfMemoryError as error:
    print("> OutOfMemoryError", "RAY_memory_usage_threshold" in str(error))
"""
    )
    low = {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "100"}
    return {
        "low": driver(source, env=low),
        "low, not looked at": driver(source, env={**low, "RAY_memory_monitor_refresh_ms": "0"}),
    }


@snippet("F15.11", "F10.27", cluster=None, limit_s=200)
def settings_of_the_data_library() -> Any:
    source = """
import ray.data
context = ray.data.DataContext()
for name in ("enable_progress_bars", "min_parallelism", "log_internal_stack_trace",
             "raise_original_map_exception", "execution_no_progress_timeout_s",
             "shuffle_strategy"):
    value = getattr(context, name)
    print(">", name, getattr(value, "value", value))
"""
    names = {
        "DISABLE_PROGRESS_BARS": "1",
        "DEFAULT_MIN_PARALLELISM": "7",
        "LOG_INTERNAL_STACK_TRACE_TO_STDOUT": "1",
        "RAISE_ORIGINAL_MAP_EXCEPTION": "1",
        "EXECUTION_NO_PROGRESS_TIMEOUT_S": "12.5",
        "PUSH_BASED_SHUFFLE": "1",
    }
    return {
        "set": driver(source, env={f"RAY_DATA_{name}": value for name, value in names.items()}),
        "not set": driver(source),
    }
