"""F0: names, sessions, ids, errors, logs."""

from __future__ import annotations

import os
import pickle
import warnings
from typing import Any

import ray
from kit import driver, outcome, plain, snippet


@snippet("F0.01", cluster=None)
def surface() -> Any:
    return {
        "version": ray.__version__[:4],
        "commit": isinstance(ray.__commit__, str) and bool(ray.__commit__),
        "all": sorted(
            name
            for name in ray.__all__
            if not name.startswith("_") and name not in ("autoscaler", "data", "workflow")
        ),
        "eager util": hasattr(ray, "util") and hasattr(ray.util, "get_node_ip_address"),
        "missing": outcome(lambda: ray.no_such_thing, "no_such_thing"),
        "none": [hasattr(ray, name) for name in ("tune2", "put2", "__file__", "__path__")],
    }


@snippet("F0.23", cluster=None)
def remaining_names() -> Any:
    names = [
        "Language", "SCRIPT_MODE", "WORKER_MODE", "RESTORE_WORKER_MODE", "SPILL_WORKER_MODE",
        "DynamicObjectRefGenerator", "ClientBuilder", "LoggingConfig", "client",         "java_function", "java_actor_class", "timeline", "actor", "exceptions",
    ]  # fmt: skip
    return {
        **{name: hasattr(ray, name) for name in names},
        "modes": [
            ray.SCRIPT_MODE,
            ray.WORKER_MODE,
            ray.RESTORE_WORKER_MODE,
            ray.SPILL_WORKER_MODE,
        ],
        "languages": [hasattr(ray.Language, name) for name in ("PYTHON", "JAVA", "CPP")],
        "util": {
            name: hasattr(ray.util, name)
            for name in ("get_node_instance_id", "log_once", "ActorPool", "placement_group")
        },
    }


@snippet("F0.02", cluster=None)
def init_refuses() -> Any:
    return [
        outcome(lambda: ray.init(no_such_option=1), "unknown keyword argument", "no_such_option"),
        outcome(lambda: ray.init(local_mode=True), "local_mode", "no longer supported"),
        outcome(lambda: ray.init(storage="x"), "storage"),
        outcome(lambda: ray.init(namespace=""), "namespace"),
        outcome(lambda: ray.init(namespace=3), "namespace", "string"),
        outcome(lambda: ray.init(num_cpus=-1), "negative"),
        outcome(lambda: ray.init(resources={"CPU": 1}), "num_cpus"),
        outcome(lambda: ray.init(object_store_memory=10), "minimum", "bytes"),
        outcome(lambda: ray.init(runtime_env={"env_vars": {"a": 1}}), "env_vars"),
        outcome(lambda: ray.init(runtime_env=3), "runtime_env"),
        ray.is_initialized(),
    ]


@snippet("F0.03", "F0.10")
def init_twice() -> Any:
    again = ray.init(ignore_reinit_error=True)
    return {
        "again": outcome(ray.init, "maybe you called ray.init twice", "ignore_reinit_error"),
        "type": type(again).__name__,
        "same": again.address_info["node_id"] == ray.get_runtime_context().get_node_id(),
        "keys": sorted(again.address_info),
        "python": again.python_version,
        "ray": again.ray_version[:4],
        "commit": isinstance(again.ray_commit, str),
        "dashboard": type(again.dashboard_url).__name__,
        "mapping": outcome(lambda: sorted(again)),
        "item": outcome(lambda: isinstance(again["address"], str)),
        "missing": outcome(lambda: again["nothing"]),
        "initialized": ray.is_initialized(),
    }


@snippet("F0.04", "F15.01", cluster=None)
def addresses() -> Any:
    return {
        "through the variable": driver(
            """
            import os, ray
            context = ray.init(num_cpus=1, include_dashboard=False, namespace="there")
            os.environ["RAY_ADDRESS"] = context.address_info["address"]
            os.environ["RAY_NAMESPACE"] = "named"
            import subprocess, sys
            code = (
                "import ray; ray.init(); c = ray.get_runtime_context();"
                "print('>', c.namespace, c.get_node_id())"
            )
            out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            print(out.stdout.replace(ray.get_runtime_context().get_node_id(), "same"), end="")
            code = code.replace("init()", "init(num_cpus=1)")
            out = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
            print(">", "ValueError" in out.stderr, "existing cluster" in out.stderr)
            """
        ),
    }


@snippet("F0.05", "F4.01", "F4.18", cluster={"num_cpus": 3, "num_gpus": 2, "resources": {"X": 2}})
def logical_resources() -> Any:
    total = ray.cluster_resources()
    node = ray.nodes()[0]
    return {
        "some": {k: total[k] for k in ("CPU", "GPU", "X")},
        "names": sorted(k if not k.startswith("node:1") else "node:<ip>" for k in total),
        "types": sorted({type(v).__name__ for v in total.values()}),
        "node": sorted(node),
        "alive": node["Alive"],
        "node resources": sorted(
            k if not k.startswith("node:1") else "node:<ip>" for k in node["Resources"]
        ),
        "labels": sorted(node["Labels"]),
        "available": {k: ray.available_resources().get(k) for k in ("CPU", "GPU", "X")},
    }


@snippet("F0.08", "F0.09")
def shut_down() -> Any:
    @ray.remote
    class A:
        def f(self) -> int:
            return 1

    ref, actor = ray.put(1), A.remote()
    ray.get(actor.f.remote())
    ray.shutdown()
    ray.shutdown()
    found = {
        "initialized": ray.is_initialized(),
        "nodes": outcome(ray.nodes, "not been started"),
        "resources": outcome(ray.cluster_resources, "not been started"),
        "available": outcome(ray.available_resources, "not been started"),
        "timeline": outcome(ray.timeline, "not been started"),
    }
    ray.init("local", num_cpus=4, include_dashboard=False)
    return {
        **found,
        "old ref": outcome(lambda: ray.get(ref, timeout=5)),
        "old actor": outcome(lambda: ray.get(actor.f.remote(), timeout=5)),
        "old kill": outcome(lambda: ray.kill(actor)),
    }


@snippet("F0.09", "F15.07", cluster=None)
def no_auto_init() -> Any:
    return driver(
        """
        import ray
        @ray.remote
        def f(): return 1
        for call in (lambda: ray.put(1), f.remote, lambda: ray.get_actor("x"),
                     lambda: ray.wait([]), ray.get_gpu_ids, ray.get_runtime_context,
                     lambda: ray.get_runtime_context().get_node_id()):
            try:
                print(">", type(call()).__name__)
            except Exception as error:
                print(">", type(error).__name__, "not been started" in str(error))
        """,
        env={"RAY_ENABLE_AUTO_CONNECT": "0"},
    )


@snippet("F0.09", "F0.01", cluster=None)
def auto_init() -> Any:
    return driver(
        """
        import ray
        print("> init", ray.is_initialized())
        @ray.remote
        def f(): return 1
        print(">", ray.get(f.remote()), ray.is_initialized())
        """
    )


@snippet("F0.13", "F2.16")
def namespaces() -> Any:
    @ray.remote
    class A:
        def f(self) -> int:
            return 1

    a = A.options(name="n1", namespace="space").remote()
    ray.get(a.f.remote())
    return {
        "elsewhere": outcome(lambda: ray.get_actor("n1"), "n1"),
        "there": ray.get(ray.get_actor("n1", namespace="space").f.remote()),
        "mine": len(ray.get_runtime_context().namespace),
        "empty": outcome(lambda: ray.get_actor("")),
        "type": outcome(lambda: ray.get_actor(3)),
        "bad": outcome(lambda: ray.get_actor("x", namespace="")),
        "none": outcome(lambda: ray.get_actor("nobody"), "nobody", "namespace"),
        "list": ray.util.list_named_actors(all_namespaces=True),
    }


@snippet("F0.14", cluster=None)
def ids() -> Any:
    found = {}
    for name in [
        "ObjectRef",
        "TaskID",
        "ActorID",
        "JobID",
        "NodeID",
        "WorkerID",
        "PlacementGroupID",
        "FunctionID",
        "ActorClassID",
        "UniqueID",
    ]:
        cls = getattr(ray, name)
        some = cls(b"\x01" * cls.size())
        found[name] = {
            "size": cls.size(),
            "nil": outcome(lambda c=cls: c.nil().is_nil()),
            "hex": some.hex() == "01" * cls.size(),
            "binary": some.binary() == b"\x01" * cls.size(),
            "from_hex": outcome(lambda c=cls, s=some: c.from_hex(s.hex()) == s),
            "repr": repr(some).replace("01" * cls.size(), "<hex>"),
            "hash": len({some, cls(b"\x01" * cls.size())}),
            "random": outcome(lambda c=cls: c.from_random() != c.from_random()),
            "short": outcome(lambda c=cls: c(b"abc")),
            "type": outcome(lambda c=cls: c("abc")),
            "pickle": outcome(lambda s=some: pickle.loads(pickle.dumps(s)) == s),
            "order": outcome(lambda c=cls, s=some: c(b"\x02" * c.size()) > s),
            "len": outcome(lambda s=some: len(s)),
            "str": str(some).replace("01" * cls.size(), "<hex>"),
            "other": outcome(lambda s=some: s == 3),
        }
    found["alias"] = ray.ObjectID is ray.ObjectRef
    found["job"] = outcome(lambda: ray.JobID.from_int(5).hex())
    return found


@snippet("F0.15", cluster=None)
def exception_tree() -> Any:
    return {
        name: [base.__name__ for base in cls.__mro__ if not base.__name__.startswith("_")]
        for name, cls in sorted(vars(ray.exceptions).items())
        if isinstance(cls, type)
        and issubclass(cls, Exception)
        and not name.startswith("_")
        and cls.__module__.endswith("exceptions")
    }


@snippet("F0.15", cluster=None)
def exceptions_by_hand() -> Any:
    errors = ray.exceptions
    names = [
        "RayError", "GetTimeoutError", "WorkerCrashedError", "PendingCallsLimitExceeded",
        "ObjectStoreFullError", "OutOfDiskError", "RuntimeEnvSetupError", "NodeDiedError",
        "TaskUnschedulableError", "ActorUnschedulableError", "LocalRayletDiedError",
        "ActorDiedError", "TaskCancelledError", "RaySystemError", "OutOfMemoryError",
        "AsyncioActorExit", "TaskPlacementGroupRemoved", "ActorPlacementGroupRemoved",
    ]  # fmt: skip
    found = {}
    for name in names:
        cls = getattr(errors, name)
        found[name] = {
            "none": outcome(lambda c=cls: type(str(c())).__name__),
            "text": outcome(lambda c=cls: "words" in str(c("words"))),
            "pickled": outcome(lambda c=cls: type(pickle.loads(pickle.dumps(c("words")))).__name__),
        }
    return found


@snippet("F0.16")
def task_errors() -> Any:
    class Odd(Exception):
        def __init__(self, code: int, extra: str) -> None:
            super().__init__(code, extra)
            self.code, self.extra = code, extra

    class Lossy(Exception):
        def __init__(self, code: int, extra: str) -> None:
            super().__init__(code)  # what it is made again from is too little

    class Final(Exception):
        def __init_subclass__(cls, **kw: Any) -> None:
            raise TypeError("no subclass")

    class Unpicklable(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("cannot")

    @ray.remote
    def fail(error: Any) -> None:
        raise error() if isinstance(error, type) else error

    @ray.remote
    def fail_odd() -> None:
        raise Odd(7, "more")

    @ray.remote
    def fail_lossy() -> None:
        raise Lossy(7, "more")

    @ray.remote
    def fail_final() -> None:
        raise Final("last")

    @ray.remote
    def fail_hidden() -> None:
        raise Unpicklable("x")

    @ray.remote
    def fail_from() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    @ray.remote
    def leave() -> None:
        raise SystemExit(3)

    @ray.remote
    def take(x: Any) -> Any:
        return x

    def get(ref: Any) -> Any:
        return lambda: ray.get(ref)

    found = {
        "value": outcome(get(fail.remote(ValueError("bad"))), "bad", "ValueError", "pid=", "ip="),
        "key": outcome(get(fail.remote(KeyError("k"))), "'k'"),
        "stop": outcome(get(fail.remote(StopIteration("k")))),
        "assert": outcome(get(fail.remote(AssertionError("k")))),
        "timeout": outcome(get(fail.remote(TimeoutError("k")))),
        "os": outcome(get(fail.remote(FileNotFoundError(2, "gone", "a.txt"))), "a.txt"),
        "interrupt": outcome(get(fail.remote(KeyboardInterrupt))),
        "odd": outcome(get(fail_odd.remote())),
        "lossy": outcome(get(fail_lossy.remote())),
        "final": outcome(get(fail_final.remote()), "last"),
        "hidden": outcome(get(fail_hidden.remote())),
        "chain": outcome(get(fail_from.remote()), "inner", "outer", "direct cause"),
        "passed on": outcome(
            get(take.remote(fail.remote(ValueError("first")))), "first", "at least one of the input"
        ),
        "exit": outcome(get(leave.remote())),
    }
    try:
        ray.get(fail_odd.remote())
    except Odd as error:
        found["fields"] = [
            error.code,
            error.extra,
            type(error).__name__,
            type(error.cause).__name__,
            str(type(error)).split("'")[1].rpartition(".")[2],
            "Odd" in repr(error),
        ]
    try:
        ray.get(fail_hidden.remote())
    except ray.exceptions.RayTaskError as error:
        found["hidden cause"] = [type(error.cause).__name__, "serializable" in str(error.cause)]
    return found


@snippet("F0.16")
def groups_of_errors() -> Any:
    import builtins

    group: Any = getattr(builtins, "ExceptionGroup", None)  # from Python 3.11
    if group is None:
        return None

    @ray.remote
    def fail() -> None:
        raise group("many", [ValueError("one"), TypeError("two")])

    try:
        ray.get(fail.remote())
    except group as error:
        return [type(part).__name__ for part in error.exceptions]


@snippet("F0.17", "F15.06", cluster=None)
def logs_to_driver() -> Any:
    source = """
        import ray, sys, time
        ray.init(num_cpus=2, include_dashboard=False)
        @ray.remote
        def talk():
            print("hello there")
            print("to stderr", file=sys.stderr)
        @ray.remote
        class Speaker:
            def talk(self): print("actor here")
        @ray.remote
        class Named:
            def __repr__(self): return "Called<me>"
            def talk(self): print("named here")
        a, b = Speaker.remote(), Named.remote()
        ray.get([talk.remote(), a.talk.remote(), b.talk.remote()])
        time.sleep(2)
        """
    words = ["(talk pid=", "hello there", "to stderr", "(Speaker pid=", "(Called<me> pid="]
    return {
        "on": driver(source, show=words),
        "off": driver(source, show=words, env={"RAY_LOG_TO_DRIVER": "0"}),
        "no prefix": driver(source, show=words, env={"RAY_DISABLE_WORKER_LOG_PREFIX": "1"}),
    }


@snippet("F0.17", "F15.06", cluster=None)
def repeated_lines() -> Any:
    source = """
        import ray, time
        ray.init(num_cpus=4, include_dashboard=False)
        @ray.remote
        def talk():
            print("the same line")
            time.sleep(1)
        ray.get([talk.remote() for _ in range(4)])
        time.sleep(2)
        """
    on = driver(source, show=["repeated 3x across cluster", "RAY_DEDUP_LOGS=0"])
    off = driver(source, show=["across cluster"], env={"RAY_DEDUP_LOGS": "0"})
    off["lines"] = off["#output"].count("the same line")
    return {"on": on, "off": off}


@snippet("F0.18", "F15.05", cluster=None)
def session_folder() -> Any:
    return driver(
        """
        import os, ray
        context = ray.init(num_cpus=1, include_dashboard=False)
        folder = context.address_info["session_dir"]
        top = os.path.dirname(folder)
        print(">", os.path.basename(folder).startswith("session_"))
        print(">", os.path.basename(top), os.environ["RAY_TMPDIR"] in top)
        print(">", os.path.realpath(os.path.join(top, "session_latest")) == os.path.realpath(folder))
        print(">", os.path.isdir(os.path.join(folder, "logs")))
        @ray.remote
        def f(): print("x")
        ray.get(f.remote())
        from time import monotonic, sleep
        def there():
            names = os.listdir(os.path.join(folder, "logs"))
            return any(n.startswith("worker-") and n.endswith(".out") for n in names)
        end = monotonic() + 20
        while not there() and monotonic() < end:
            sleep(0.1)
        print(">", there())
        """,
        env={"RAY_TMPDIR": _short_folder()},
    )


def _short_folder() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="d", dir="/tmp")


@snippet("F0.19", cluster=None)
def logging_config() -> Any:
    found = driver(
        """
        import json, logging, ray
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            logging_config=ray.LoggingConfig(encoding="JSON", log_level="WARNING"),
        )
        logging.getLogger().warning("from the driver")
        @ray.remote
        def f():
            logger = logging.getLogger()
            logger.info("too quiet")
            logger.warning("from the worker")
            return logging.getLevelName(logger.level), len(logger.handlers)
        print(">", ray.get(f.remote()))
        import time; time.sleep(2)
        """,
        show=['"message": "from the driver"', '"message": "from the worker"', "too quiet",
              '"job_id"', '"task_id"', '"levelname": "WARNING"', '"worker_id"', '"node_id"',
              '"asctime"', '"filename"', '"timestamp_ns"', '"task_name"', '"task_func_name"'],
    )  # fmt: skip
    return {
        "json": found,
        "fields": outcome(lambda: sorted(vars(ray.LoggingConfig()))),
        "encoding": outcome(lambda: ray.LoggingConfig(encoding="XML"), "XML", "JSON", "TEXT"),
        "attributes": outcome(
            lambda: ray.LoggingConfig(additional_log_standard_attrs=["nothing"]), "nothing"
        ),
        "good": outcome(lambda: ray.LoggingConfig(additional_log_standard_attrs=["name"])),
    }


@snippet("F0.20", cluster=None)
def job_config() -> Any:
    from ray.job_config import JobConfig

    job = JobConfig(metadata={"a": "b"}, ray_namespace="n")
    job.set_metadata("c", "d")
    return {
        "metadata": job.metadata,
        "namespace": job.ray_namespace,
        "lifetime": outcome(lambda: JobConfig(default_actor_lifetime="odd")),
        "detached": outcome(lambda: JobConfig(default_actor_lifetime="detached") is not None),
        "path": outcome(lambda: JobConfig(code_search_path="x")),
        "used": driver(
            """
            import ray
            from ray.job_config import JobConfig
            ray.init(num_cpus=1, include_dashboard=False, job_config=JobConfig(
                ray_namespace="mine", runtime_env={"env_vars": {"A": "b"}}))
            print(">", ray.get_runtime_context().namespace)
            @ray.remote
            def f():
                import os
                return os.environ["A"]
            print(">", ray.get(f.remote()))
            """
        ),
    }


@snippet("F0.21", "F15.06", cluster=None)
def unhandled() -> Any:
    source = """
        import ray, time
        ray.init(num_cpus=1, include_dashboard=False)
        @ray.remote
        def f(): raise ValueError("nobody looked")
        ref = f.remote()
        time.sleep(3)
        del ref
        time.sleep(8)
        """
    return {
        "on": driver(source, show=["Unhandled error", "nobody looked"]),
        "off": driver(source, show=["Unhandled error"], env={"RAY_IGNORE_UNHANDLED_ERRORS": "1"}),
    }


@snippet("F0.22")
def code_shipping() -> Any:
    factor = 3

    class Local:
        def __init__(self, x: int) -> None:
            self.x = x

        def times(self) -> int:
            return self.x * factor

    @ray.remote
    def use(thing: Any, f: Any) -> Any:
        return [thing.times(), f(2), type(thing).__name__]

    @ray.remote
    def path() -> Any:
        import sys

        return any(os.path.exists(os.path.join(p, "kit.py")) for p in sys.path)

    return [ray.get(use.remote(Local(5), lambda x: x * factor)), ray.get(path.remote())]


@snippet("F0.24", "F0.25", cluster=None)
def odds_and_ends() -> Any:
    from ray import cloudpickle
    from ray.util import annotations

    @annotations.PublicAPI(stability="beta")
    def public() -> None:
        """It is public."""

    @annotations.DeveloperAPI
    def developer() -> None:
        """For developers."""

    @annotations.Deprecated(message="use another")
    def old() -> None:
        """Old."""

    @annotations.Deprecated(message="use another", warning=True)
    def older(n: int) -> int:
        return n

    @annotations.Deprecated(warning=True)
    class Oldest:
        def __init__(self, n: int) -> None:
            self.n = n

        @annotations.Deprecated(warning=True)
        def method(self) -> int:
            return self.n

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        called = [older(3), Oldest(4).n, Oldest(5).method(), older.__name__, Oldest.__name__]
    warned = [(one.category.__name__, "use another" in str(one.message)) for one in caught]

    return {
        "deprecated": plain([called, warned, all(one.filename == __file__ for one in caught)]),
        "cloudpickle": [
            cloudpickle.loads(cloudpickle.dumps(lambda x: x + 1))(1),
            hasattr(cloudpickle, "register_pickle_by_value"),
            hasattr(cloudpickle, "unregister_pickle_by_value"),
            hasattr(cloudpickle, "CloudPickler"),
            hasattr(cloudpickle, "dump"),
            hasattr(cloudpickle, "load"),
        ],
        "public": plain([public.__name__, "beta" in (public.__doc__ or "").lower()]),
        "developer": developer() is None,
        "old": outcome(old),
        "once": [ray.util.log_once("key"), ray.util.log_once("key"), ray.util.log_once("other")],
    }
