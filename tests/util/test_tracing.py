"""Spans of tasks and actors: which there are, whose children, what a hook may be (contract F14.07)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers import harness
from tests.helpers.harness import wait_until

pytest.importorskip("opentelemetry.sdk", reason="the extra `tracing` brings it")
trace = pytest.importorskip("opentelemetry.trace")

pytestmark = [
    pytest.mark.contract("F14.07"),
    pytest.mark.heliostat_only("Ray traces no generators, and asks for the hook at the head alone"),
]

HOOKS = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def into_files():
    folder = os.path.join(os.path.dirname(__file__), "spans")
    out = open(os.path.join(folder, str(os.getpid())), "a")
    shape = lambda span: span.to_json(indent=None) + os.linesep
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=shape)))
    # A process that several tests share has one already.
    trace._TRACER_PROVIDER_SET_ONCE._done = False
    trace.set_tracer_provider(provider)

def breaks():
    raise OSError("the collector is away")

nothing = 3
"""

HELIOSTAT = str(Path(sys.executable).parent / "heliostat")

Row = dict[str, Any]


@pytest.fixture
def hooks(ray_down: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module `own_hooks`, which workers find, too."""
    (tmp_path / "spans").mkdir()
    (tmp_path / "own_hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_hooks", raising=False)  # that of another test
    before = trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE._done
    yield tmp_path
    ray.shutdown()
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE._done = before


def spans(folder: Path) -> list[Row]:
    text = "".join(path.read_text() for path in sorted((folder / "spans").iterdir()))
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def named(folder: Path, *names: str) -> list[Row]:
    """The one span of each name, once all are there."""

    def there() -> list[list[Row]] | None:
        rows = spans(folder)
        found = [[row for row in rows if row["name"] == name] for name in names]
        return found if all(found) else None

    found = wait_until(there, what=f"{names} of {[row['name'] for row in spans(folder)]}")
    assert [len(rows) for rows in found] == [1] * len(names)
    return [rows[0] for rows in found]


def is_chain(rows: list[Row]) -> bool:
    """Whether each is the child of the one before it."""
    ids = [row["context"]["span_id"] for row in rows]
    return [row["parent_id"] for row in rows[1:]] == ids[:-1]


def remote_worker(kind: str) -> str:
    return f"{kind} ray.remote_worker"


@ray.remote
def inner(*, a: int) -> int:
    with trace.get_tracer("user").start_as_current_span("thinks"):
        return a + 1


@ray.remote
def outer(a: int, **more: Any) -> Any:
    assert more == {"b": 2}
    return ray.get(inner.remote(a=a))


def test_calls_of_tasks_are_a_tree(hooks: Path) -> None:
    ray.init(num_cpus=2, _tracing_startup_hook="own_hooks:into_files")
    with trace.get_tracer("user").start_as_current_span("drives"):
        assert ray.get(outer.remote(1, b=2)) == 2
    module = __name__
    rows = named(
        hooks,
        "drives",
        f"{module}.outer ray.remote",
        f"{module}.outer ray.remote_worker",
        f"{module}.inner ray.remote",
        f"{module}.inner ray.remote_worker",
        "thinks",
    )
    assert is_chain(rows)
    sent, ran = rows[1:3]
    assert (sent["kind"], ran["kind"]) == ("SpanKind.PRODUCER", "SpanKind.CONSUMER")
    told = sent["attributes"]
    assert told["ray.remote"] == "function"
    assert told["ray.function"] == f"{module}.outer"
    assert told["ray.pid"] == str(os.getpid())
    context = ray.get_runtime_context()
    assert told["ray.job_id"] == ran["attributes"]["ray.job_id"] == context.get_job_id()
    assert ran["attributes"]["ray.node_id"] == context.get_node_id()
    assert "ray.task_id" in ran["attributes"]
    assert "ray.task_id" not in told


@ray.remote
class Plain:
    def __init__(self, at: int = 0) -> None:
        self.at = at

    def up(self, by: int = 1) -> int:
        self.at += by
        return self.at

    def items(self, most: int) -> Iterator[int]:
        for number in range(most):
            with trace.get_tracer("user").start_as_current_span(f"item {number}"):
                yield number

    def fails(self) -> None:
        raise ValueError("it broke")


@ray.remote
class Loop:
    async def __init__(self, at: int = 0) -> None:  # type: ignore[misc] # as on Ray
        await asyncio.sleep(0)
        self.at = at

    async def up(self, by: int = 1) -> int:
        await asyncio.sleep(0)
        with trace.get_tracer("user").start_as_current_span(f"up {by}"):
            await asyncio.sleep(0)
        self.at += by
        return self.at

    def plain(self) -> int:
        return self.at

    async def items(self, most: int) -> AsyncIterator[int]:
        for number in range(most):
            with trace.get_tracer("user").start_as_current_span(f"own item {number}"):
                yield number


def test_calls_of_actors_are_traced(hooks: Path) -> None:
    ray.init(num_cpus=2, _tracing_startup_hook="own_hooks:into_files")
    actor = Plain.remote(at=1)
    assert ray.get(actor.up.remote()) == 2
    for call in ("__init__", "up"):
        sent, ran = named(hooks, f"Plain.{call} ray.remote", f"Plain.{call} ray.remote_worker")
        assert is_chain([sent, ran])
        told = ran["attributes"]
        assert (told["ray.actor_class"], told["ray.actor_method"]) == ("Plain", call)
        assert told["ray.actor_id"] == actor._actor_id.hex()
        assert told["ray.remote"] == "actor"
    assert sent["attributes"]["ray.actor_id"] == actor._actor_id.hex()

    items = actor.items.options(num_returns="streaming").remote(2)
    assert [ray.get(item) for item in items] == [0, 1]
    call, first, second = named(hooks, "Plain.items ray.remote_worker", "item 0", "item 1")
    assert is_chain([call, first])
    assert is_chain([call, second])

    with pytest.raises(ValueError, match="it broke"):
        ray.get(actor.fails.remote())
    (row,) = named(hooks, "Plain.fails ray.remote_worker")
    assert row["status"]["status_code"] == "ERROR"


def test_calls_of_a_loop_do_not_mix(hooks: Path) -> None:
    ray.init(num_cpus=2, _tracing_startup_hook="own_hooks:into_files")
    actor = Loop.remote()
    assert sorted(ray.get([actor.up.remote(by) for by in (1, 2, 4)]))[-1] == 7
    assert ray.get(actor.plain.remote()) == 7
    items = actor.items.options(num_returns="streaming").remote(2)
    assert [ray.get(item) for item in items] == [0, 1]
    named(hooks, "Loop.__init__ ray.remote_worker", "Loop.plain ray.remote_worker")
    call, first, second = named(hooks, "Loop.items ray.remote_worker", "own item 0", "own item 1")
    assert is_chain([call, first])
    assert is_chain([call, second])
    thoughts = named(hooks, "up 1", "up 2", "up 4")
    ran = [row for row in spans(hooks) if row["name"] == "Loop.up ray.remote_worker"]
    assert {row["parent_id"] for row in thoughts} == {row["context"]["span_id"] for row in ran}
    assert len({row["context"]["trace_id"] for row in ran}) == 3


@ray.remote(max_retries=1)
def dies_once(folder: str) -> int:
    try:
        Path(folder, "ran").touch(exist_ok=False)
    except FileExistsError:
        return 1
    os._exit(1)


def test_a_call_that_runs_again_is_below_the_same_span(hooks: Path) -> None:
    ray.init(num_cpus=1, _tracing_startup_hook="own_hooks:into_files")
    assert ray.get(dies_once.remote(str(hooks))) == 1
    name = f"{__name__}.dies_once"
    assert is_chain(named(hooks, f"{name} ray.remote", f"{name} ray.remote_worker"))


def test_the_next_session_has_no_spans(hooks: Path) -> None:
    ray.init(num_cpus=1, _tracing_startup_hook="own_hooks:into_files")
    assert ray.get(inner.remote(a=1)) == 2
    named(hooks, remote_worker(f"{__name__}.inner"))
    ray.shutdown()
    before = len(spans(hooks))
    ray.init(num_cpus=1)
    assert ray.get(outer.remote(1, b=2)) == 2
    assert len(spans(hooks)) == before


@pytest.mark.parametrize(
    ("hook", "kind", "said"),
    [
        ("own_hooks", ValueError, "module:function"),
        ("own_hooks:absent", ValueError, "own_hooks has no absent"),
        ("own_hooks:nothing", ValueError, "not a function"),
        ("no_such_module:f", ImportError, "no_such_module"),
        ("own_hooks:breaks", OSError, "the collector is away"),
    ],
)
def test_hooks_that_cannot_be(hooks: Path, hook: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        ray.init(num_cpus=1, _tracing_startup_hook=hook)
    assert not ray.is_initialized()
    ray.init(num_cpus=1)
    assert ray.get(inner.remote(a=1)) == 2


def test_without_the_sdk_the_extra_is_named(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ImportError, match=r"heliostat\[tracing\]"):
        ray.init(num_cpus=1, _tracing_startup_hook="own_hooks:into_files")
    assert not ray.is_initialized()


DRIVER = """
import ray
ray.init("auto")

@ray.remote
def there():
    return 1

assert ray.get(there.remote()) == 1
"""


def test_a_node_that_was_started_with_a_hook_has_its_drivers_traced(
    hooks: Path, run_driver: Callable[..., harness.Finished]
) -> None:
    folder = tempfile.mkdtemp(prefix="traced", dir="/tmp")  # short: sockets lie in it
    path = os.pathsep.join(filter(None, [str(hooks), os.environ.get("PYTHONPATH")]))
    env = {"RAY_TMPDIR": folder, "HOME": folder, "PYTHONPATH": path}
    own = {**harness.clean_env(), **env}
    options = ["--port=0", "--include-dashboard=false", "--num-cpus=1"]
    size = [f"--object-store-memory={100 << 20}"]
    hook = "--tracing-startup-hook=own_hooks:into_files"
    try:
        start = [HELIOSTAT, "start", "--head", *options, *size, hook]
        done = subprocess.run(start, capture_output=True, text=True, env=own, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "no effect" not in done.stderr
        run_driver(DRIVER, env=env).check()
    finally:
        subprocess.run([HELIOSTAT, "stop", "--force"], env=own, timeout=120, check=True)
        shutil.rmtree(folder, ignore_errors=True)
    (sent,) = [row for row in spans(hooks) if row["name"].endswith(".there ray.remote")]
    (ran,) = [row for row in spans(hooks) if row["name"].endswith(".there ray.remote_worker")]
    assert is_chain([sent, ran])
