"""Whatever shows a place in the user's code shows the one that Python itself shows in the driver.

The same definitions come from a script, a module, a module that goes by value, a cell of a notebook,
standard input and ``-c``; each kind of call fails in them, warns or logs, and the driver prints what it
was told.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import clean_env

pytestmark = pytest.mark.contract("F0.16", "F0.22")

# A deadline against a hang.
WITHIN_S = 300

DEFINITIONS = """
import asyncio, functools, inspect, logging, warnings

import ray

def fail(*_):
    raise ValueError("shown")

def generate(*_):
    yield {"number": 1}
    fail()

class Failing:
    def __init__(self, now=False):
        if now:
            fail()
    def method(self):
        fail()
    async def coroutine(self):
        await asyncio.sleep(0)
        fail()
    async def generator(self):
        yield 1
        fail()
    @property
    def failing(self):
        return [fail() for _ in range(1)]
    def through_property(self):
        return self.failing
    def __call__(self, *_):
        fail()

def around(inner):
    @functools.wraps(inner)
    def wrapper(*args):
        return inner(*args)
    return wrapper

def nested():
    return ray.get(ray.remote(fail).remote())

def warn():
    warnings.warn("a warning that is shown", UserWarning)

def log():
    logging.basicConfig(format="%(pathname)s:%(lineno)d:%(message)s")
    logging.warning("a record that is shown")

def source(what):
    try:
        return inspect.getsource(what)
    except Exception as error:
        return type(error).__name__

def sources():
    return {"function": source(fail), "method": source(Failing.method), "inner": source(around(fail))}

def debug():
    breakpoint()
"""

CALLS = """
import concurrent.futures, json, logging, os, tempfile, traceback
os.environ["RAY_TRAIN_WORKER_HEALTH_CHECK_INTERVAL_S"] = "1"
ray.init("local", num_cpus=4, include_dashboard=False)

def tell(key, value):
    print("told=" + json.dumps([key, value]), flush=True)

def error_of(call, *args):
    try:
        call(*args)
    except Exception:
        return traceback.format_exc()
    return "nothing was raised"

def aside(call):
    # In a thread: cells run in one with an event loop, where nothing may wait.
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(error_of, call).result()

try:
    fail()
except ValueError:
    tell("here", traceback.format_exc())
tell("file", fail.__code__.co_filename)
tell("sources here", sources())
tell("sources there", ray.get(ray.remote(sources).remote()))

actor = ray.remote(Failing).remote()
tell("task", error_of(ray.get, ray.remote(fail).remote()))
tell("wrapped task", error_of(ray.get, ray.remote(around(fail)).remote()))
tell("lambda in an argument", error_of(ray.get, ray.remote(lambda f: f()).remote(lambda: fail())))
tell("value", error_of(ray.get, ray.remote(lambda f: f()).remote(ray.put(fail))))
tell("nested task", error_of(ray.get, ray.remote(nested).remote()))
tell("generator", error_of(lambda: [ray.get(r) for r in ray.remote(generate).remote()]))
tell("several returns", error_of(ray.get, ray.remote(fail).options(num_returns=2).remote()[1]))
tell("constructor", error_of(ray.get, ray.remote(Failing).remote(now=True).__ray_ready__.remote()))
tell("method", error_of(ray.get, actor.method.remote()))
tell("property", error_of(ray.get, actor.through_property.remote()))
tell("coroutine", error_of(ray.get, actor.coroutine.remote()))
tell("async generator", error_of(lambda: [ray.get(r) for r in actor.generator.remote()]))
class Threaded(Failing):
    method = Failing.method
    coroutine = generator = None
threaded = ray.remote(Threaded).options(max_concurrency=2).remote()
tell("threaded method", error_of(ray.get, threaded.method.remote()))
from ray.util.multiprocessing import Pool
with Pool(1) as pool:
    tell("pool", error_of(pool.apply, fail))
ray.get([ray.remote(warn).remote(), ray.remote(log).remote()])

import ray.data
ray.data.DataContext.get_current().enable_progress_bars = False
rows = ray.data.range(4)
tell("map", error_of(rows.map(fail).materialize))
tell("map_batches", error_of(rows.map_batches(fail).materialize))
tell("map_batches of a class", error_of(rows.map_batches(Failing, concurrency=1).materialize))
tell("flat_map", error_of(rows.flat_map(generate).materialize))
tell("filter", error_of(rows.filter(fail).materialize))
tell("map_groups", error_of(rows.groupby("id").map_groups(fail).materialize))

from ray import train, tune
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
folder = tempfile.mkdtemp()
trainer = DataParallelTrainer(
    fail, scaling_config=train.ScalingConfig(num_workers=1), run_config=train.RunConfig(storage_path=folder)
)
tell("train", error_of(trainer.fit))

class Trainable(tune.Trainable):
    def step(self):
        fail()
for name, trainable in (("tune", fail), ("tune of a class", Trainable)):
    config = tune.RunConfig(storage_path=folder, verbose=0)
    results = tune.Tuner(trainable, run_config=config).fit()
    tell(name, str(results.errors[0]))

from ray import serve
handle = serve.run(serve.deployment(Failing).bind(), route_prefix=None)
tell("serve", aside(lambda: handle.remote().result()))
tell("method of serve", aside(lambda: handle.coroutine.remote().result()))
serve.shutdown()
ray.shutdown()
print("ended=yes")
"""

KINDS = [
    "task",
    "wrapped task",
    "lambda in an argument",
    "value",
    "nested task",
    "generator",
    "several returns",
    "constructor",
    "method",
    "property",
    "coroutine",
    "async generator",
    "threaded method",
    "pool",
    "map",
    "map_batches",
    "map_batches of a class",
    "flat_map",
    "filter",
    "map_groups",
    "train",
    "tune",
    "tune of a class",
    "serve",
    "method of serve",
]

ORIGINS = ["script", "module", "module by value", "cell", "stdin", "-c"]

BY_VALUE = """
import cloudpickle, ray.cloudpickle, their_module
ray.cloudpickle.register_pickle_by_value(their_module)
"""


def _python(folder: Path, *args: str, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *args],
        input=text,
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_env({"RAY_SERVE_HTTP_PORT": "0"}),
        timeout=WITHIN_S,
    )
    assert "ended=yes" in done.stdout, done.stdout + done.stderr
    return done.stdout + done.stderr


def _in_a_notebook(cells: list[str]) -> str:
    from tests.helpers.notebook_kernels import Kernel

    kernel = Kernel()
    try:
        shown = ""
        for cell in cells:
            said, error = kernel.run(cell)
            assert error == "", said
            shown += said
        return shown
    finally:
        kernel.end()


def _printed(origin: str) -> str:
    with tempfile.TemporaryDirectory(prefix="places-") as made:
        folder = Path(made)
        if origin == "cell":
            return _in_a_notebook([DEFINITIONS, CALLS])
        if origin == "-c":
            return _python(folder, "-c", DEFINITIONS + CALLS)
        if origin == "stdin":
            return _python(folder, "-", text=DEFINITIONS + CALLS)
        script = folder / "their_script.py"
        first = DEFINITIONS
        if origin != "script":
            (folder / "their_module.py").write_text(DEFINITIONS)
            first = (BY_VALUE if "value" in origin else "") + "from their_module import *\n"
        script.write_text(first + CALLS)
        return _python(folder, str(script))


class Printed:
    """What a driver printed, and what it was told."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = [line[5:] for line in text.splitlines() if line.startswith("told=")]
        self.told: dict[str, Any] = dict(map(json.loads, lines))

    @functools.cached_property
    def frame(self) -> list[str]:
        """The lines that Python shows of the innermost frame when `fail` is called in the driver."""
        lines = [line.strip() for line in self.told["here"].splitlines()]
        begin = next(n for n, line in enumerate(lines) if line.endswith(", in fail"))
        return lines[begin : lines.index("ValueError: shown")]


@functools.cache
def printed(origin: str) -> Printed:
    return Printed(_printed(origin))


@pytest.mark.parametrize("origin", ORIGINS)
def test_the_driver_knows_its_code(origin: str) -> None:
    names = {
        "script": "their_script.py",
        "cell": "/ipykernel_",
        "stdin": "<stdin>",
        "-c": "<string>",
    }
    one = printed(origin)
    assert names.get(origin, "their_module.py") in one.told["file"]
    assert f'File "{one.told["file"]}"' in one.frame[0]
    assert len(one.frame) == 1 + (origin not in ("stdin", "-c") or _shows_commands(origin))


def _shows_commands(origin: str) -> bool:
    return origin == "-c" and sys.version_info >= (3, 13)


@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("origin", ORIGINS)
def test_an_error_shows_the_place(origin: str, kind: str) -> None:
    one = printed(origin)
    lines = [line.strip(" │") for line in one.told[kind].splitlines()]
    begin = lines.index(one.frame[0]) if one.frame[0] in lines else None
    assert begin is not None, f"{one.frame}\nis not in\n{one.told[kind]}"
    assert lines[begin : begin + len(one.frame)] == one.frame, one.told[kind]


@pytest.mark.parametrize("origin", ORIGINS)
def test_warnings_and_records_show_the_place(origin: str) -> None:
    one = printed(origin)
    source = (DEFINITIONS.lstrip() if origin == "cell" else DEFINITIONS).splitlines()
    warned = next(n for n, line in enumerate(source, 1) if "a warning that" in line)
    logged = next(n for n, line in enumerate(source, 1) if "a record that" in line)
    file = re.escape(one.told["file"])
    assert re.search(f"{file}:{warned}: UserWarning: a warning that is shown", one.text), one.text
    assert re.search(f"{file}:{logged}:a record that is shown", one.text), one.text


@pytest.mark.parametrize("origin", ORIGINS)
def test_workers_have_the_source_that_the_driver_has(origin: str) -> None:
    one = printed(origin)
    assert one.told["sources there"] == one.told["sources here"]
    if origin not in ("stdin", "-c") or _shows_commands(origin):
        assert "shown" in one.told["sources there"]["function"]
