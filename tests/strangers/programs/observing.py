"""What is told of a cluster: the state API, contexts, logs, timelines, metrics, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time

import ray
from ray.util.state import (
    get_actor,
    list_actors,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_tasks,
    list_workers,
    summarize_tasks,
)

from tests.strangers.kit import main, raised, stranger, until

DASHBOARD = {"num_cpus": 4, "include_dashboard": True}


@ray.remote
def named_task(x: int) -> int:
    if x < 0:
        raise ValueError("negative")
    return x


@ray.remote
class Watched:
    def id(self) -> str:
        return ray.get_runtime_context().get_actor_id()


@stranger("ray#50378", [3, True], cluster=DASHBOARD)
def tasks_by_their_state() -> object:
    """list_tasks with filters: those that ended, and the one that runs."""
    ray.get([named_task.options(name="mine").remote(i) for i in range(3)])

    @ray.remote
    def running() -> None:
        time.sleep(600)

    ref = running.options(name="still").remote()
    done = until(
        lambda: (
            len(list_tasks(filters=[("name", "=", "mine"), ("state", "=", "FINISHED")])) == 3 and 3
        )
    )
    found = until(lambda: list_tasks(filters=[("state", "=", "RUNNING"), ("name", "=", "still")]))
    ray.cancel(ref, force=True)
    return [done, len(found) == 1]


@stranger("ray#39245", ["ALIVE", "DEAD", True], cluster=DASHBOARD)
def actors_by_their_state() -> object:
    """list_actors and get_actor tell of an actor before and after its end, with the cause."""
    a = Watched.remote()
    actor_id = ray.get(a.id.remote())
    [row] = list_actors(filters=[("class_name", "=", "Watched"), ("state", "=", "ALIVE")])
    first = row["state"] if isinstance(row, dict) else row.state
    ray.kill(a)
    dead = until(lambda: get_actor(actor_id).state == "DEAD" and get_actor(actor_id))
    detail = list_actors(filters=[("actor_id", "=", actor_id)], detail=True)[0]
    return [first, dead.state, bool(detail.death_cause)]


@stranger("docs: State API, failed tasks", ["FAILED", True], cluster=DASHBOARD)
def why_a_task_failed() -> object:
    """A failed task's row has its error."""
    raised(lambda: ray.get(named_task.options(name="bad one").remote(-1)))
    rows = until(
        lambda: list_tasks(
            filters=[("name", "=", "bad one"), ("state", "=", "FAILED")], detail=True
        )
    )
    return [rows[0].state, "negative" in str(rows[0].error_message)]


@stranger("docs: State API, summaries", [True, True, True, True], cluster=DASHBOARD)
def nodes_workers_objects() -> object:
    """list_nodes, list_workers, list_objects and summarize_tasks have what they should."""
    ref = ray.put(b"x" * 2_000_000)
    ray.get([named_task.remote(i) for i in range(2)])
    nodes, workers = list_nodes(), list_workers()
    objects = until(lambda: [o for o in list_objects() if o.object_id == ref.hex()])
    summary = until(lambda: "named_task" in json.dumps(summarize_tasks()))
    return [
        len(nodes) == 1 and nodes[0].state == "ALIVE",
        len(workers) > 0,
        len(objects) > 0,
        summary,
    ]


@stranger("docs: State API, placement groups", ["CREATED", "REMOVED"], cluster=DASHBOARD)
def states_of_a_placement_group() -> object:
    """list_placement_groups tells of one that is there, and of one that was removed."""
    group = ray.util.placement_group([{"CPU": 1}], name="watched group")
    ray.get(group.ready())

    def state() -> str:
        rows = list_placement_groups(filters=[("name", "=", "watched group")])
        return rows[0].state if rows else ""

    first = until(state)
    ray.util.remove_placement_group(group)
    until(lambda: state() == "REMOVED")
    return [first, state()]


@stranger("docs: RuntimeContext", [True, True, True, True, None])
def ids_of_a_context() -> object:
    """Job, node, task and worker ids in a task; a driver has no task of an actor."""

    @ray.remote
    def ids() -> tuple[str, str, str, str]:
        c = ray.get_runtime_context()
        return c.get_job_id(), c.get_node_id(), c.get_task_id(), c.get_worker_id()

    job, node, task, worker = ray.get(ids.remote())
    mine = ray.get_runtime_context()
    return [
        job == mine.get_job_id(),
        node == mine.get_node_id(),
        len(task) == 48,
        worker != mine.get_worker_id(),
        mine.get_actor_id(),
    ]


@stranger("docs: Log to the driver", [True, True, True], cluster=None)
def what_tasks_print() -> object:
    """What tasks and actors print is shown by the driver, with a name and a process id."""
    script = """
import ray, sys, time
ray.init(address="local", num_cpus=1, include_dashboard=False)
@ray.remote
def speak():
    print("words of a task")
    print("words of an error", file=sys.stderr)
@ray.remote
class Actor:
    def speak(self):
        print("words of an actor")
ray.get(speak.remote())
ray.get(Actor.remote().speak.remote())
time.sleep(2)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=80, check=True
    )
    said = done.stdout + done.stderr
    lines = [line for line in said.splitlines() if "words of a task" in line]
    return [
        any("speak" in line and "pid=" in line for line in lines),
        "words of an error" in said,
        "words of an actor" in said,
    ]


@stranger("docs: Log to the driver, off", False, cluster=None)
def a_quiet_driver() -> object:
    """log_to_driver=False: nothing that workers print is shown."""
    script = """
import ray, time
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
@ray.remote
def speak():
    print("words of a task")
ray.get(speak.remote())
time.sleep(1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=80, check=True
    )
    return "words of a task" in done.stdout + done.stderr


@stranger("docs: Timeline", [True, True])
def a_timeline() -> object:
    """ray.timeline gives events of tasks, also into a file."""
    ray.get([named_task.remote(i) for i in range(3)])
    events = until(lambda: [e for e in ray.timeline() if "named_task" in json.dumps(e)])
    ray.timeline("timeline.json")
    with open("timeline.json") as file:
        return [len(events) > 0, isinstance(json.load(file), list)]


@stranger("raylings: Dump an execution timeline", [True, True])
def executions_on_the_timeline() -> object:
    """Events of executions are found by task:execute, those of a function by task::NAME."""
    ray.get([named_task.remote(i) for i in range(3)])
    events = until(lambda: [e for e in ray.timeline() if "named_task" in e.get("cat", "")])
    every = ray.timeline()
    return [
        all(e["cat"].startswith("task::") for e in events),
        any(e["name"] == "task:execute" and e["ph"] == "X" for e in every),
    ]


@stranger("docs: Application metrics", [["Counter", "Gauge", "Histogram"], "ValueError"])
def metrics_of_ones_own() -> object:
    """Counter, Gauge and Histogram in an actor; an unknown tag is refused."""
    from ray.util.metrics import Counter, Gauge, Histogram

    @ray.remote
    class A:
        def __init__(self) -> None:
            self.count = Counter("strangers_calls", description="calls", tag_keys=("who",))
            self.gauge = Gauge("strangers_level", description="level")
            self.sizes = Histogram("strangers_size", boundaries=[1, 10])

        def use(self) -> list[str]:
            self.count.inc(1, tags={"who": "me"})
            self.gauge.set(3)
            self.sizes.observe(5)
            return [type(m).__name__ for m in (self.count, self.gauge, self.sizes)]

        def wrong(self) -> None:
            self.count.inc(1, tags={"nobody": "x"})

    a = A.remote()
    error = raised(lambda: ray.get(a.wrong.remote()))
    return [ray.get(a.use.remote()), "ValueError" if isinstance(error, ValueError) else repr(error)]


# Cancelling ---------------------------------------------------------------------------------------


@stranger("ray#32954", "TaskCancelledError")
def cancelling_a_sleeping_task() -> object:
    """force=True ends a task that sleeps, at the latest."""

    @ray.remote(max_retries=0)
    def sleep() -> None:
        time.sleep(999)

    ref = sleep.remote()
    ray.wait([ref], timeout=0.5)
    ray.cancel(ref, force=True)
    error = raised(lambda: ray.get(ref))
    known = (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)
    return "TaskCancelledError" if isinstance(error, known) else repr(error)


@stranger("ray#11923", ["TaskCancelledError", "TaskCancelledError"])
def cancelling_children_too() -> object:
    """Cancelling a task cancels what it started."""

    @ray.remote
    class Box:
        def set(self, refs: list[ray.ObjectRef]) -> None:
            self.refs = refs

        def get(self) -> list[ray.ObjectRef] | None:
            return getattr(self, "refs", None)

    box = Box.remote()

    @ray.remote(num_cpus=0.5)
    def inner() -> None:
        while True:
            time.sleep(0.05)

    @ray.remote(num_cpus=0.5)
    def outer() -> None:
        ray.get(box.set.remote([inner.remote()]))
        while True:
            time.sleep(0.05)

    ref = outer.remote()
    [child] = until(lambda: ray.get(box.get.remote()))
    ray.cancel(ref, recursive=True)
    errors = [raised(lambda: ray.get(ref)), raised(lambda: ray.get(child))]
    return [
        "TaskCancelledError" if isinstance(e, ray.exceptions.TaskCancelledError) else repr(e)
        for e in errors
    ]


@stranger("docs: ray.cancel, actor tasks", ["cancelled", 1])
def cancelling_an_async_method() -> object:
    """An async method sees CancelledError; the actor lives on."""

    @ray.remote
    class A:
        async def wait(self) -> None:
            await asyncio.sleep(600)

        async def one(self) -> int:
            return 1

    a = A.remote()
    ref = a.wait.remote()
    ray.get(a.one.remote())
    ray.cancel(ref)
    error = raised(lambda: ray.get(ref))
    name = "cancelled" if isinstance(error, ray.exceptions.TaskCancelledError) else repr(error)
    return [name, ray.get(a.one.remote())]


@stranger("docs: ray.cancel, queued tasks", ["TaskCancelledError", 1], cluster={"num_cpus": 1})
def cancelling_what_waits() -> object:
    """A task that has not begun is cancelled and never runs."""
    path = os.path.abspath("queued ran")

    @ray.remote
    def first() -> int:
        time.sleep(1)
        return 1

    @ray.remote
    def second() -> None:
        open(path, "w").close()

    one, other = first.remote(), second.remote()
    ray.cancel(other)
    error = raised(lambda: ray.get(other))
    value = ray.get(one)
    assert not os.path.exists(path)
    return [type(error).__name__, value]


@stranger("ray#24359", [20, True])
def cancelling_many() -> object:
    """Twenty tasks cancelled at once: each ends with its value or as cancelled; none hangs."""

    @ray.remote
    def work() -> int:
        for _ in range(20):
            time.sleep(0.01)
        return 1

    refs = [work.remote() for _ in range(20)]
    for ref in refs:
        ray.cancel(ref)
    kinds = []
    for ref in refs:
        try:
            kinds.append(ray.get(ref, timeout=60))
        except ray.exceptions.TaskCancelledError:
            kinds.append(0)
    return [len(kinds), set(kinds) <= {0, 1}]


@stranger("StackOverflow: Ctrl-C and Ray", "KeyboardInterrupt", cluster=None)
def an_interrupted_driver() -> object:
    """Ctrl-C in ray.get is KeyboardInterrupt, and the driver can end well."""
    script = """
import ray, time
ray.init(address="local", num_cpus=1, include_dashboard=False)
@ray.remote
def forever():
    print("begun", flush=True)
    time.sleep(600)
ref = forever.remote()
print("waiting", flush=True)
try:
    ray.get(ref)
except KeyboardInterrupt:
    print("outcome=KeyboardInterrupt", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "waiting" in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    [outcome] = [line for line in rest.splitlines() if line.startswith("outcome=")]
    return outcome[8:]


@stranger("docs: tqdm_ray", True)
def progress_bars_of_tasks() -> object:
    """tqdm_ray in a task goes through its items."""
    from ray.experimental import tqdm_ray

    @ray.remote
    def work() -> int:
        return sum(x for x in tqdm_ray.tqdm(range(5), desc="items"))

    with contextlib.redirect_stderr(io.StringIO()):
        return ray.get(work.remote()) == 10


if __name__ == "__main__":
    main()
