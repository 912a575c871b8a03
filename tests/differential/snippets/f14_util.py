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
