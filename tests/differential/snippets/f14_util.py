"""F14: pools, joblib, metrics, state, serializability."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import ray
from kit import outcome, snippet, until


def double(x: int) -> int:
    return 2 * x


def plus(x: int, y: int) -> int:
    return x + y


def fail(x: Any) -> Any:
    raise ValueError(f"bad {x}")


@snippet("F14.01")
def metrics() -> Any:
    from ray.util.metrics import Counter, Gauge, Histogram

    c = Counter("requests", description="how many", tag_keys=("route",))
    g = Gauge("depth", tag_keys=("a", "b"))
    h = Histogram("seconds", boundaries=[0.1, 1], tag_keys=())
    tagged = Counter("tagged", tag_keys=("k",))
    return {
        "info": [c.info, g.info, h.info],
        "inc": outcome(lambda: c.inc(1, tags={"route": "/"})),
        "default": outcome(lambda: c.inc(tags={"route": "/"})),
        "zero": outcome(lambda: c.inc(0, tags={"route": "/"})),
        "negative": outcome(lambda: c.inc(-1, tags={"route": "/"})),
        "text": outcome(lambda: c.inc("1", tags={"route": "/"})),
        "unknown tag": outcome(lambda: c.inc(1, tags={"route": "/", "no": "x"}), "no"),
        "missing tag": outcome(lambda: c.inc(1), "route"),
        "tag type": outcome(lambda: c.inc(1, tags={"route": 3})),
        "tags type": outcome(lambda: c.inc(1, tags=[1])),
        "defaults": outcome(lambda: tagged.set_default_tags({"k": "v"}) is tagged),
        "with defaults": outcome(tagged.inc),
        "default unknown": outcome(lambda: tagged.set_default_tags({"z": "v"}), "z"),
        "default type": outcome(lambda: tagged.set_default_tags({"k": 3})),
        "set": outcome(lambda: g.set(3.5, tags={"a": "1", "b": "2"})),
        "set text": outcome(lambda: g.set("x", tags={"a": "1", "b": "2"})),
        "set none": outcome(lambda: g.set(None, tags={"a": "1", "b": "2"})),
        "observe": outcome(lambda: h.observe(0.5)),
        "observe text": outcome(lambda: h.observe("x")),
        "no boundaries": outcome(lambda: Histogram("x") is not None),
        "bad boundaries": outcome(lambda: Histogram("x", boundaries=[0, 1])),
        "boundaries type": outcome(lambda: Histogram("x", boundaries="ab")),
        "empty name": outcome(lambda: Counter("")),
        "odd name": outcome(lambda: Counter("a b") is not None),
        "name type": outcome(lambda: Counter(3) is not None),
        "keys type": outcome(lambda: Counter("x", tag_keys=["a"]) is not None),
        "keys of int": outcome(lambda: Counter("x", tag_keys=(1,))),
        "keys text": outcome(lambda: Counter("x", tag_keys="ab")),
        "in task": ray.get(ray.remote(lambda: c.inc(1, tags={"route": "t"})).remote()),
    }


@snippet("F14.02", limit_s=120)
def pool() -> Any:
    from ray.util.multiprocessing import Pool

    seen: list[Any] = []
    with Pool(processes=2) as p:
        later = p.map_async(double, range(4))
        failing = p.apply_async(fail, (1,))
        called = p.apply_async(double, (4,), callback=seen.append)
        caught = p.apply_async(fail, (2,), error_callback=lambda e: seen.append(type(e).__name__))
        found = {
            "apply": p.apply(double, (3,)),
            "kwargs": p.apply(plus, (1,), {"y": 2}),
            "map": p.map(double, range(5)),
            "chunks": p.map(double, range(5), chunksize=2),
            "starmap": p.starmap(plus, [(1, 2), (3, 4)]),
            "imap": list(p.imap(double, range(4))),
            "imap chunk": list(p.imap(double, range(4), chunksize=3)),
            "unordered": sorted(p.imap_unordered(double, range(4))),
            "async": [later.get(timeout=30), later.ready(), later.successful()],
            "async error": outcome(lambda: failing.get(timeout=30), "bad 1"),
            "unsuccessful": outcome(failing.successful),
            "map error": outcome(lambda: p.map(fail, [1]), "bad 1"),
            "apply error": outcome(lambda: p.apply(fail, (5,)), "bad 5"),
            "starmap async": p.starmap_async(plus, [(1, 2)]).get(timeout=30),
            "timeout": outcome(lambda: p.apply_async(until, (lambda: False, 5)).get(timeout=0.1)),
            "not ready": outcome(lambda: p.apply_async(until, (lambda: False, 5)).successful()),
            "empty": p.map(double, []),
            "callback": [called.get(timeout=30), until(lambda: 8 in seen)],
            "caught": [outcome(lambda: caught.get(timeout=30)), until(lambda: len(seen) == 2)],
            "next timeout": outcome(lambda: p.imap(double, [1]).next(timeout=30)),
            "end": outcome(lambda: next(p.imap(double, []))),
        }
        p.close()
        found["closed"] = outcome(lambda: p.map(double, [1]), "not running")
        found["join"] = p.join()
    early = Pool(processes=1)
    found["join early"] = outcome(early.join, "running")
    early.terminate()
    found["terminated"] = outcome(lambda: early.apply(double, (1,)))
    q = Pool(2, initializer=os.environ.__setitem__, initargs=("SET", "yes"))
    found["initializer"] = q.map(os.environ.get, ["SET", "SET"])
    q.terminate()
    found["errors"] = [
        outcome(lambda: Pool(processes=0)),
        outcome(lambda: Pool(processes=-1)),
        outcome(lambda: Pool(processes=1, initializer=3)),
        issubclass(multiprocessing.TimeoutError, Exception),
    ]
    return found


def endless() -> Any:
    n = 0
    while True:
        yield n
        n += 1


def broken() -> Any:
    yield 1
    raise KeyError("no more")


def pid(_: Any) -> int:
    return os.getpid()


def refuse() -> None:
    raise OSError("no licence")


@snippet("F14.02", limit_s=150)
def pools_in_trouble() -> Any:
    import itertools
    import threading

    from ray.util.multiprocessing import Pool

    lock = threading.Lock()
    seen: list[Any] = []

    def with_initializer() -> Any:
        with Pool(1, initializer=refuse) as failing:
            return failing.map(double, [1])

    with Pool(1, maxtasksperchild=2) as replaced:
        pids = replaced.map(pid, range(6), chunksize=1)
    with Pool(2) as p:
        found = {
            "replaced": [pids[0] == pids[1], pids[1] == pids[2], len(set(pids))],
            "initializer": outcome(with_initializer, "no licence"),
            "endless": list(itertools.islice(p.imap(double, endless()), 5)),
            "large chunks": p.map(double, range(3), chunksize=100),
            "one chunk": list(p.imap_unordered(double, range(3), chunksize=100)),
            "strings": p.map(len, ["ab", "c"]),
            "no args": p.apply(os.getpid) > 0,
            "kwds": p.apply_async(plus, kwargs={"x": 1, "y": 2}).get(timeout=30),
            "unpicklable": "raises" in outcome(lambda: p.apply(double, (lock,))),
            "goes on": p.apply(double, (2,)),
            "iterable": outcome(lambda: p.map(double, broken()), "no more"),
            "map error": outcome(lambda: p.map(fail, [1, 2]), "bad 1"),
            "starmap error": outcome(lambda: p.starmap(plus, [(1,)])),
            "error callback": [
                p.map_async(fail, [1], error_callback=lambda e: seen.append(str(e)[:5])).wait(30),
                until(lambda: len(seen) == 1),
                "bad" in str(seen),
            ],
            "wait": p.apply_async(double, (1,)).wait(30),
            "imap error": outcome(lambda: list(p.imap(fail, [1])), "bad 1"),
            "enter": p.__enter__() is p,
        }
    found["after"] = outcome(lambda: p.apply(double, (1,)), "not running")
    return found


@snippet("F14.03")
def joblib_backend() -> Any:
    try:
        import joblib
    except ImportError:
        return "joblib is not installed"
    from ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        return joblib.Parallel()(joblib.delayed(double)(i) for i in range(6))


@snippet("F14.04", "F3.11")
def serializability() -> Any:
    import threading

    from ray.util import inspect_serializability
    from ray.util.check_serialize import FailureTuple

    lock = threading.Lock()

    class Holder:
        def __init__(self) -> None:
            self.lock = lock

    good = inspect_serializability(3)
    bad = inspect_serializability(Holder(), name="holder", depth=2)
    return {
        "good": [good[0], sorted(map(str, good[1]))],
        "bad": [bad[0], sorted(f.path for f in bad[1]), [type(f).__name__ for f in bad[1]]],
        "tuple": FailureTuple.__name__,
        "fields": [hasattr(f, n) for f in bad[1] for n in ("obj", "parent")],
    }


@snippet("F14.08")
def graphs() -> Any:
    from ray.dag import InputNode, MultiOutputNode

    @ray.remote
    def add(x: int, y: int) -> int:
        return x + y

    @ray.remote
    class Counter:
        def __init__(self, start: int) -> None:
            self.n = start

        def up(self, by: int) -> int:
            self.n += by
            return self.n

    node = add.bind(1, add.bind(2, 3))
    counter = Counter.bind(10)
    handle = Counter.remote(100)
    with InputNode() as given:
        line = add.bind(given, handle.up.bind(given))
    with InputNode() as several:
        sums = add.bind(several[0], several.y)
    with InputNode() as one:
        both = MultiOutputNode([add.bind(one, 1), add.bind(one, 2)])
    return {
        "value": ray.get(node.execute()),
        "types": [type(node).__name__, type(counter).__name__, type(counter.up.bind(1)).__name__],
        "actor": ray.get(counter.up.bind(add.bind(1, 1)).execute()),
        "input": ray.get(line.execute(5)),
        "fields": ray.get(sums.execute(1, y=2)),
        "outputs": ray.get(both.execute(1)),
        "options": ray.get(add.options(name="x").bind(1, 2).execute()),
        "containers": ray.get(ray.remote(lambda xs: sum(xs)).bind([1, 2]).execute()),
        "call": outcome(lambda: node(1)),
        "remote": outcome(lambda: node.remote()),
        "missing input": outcome(lambda: line.execute()),
        "needless input": outcome(lambda: ray.get(node.execute(1))),
    }


@snippet("F14.11", cluster=None)
def workflows() -> Any:
    import importlib

    return outcome(lambda: importlib.import_module("ray.workflow"), "deprecated")


@snippet("F14.12", "F14.05", "F14.13", cluster=None)
def other_modules() -> Any:
    import importlib

    names = [
        "ray.util.collective",
        "ray.util.dask",
        "ray.util.debugpy",
        "ray.util.rpdb",
        "ray.experimental",
        "ray.experimental.internal_kv",
        "ray.experimental.tqdm_ray",
        "ray.dag",
        "ray.types",
        "ray.widgets",
        "ray.util.serialization",
        "ray.util.scheduling_strategies",
        "ray.util.state",
        "ray.util.tracing",
        "ray.util.client",
        "ray.util.placement_group",
        "ray.util.queue",
        "ray.util.actor_pool",
        "ray.util.multiprocessing",
        "ray.util.joblib",
        "ray.util.metrics",
        "ray.util.check_serialize",
        "ray.util.accelerators",
        "ray.util.annotations",
        "ray.util.debug",
        "ray.runtime_env",
        "ray.runtime_context",
        "ray.remote_function",
        "ray.job_config",
        "ray.actor",
        "ray.exceptions",
        "ray.cluster_utils",
        "ray.job_submission",
        "ray.autoscaler.sdk",
        "ray.internal",
    ]

    def can(name: str) -> bool:
        try:
            importlib.import_module(name)
        except Exception:
            return False
        return True

    return {name: can(name) for name in names}


DASHBOARD = {"num_cpus": 2, "include_dashboard": True}


def columns(rows: list[Any], *names: str) -> list[Any]:
    """Those columns of each row, in an order that does not depend on ids."""
    return sorted(([row[name] for name in names] for row in rows), key=str)


def here() -> dict[str, Any]:
    """For the state API: this cluster, though the machine may have others."""
    return {"address": ray.get_runtime_context().gcs_address}


@ray.remote
def quick(x: Any) -> Any:
    return x


@ray.remote(max_retries=0)
def failing() -> None:
    raise ValueError("no such thing")


@ray.remote(num_cpus=0)
class Keeper:
    def up(self) -> int:
        return 1

    def end(self) -> None:
        os._exit(1)


WORLD: dict[str, dict[str, Any]] = {}


def world() -> dict[str, Any]:
    """Tasks that ended well and badly, actors alive and dead, a group, objects; once a cluster."""
    node = ray.get_runtime_context().get_node_id()
    if node in WORLD:
        return WORLD[node]
    found: dict[str, Any] = {"ref": quick.remote(1), "big": ray.put(b"x" * 300_000)}
    ray.get(found["ref"])
    outcome(lambda: ray.get(failing.remote()))
    found["alive"] = Keeper.options(name="keeper").remote()
    ray.get(found["alive"].up.remote())
    found["dead"] = Keeper.remote()
    outcome(lambda: ray.get(found["dead"].end.remote()))
    found["group"] = ray.util.placement_group([{"CPU": 1}], name="pair")
    ray.get(found["group"].ready())
    WORLD[node] = found
    return found


def ended(state: Any) -> bool:
    """What Ray tells with a delay has been told."""
    tasks = state.list_tasks(**here())
    actors = state.list_actors(**here())
    return (
        len([t for t in tasks if t.state in ("FINISHED", "FAILED")]) >= 6
        and {a.state for a in actors} == {"ALIVE", "DEAD"}
        and any(not w.is_alive for w in state.list_workers(limit=1000, **here()))
    )


@snippet("F14.04", "F6.18", cluster=DASHBOARD, limit_s=180)
def state_lists() -> Any:
    from ray.util import state

    made = world()
    until(lambda: ended(state), 30)
    at = here()
    tasks = state.list_tasks(detail=True, **at)
    plain = state.list_tasks(**at)
    task = state.get_task(made["ref"], **at)
    actor = state.get_actor(made["alive"]._actor_id.hex(), **at)
    dead = state.get_actor(made["dead"]._actor_id.hex(), **at)
    big = state.get_objects(made["big"].hex(), **at)
    nodes, jobs = state.list_nodes(detail=True, **at), state.list_jobs(detail=True, **at)
    groups = state.list_placement_groups(detail=True, **at)
    workers = state.list_workers(limit=1000, detail=True, **at)
    mine = [w for w in workers if w.pid == os.getpid()]
    died = [w for w in workers if not w.is_alive and w.exit_type == "SYSTEM_ERROR"]
    context = ray.get_runtime_context()
    return {
        "tasks": columns(tasks, "func_or_class_name", "state", "type", "error_type", "language"),
        "attempts": sorted({t.attempt_number for t in tasks}),
        "jobs of tasks": {t.job_id for t in tasks} == {context.get_job_id()},
        "parents": {t.parent_task_id for t in tasks},
        "resources": [t.required_resources for t in tasks if t.name == "quick"],
        "plain": [plain[0].required_resources, plain[0].events, plain[0].language],
        "events": [
            {"PENDING_ARGS_AVAIL", "RUNNING", "FINISHED"} <= {e["state"] for e in task.events},
            all(isinstance(e["created_ms"], int | float) for e in task.events),
        ],
        "times": task.creation_time_ms <= task.start_time_ms <= task.end_time_ms,
        "error": sorted("no such thing" in t.error_message for t in tasks if t.error_message),
        "by ref": [task.name, task["state"], task.get("state"), task.get("nothing", 5)],
        "actors": columns(state.list_actors(**at), "class_name", "state", "name", "job_id"),
        "actor": [actor.class_name, actor.is_detached, actor.num_restarts, actor.death_cause],
        "plain actor": [state.list_actors(**at)[0][c] for c in ("num_restarts", "is_detached")],
        "cause": [type(dead.death_cause).__name__, sorted(dead.death_cause)],
        "cause text": bool(dead.death_cause["actor_died_error_context"]["error_message"]),
        "object": [big[0].reference_type, big[0].task_status, big[0].type, big[0].call_site],
        "object more": [big[0].attempt_number, big[0].pid == os.getpid(), big[0].object_size > 2e5],
        "nodes": columns(nodes, "state", "is_head_node"),
        "node": [nodes[0].node_id == context.get_node_id(), sorted(nodes[0].resources_total)],
        "jobs": [[j.job_id, j.submission_id, j.entrypoint != "", j.start_time > 0] for j in jobs],
        "job": [jobs[0].type == "DRIVER", jobs[0].status == "RUNNING"],
        "driver": [jobs[0].driver_info.pid == str(os.getpid()), jobs[0].driver_info.id],
        "groups": columns(groups, "name", "state", "is_detached", "creator_job_id"),
        "bundles": [g.bundles for g in groups],
        "driver process": columns(mine, "worker_type", "is_alive", "exit_type"),
        "died": [len(died), died[0].worker_type, bool(died[0].exit_detail)],
        "envs": outcome(lambda: type(state.list_runtime_envs(**at)).__name__),
        "cluster events": outcome(lambda: type(state.list_cluster_events(**at)).__name__),
    }


@snippet("F14.04", "F6.18", cluster=DASHBOARD, limit_s=180)
def state_questions() -> Any:
    from ray.util import state

    world()
    until(lambda: ended(state), 30)
    at = here()

    def listed(**options: Any) -> Any:
        rows = state.list_tasks(**{**at, **options})
        return columns(rows, "func_or_class_name", "state")

    def of(*filters: Any, **options: Any) -> Any:
        return outcome(lambda: listed(filters=list(filters), **options))

    pid = ray.get_runtime_context().get_node_id()
    return {
        "equal": of(("state", "=", "FAILED"), ("type", "=", "NORMAL_TASK")),
        "case": of(("STATE", "=", "failed"), ("Type", "=", "normal_task")),
        "unequal": of(("type", "!=", "ACTOR_TASK"), ("type", "!=", "ACTOR_CREATION_TASK")),
        "none": of(("actor_id", "=", None), ("state", "=", "FINISHED")),
        "not none": of(("error_type", "!=", None), ("type", "=", "NORMAL_TASK")),
        "number": of(("attempt_number", "=", 1)),
        "number as text": of(("attempt_number", "=", "1")),
        "no number": of(("attempt_number", "=", "abc")),
        "no such column": of(("nonsense", "=", "x")),
        "unfilterable": of(("start_time_ms", "=", 1)),
        "predicate": of(("state", "<", "x"))["raises"] != "",
        "two parts": "raises" in of(("state", "=")),
        "conflict": of(("state", "=", "FAILED"), ("state", "=", "FINISHED")),
        "detail": of(("language", "=", "PYTHON"), ("func_or_class_name", "=", "quick")),
        "truth": outcome(
            lambda: len(state.list_nodes(filters=[("is_head_node", "=", "True")], **at))
        ),
        "falsity": outcome(lambda: state.list_nodes(filters=[("is_head_node", "=", False)], **at)),
        "no truth": outcome(lambda: state.list_nodes(filters=[("is_head_node", "=", "x")], **at)),
        "by node": outcome(lambda: len(state.list_nodes(filters=[("node_id", "=", pid)], **at))),
        "limit": outcome(lambda: len(state.list_tasks(limit=2, **at))),
        "limit 0": outcome(lambda: state.list_tasks(limit=0, **at)),
        "negative": outcome(lambda: state.list_tasks(limit=-1, **at)),
        "too many": outcome(lambda: state.list_tasks(limit=10_001, **at), "10000"),
        "limit type": "raises" in outcome(lambda: state.list_tasks(limit="x", **at)),
        "timeout": outcome(lambda: len(state.list_nodes(timeout=5, **at))),
        "timeout 0": outcome(lambda: len(state.list_nodes(timeout=0, **at))),
        "missing": outcome(lambda: len(state.list_nodes(raise_on_missing_output=False, **at))),
        "explain": outcome(lambda: len(state.list_nodes(_explain=True, **at))),
        "get nothing": [
            outcome(lambda: state.get_actor("ab" * 16, **at)),
            outcome(lambda: state.get_task("ab" * 24, **at)),
            outcome(lambda: state.get_node("ab" * 28, **at)),
            outcome(lambda: state.get_worker("ab" * 28, **at)),
            outcome(lambda: state.get_placement_group("ab" * 18, **at)),
        ],
        "get nonsense": [
            outcome(lambda: state.get_actor("nonsense", **at)),
            outcome(lambda: state.get_node("ab", **at)),
        ],
    }


@snippet("F14.04", "F6.18", cluster=DASHBOARD, limit_s=180)
def state_summaries() -> Any:
    from ray.util import state
    from ray.util.state.common import ListApiOptions, StateResource

    world()
    until(lambda: ended(state), 30)
    at = here()
    tasks, actors = state.summarize_tasks(**at), state.summarize_actors(**at)
    objects = state.summarize_objects(**at)
    sums = objects["cluster"]["summary"]
    return {
        "keys": [sorted(tasks), sorted(actors), sorted(objects)],
        "tasks": {k: v for k, v in tasks["cluster"].items() if k != "summary"},
        "functions": {
            name: row for name, row in tasks["cluster"]["summary"].items() if "__init__" not in name
        },
        "actors": actors["cluster"],
        "objects": sorted(set(objects["cluster"]) - {"summary"}),
        "callsites": {name: sorted(row) for name, row in sums.items()},
        "client": outcome(
            lambda: len(
                state.StateApiClient(**at).list(
                    StateResource.NODES,
                    options=ListApiOptions(),
                    raise_on_missing_output=True,
                )
            )
        ),
    }


@snippet("F14.04", "F6.18", cluster=None)
def state_columns() -> Any:
    from ray.util.state import common, exception

    classes = [
        "ActorState",
        "ClusterEventState",
        "JobState",
        "NodeState",
        "ObjectState",
        "PlacementGroupState",
        "RuntimeEnvState",
        "TaskState",
        "WorkerState",
    ]
    # Beyond Ray's columns there are the reasons for waiting, and what a process is used for.
    ours = {"why", "usage"}

    def of(name: str) -> Any:
        cls = getattr(common, name)
        return {
            "base": [c for c in cls.list_columns(detail=False) if c not in ours],
            "all": sorted(cls.columns() - ours),
            "base set": sorted(cls.base_columns() - ours),
            "detail": sorted(cls.detail_columns() - ours),
            "filters": sorted(cls.filterable_columns()),
        }

    row = common.ObjectState("ab", 1, "FINISHED", 1, "LOCAL_REFERENCE", "x", "DRIVER", 1, "h")
    return {
        **{name: of(name) for name in classes},
        "resources": [m.value for m in common.StateResource],
        "summaries": [m.value for m in common.SummaryResource],
        "limits": [common.DEFAULT_LIMIT, common.DEFAULT_RPC_TIMEOUT, common.DEFAULT_LOG_LIMIT],
        "max": common.RAY_MAX_LIMIT_FROM_API_SERVER,
        "errors": [
            issubclass(exception.ServerUnavailable, exception.RayStateApiException),
            issubclass(exception.DataSourceUnavailable, exception.RayStateApiException),
        ],
        "row": [row["pid"], row.get("no"), row.asdict()["ip"], row.object_id],
        "human": [
            common.Humanify.memory(5 << 20),
            common.Humanify.memory(5),
            common.Humanify.duration(1500),
        ],
        "humanified": common.NodeState.humanify({"resources_total": {"CPU": 1, "memory": 1 << 30}}),
        "conflict": common.ListApiOptions(
            filters=[("a", "=", "1"), ("a", "=", "2")]
        ).has_conflicting_filters(),
        "no conflict": common.ListApiOptions(
            filters=[("a", "=", "1"), ("a", "!=", "2")]
        ).has_conflicting_filters(),
    }


@snippet("F14.04", "F6.17", cluster=DASHBOARD, limit_s=240)
def state_commands() -> Any:
    import json
    import subprocess
    import sys
    from pathlib import Path

    from ray.util import state

    made = world()
    until(lambda: ended(state), 30)
    command = str(Path(sys.executable).parent / "ray")
    address = here()["address"]

    def run(*args: str) -> Any:
        done = subprocess.run(
            [command, *args, "--address", address],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def rows(*args: str) -> Any:
        code, out = run("list", *args, "--format", "json")
        return code or json.loads(out)

    actor = made["alive"]._actor_id.hex()
    return {
        "actors": sorted([r["class_name"], r["state"], r["name"]] for r in rows("actors")),
        "keys": sorted(set(rows("actors")[0]) - {"why"}),
        "failed": [
            r["name"] for r in rows("tasks", "-f", "state=FAILED", "--filter", "type=NORMAL_TASK")
        ],
        "unequal": len(rows("tasks", "-f", "type!=NORMAL_TASK", "--limit", "1")),
        "detail": sorted(set(rows("placement-groups", "--detail")[0]) - {"why"}),
        "nodes": [r["state"] for r in rows("nodes", "--timeout", "20")],
        "table": run("list", "actors")[0],
        "yaml": run("list", "actors", "--format", "yaml")[0],
        "events": run("list", "cluster-events")[0],
        "envs": run("list", "runtime-envs")[0],
        "bad column": run("list", "tasks", "-f", "nonsense=1")[0] != 0,
        "bad filter": run("list", "tasks", "-f", "nonsense")[0] != 0,
        "bad resource": run("list", "cats")[0] != 0,
        "get": ["Keeper" in run("get", "actors", actor)[1], run("get", "actors", actor)[0]],
        "summary": [run("summary", what)[0] for what in ("tasks", "actors", "objects")],
        "counted": all(word in run("summary", "tasks")[1] for word in ("quick", "FINISHED")),
    }
