"""F0: every clause of starting, finding and leaving a cluster."""

from __future__ import annotations

import inspect
import tempfile
from typing import Any

import ray
from kit import driver, outcome, snippet


def _short_folder() -> str:
    return tempfile.mkdtemp(prefix="d", dir="/tmp")


@snippet("F0.01", cluster=None)
def lazy_modules() -> Any:
    return driver(
        """
        import sys, ray
        for name in ("train", "tune", "serve", "rllib"):
            print(">", name, hasattr(ray, name))
        for name in ("data",):
            print(">", name, f"ray.{name}" in sys.modules, hasattr(ray, name))
        print(">", ray.util.get_node_ip_address().count("."))
        print(">", ray.is_initialized())
        """
    )


@snippet("F0.02", cluster=None)
def signatures() -> Any:
    def of(function: Any) -> Any:
        return {
            p.name: [str(p.kind), None if p.default is p.empty else str(p.default)]
            for p in inspect.signature(function).parameters.values()
            if not p.name.startswith("_")
        }

    return {
        name: of(getattr(ray, name))
        for name in ("shutdown", "get", "put", "wait", "cancel", "kill", "get_actor", "nodes",
                     "timeline", "is_initialized", "cluster_resources", "available_resources",
                     "get_gpu_ids", "remote", "method")
    } | {"init": of(ray.init)}  # fmt: skip


@snippet("F0.03", cluster=None)
def twice() -> Any:
    return driver(
        """
        import logging, ray
        first = ray.init(num_cpus=1, include_dashboard=False)
        again = ray.init(num_cpus=7, ignore_reinit_error=True)
        print(">", type(again).__name__, ray.cluster_resources()["CPU"])
        print(">", again.address_info["session_dir"] == first.address_info["session_dir"])
        """,
        show=["Calling ray.init() again"],
    )


@snippet("F0.04", "F15.01", cluster=None, limit_s=200)
def finding() -> Any:
    none = driver(
        """
        import ray
        for address in ("auto", "AUTO", "", "nonsense", "host:port", "1.2.3.4:x"):
            try:
                ray.init(address)
                print(">", repr(address), "connected", ray.is_initialized())
            except BaseException as error:
                print(">", repr(address), type(error).__name__, isinstance(error, ConnectionError))
            ray.shutdown()
        """,
        env={"RAY_TMPDIR": _short_folder()},
        timeout=100,
    )
    there = driver(
        """
        import os, subprocess, sys, ray
        context = ray.init("local", num_cpus=1, include_dashboard=False)
        mine = context.address_info["address"]
        code = '''
        import os, sys, ray
        address = {"none": None}.get(sys.argv[1], sys.argv[1])
        try:
            context = ray.init(address, include_dashboard=False)
            print("same" if context.address_info["address"] == os.environ["MINE"] else "another")
        except BaseException as error:
            print(type(error).__name__)
        '''
        import textwrap
        def ask(address, **env):
            out = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(code), address], stdout=subprocess.PIPE,
                env={**os.environ, "MINE": mine, **env}, text=True)
            return out.stdout.strip()
        print("> by address", ask(mine))
        print("> local", ask("local"))
        print("> local, by variable", ask("none", RAY_ADDRESS="local"))
        print("> by variable", ask("none", RAY_ADDRESS=mine))
        print("> auto, by variable", ask("auto", RAY_ADDRESS=mine))
        print("> argument before variable", ask("local", RAY_ADDRESS=mine))
        print("> none, a local cluster of another driver", ask("none"))
        print("> empty variable", ask("none", RAY_ADDRESS=""))
        """,
        env={"RAY_TMPDIR": _short_folder()},
        timeout=150,
    )
    return {"none": none, "there": there}


@snippet("F0.05", cluster=None)
def refused_when_connecting() -> Any:
    return driver(
        """
        import os, subprocess, sys, textwrap, ray
        context = ray.init("local", num_cpus=1, include_dashboard=False)
        code = '''
        import sys, ray
        for name, value in dict(
            num_cpus=1, num_gpus=1, resources={"X": 1}, labels={"a": "b"},
            object_store_memory=100_000_000, _system_config={"a": 1}, num_cpus_0=0,
        ).items():
            try:
                ray.init(sys.argv[1], **{name.removesuffix("_0"): value})
                print("connected", name)
            except Exception as error:
                words = "When connecting to an existing cluster", "must not be provided", name
                print(name, type(error).__name__, *(w in str(error) for w in words))
            ray.shutdown()
        try:
            ray.init(sys.argv[1], num_cpus=1, num_gpus=1)
        except Exception as error:
            print(type(error).__name__, "num_cpus" in str(error), "num_gpus" in str(error))
        ray.init(sys.argv[1], resources=None, namespace="x")
        print("connected")
        '''
        out = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), context.address_info["address"]],
            stdout=subprocess.PIPE, text=True)
        for line in out.stdout.splitlines():
            print(">", line)
        """
    )


@snippet("F0.06", "F4.18", cluster=None, limit_s=150)
def store_of_a_size() -> Any:
    own = """
        import os, ray
        ray.init("local", num_cpus=1, include_dashboard=False, object_store_memory=200_000_000)
        print(">", int(ray.cluster_resources()["object_store_memory"]))
        print(">", int(ray.available_resources()["object_store_memory"]))
        print(">", int(ray.nodes()[0]["Resources"]["object_store_memory"]))
        import numpy as np
        refs = [ray.put(np.zeros(6_000_000)) for _ in range(8)]  # twice as much as it holds
        print(">", all(ray.get(ref).shape == (6_000_000,) for ref in refs))
        """
    default = """
        import os, ray
        ray.init("local", num_cpus=1, include_dashboard=False)
        size = ray.cluster_resources()["object_store_memory"]
        total = ray.cluster_resources()["memory"] + size
        shm = os.statvfs("/dev/shm")
        free = shm.f_bsize * shm.f_bavail
        available = dict(line.split(":") for line in open("/proc/meminfo"))["MemAvailable"]
        bytes_available = int(available.split()[0]) * 1024
        expected = min(0.3 * bytes_available, 0.95 * free, 200e9)
        print("> within a third of it", 0.66 < size / expected < 1.5)
        """
    capped = """
        import ray
        ray.init("local", num_cpus=1, include_dashboard=False)
        print(">", int(ray.cluster_resources()["object_store_memory"]) == 100_000_000)
        """
    return {
        "own": driver(own, timeout=70),
        "default": driver(default),
        "capped": driver(capped, env={"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "100000000"}),
    }


@snippet("F0.07", "F7.01", "F7.02", "F7.03", "F7.08", cluster=None, limit_s=200)
def environment_of_the_job() -> Any:
    return driver(
        """
        import os, sys, ray
        for folder, value in (("work", "of work"), ("mods/of_the_job", "of mods"),
                              ("more/of_the_task", "of more"), ("work2", "of work2")):
            os.makedirs(folder)
            name = "beside.py" if folder.startswith("work") else "__init__.py"
            open(os.path.join(folder, name), "w").write(f"VALUE = {value!r}")
            open(os.path.join(folder, "data.txt"), "w").write(value)
        here = os.getcwd()
        ray.init("local", num_cpus=4, include_dashboard=False, runtime_env={
            "env_vars": {"A": "job", "B": "job"},
            "working_dir": here + "/work",
            "py_modules": [here + "/mods/of_the_job"],
        })

        def look():
            import importlib
            def value(name):
                try:
                    return importlib.import_module(name).VALUE
                except ImportError:
                    return None
            try:
                data = open("data.txt").read()
            except OSError:
                data = None
            return (os.environ.get("A"), os.environ.get("B"), os.environ.get("C"), data,
                    value("beside"), value("of_the_job"), value("of_the_task"))

        task = ray.remote(look)

        @ray.remote
        class Actor:
            def look(self):
                return look()
            def nested(self):
                return ray.get(task.remote())

        @ray.remote
        def nested(**options):
            return ray.get((task.options(**options) if options else task).remote())

        def show(name, ref):
            try:
                print(">", name, ray.get(ref() if callable(ref) else ref, timeout=60))
            except Exception as error:
                print(">", name, type(error).__name__)

        variables = {"env_vars": {"B": "own", "C": "own"}}
        show("task", task.remote())
        show("actor", Actor.remote().look.remote())
        show("nested in a task", nested.remote())
        show("nested in an actor", Actor.remote().nested.remote())
        show("own variables", task.options(runtime_env=variables).remote())
        show("actor's own", Actor.options(runtime_env=variables).remote().look.remote())
        show("nested own", nested.remote(runtime_env=variables))
        show("child of own", nested.options(runtime_env=variables).remote())
        show("child of own with own", nested.options(runtime_env=variables).remote(
            runtime_env={"env_vars": {"C": "child"}}))
        show("own modules", lambda: task.options(
            runtime_env={"py_modules": [here + "/more/of_the_task"]}).remote())
        show("empty", task.options(runtime_env={}).remote())
        show("none", task.options(runtime_env=None).remote())
        show("empty variables", task.options(runtime_env={"env_vars": {}}).remote())
        context = ray.get_runtime_context()
        print(">", sorted(context.runtime_env), dict(context.runtime_env["env_vars"]))
        print("> driver", os.environ.get("A"), os.getcwd() == here)
        """,
        timeout=190,
    )


@snippet("F0.08", cluster=None, limit_s=120)
def leaving() -> Any:
    return driver(
        """
        import os, subprocess, sys, textwrap, time, ray
        context = ray.init("local", num_cpus=1, include_dashboard=False)
        code = '''
        import sys, ray
        ray.init(sys.argv[1])
        @ray.remote
        def f(): return 1
        print(ray.get(f.remote()))
        ray.shutdown()
        print(ray.is_initialized())
        ray.shutdown(wait_for_processes=True)
        ray.init(sys.argv[1])
        print(ray.get(f.remote()))
        '''
        out = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), context.address_info["address"]],
            stdout=subprocess.PIPE, text=True)
        print("> other driver", out.stdout.split())
        print("> here still", ray.get(ray.put(1)))
        @ray.remote
        def pid(): return os.getpid()
        worker = ray.get(pid.remote())
        ray.shutdown()
        def alive():
            try:
                os.kill(worker, 0)
                return open(f"/proc/{worker}/stat").read().split()[2] not in "ZX"
            except OSError:
                return False
        end = time.monotonic() + 20
        while alive() and time.monotonic() < end:
            time.sleep(0.1)
        print("> worker gone", not alive())
        try:
            ray.shutdown(True)
        except TypeError as error:
            print("> positional", type(error).__name__)
        """,
        timeout=110,
    )


@snippet("F0.09", cluster=None, limit_s=200)
def each_begins_by_itself() -> Any:
    calls = {
        "put": "ray.put(1)",
        "get": "ray.get([])",
        "wait": "ray.wait([ray.put(1)])",
        "kill": "ray.kill(3)",
        "cancel": "ray.cancel(3)",
        "get_actor": "ray.get_actor('x')",
        "get_gpu_ids": "ray.get_gpu_ids()",
        "context": "ray.get_runtime_context()",
        "remote": "ray.remote(lambda: 1).remote()",
        "actor": "ray.remote(type('A', (), {})).remote()",
        "nodes": "ray.nodes()",
        "timeline": "ray.timeline()",
        "resources": "ray.cluster_resources()",
        "available": "ray.available_resources()",
        "is_initialized": "ray.is_initialized()",
    }
    return driver(
        f"""
        import ray
        for name, call in {calls!r}.items():
            try:
                eval(call)
                result = "fine"
            except Exception as error:
                result = type(error).__name__ + " " + str("has not been started" in str(error))
            print(">", name, result, ray.is_initialized())
            ray.shutdown()
        """,
        env={"RAY_TMPDIR": _short_folder()},
        timeout=190,
    )


@snippet("F0.10", cluster=None)
def contexts() -> Any:
    return driver(
        """
        import sys, ray
        context = ray.init(num_cpus=1, include_dashboard=False)
        print(">", repr(context.dashboard_url), context.python_version == sys.version.split()[0])
        print(">", context.ray_version == ray.__version__, context.ray_commit == ray.__commit__)
        print(">", sorted(context.address_info), type(context).__mro__[-2].__name__)
        print(">", context == 3, "address" in context.address_info)
        for expression in ("context['address']", "list(context)", "len(context)",
                           "context.get('address')", "context.nothing", "'address' in context"):
            try:
                value = eval(expression)
                print(">", expression, type(value).__name__)
            except Exception as error:
                print(">", expression, type(error).__name__)
        context.disconnect()
        print(">", ray.is_initialized())
        context.disconnect()
        with ray.init(num_cpus=1, include_dashboard=False) as inner:
            print(">", type(inner).__name__, ray.is_initialized())
        print(">", ray.is_initialized())
        try:
            with ray.init(num_cpus=1, include_dashboard=False):
                raise KeyError("out")
        except KeyError:
            print(">", ray.is_initialized())
        """
    )


@snippet("F0.12", cluster=None)
def removed() -> Any:
    return [
        outcome(lambda: ray.init(local_mode=True), "`local_mode` is no longer supported"),
        outcome(lambda: ray.init(storage="/x"), "storage", "removed"),
        outcome(lambda: ray.init(redis_address="x"), "unknown keyword argument", "redis_address"),
        outcome(lambda: ray.init(a=1, b=2), "unknown keyword argument", "'a', 'b'"),
        ray.is_initialized(),
    ]


@snippet("F0.13", cluster=None, limit_s=120)
def spaces_of_jobs() -> Any:
    return driver(
        """
        import os, subprocess, sys, textwrap, ray
        context = ray.init("local", num_cpus=4, include_dashboard=False)
        mine = ray.get_runtime_context().namespace
        print("> anonymous", len(mine), mine.count("-"))
        @ray.remote
        class A:
            def space(self): return ray.get_runtime_context().namespace
        a = A.options(name="here", lifetime="detached").remote()
        print("> of an actor", ray.get(a.space.remote()) == mine)
        @ray.remote
        def space(): return ray.get_runtime_context().namespace
        print("> of a task", ray.get(space.remote()) == mine)
        there = A.options(name="there", namespace="chosen").remote()
        ray.get(there.space.remote())
        code = '''
        import sys, ray
        ray.init(sys.argv[1], namespace=sys.argv[2] or None)
        for name, space in (("here", None), ("there", None), ("there", "chosen")):
            try:
                ray.get_actor(name, namespace=space)
                print(name, space, "found")
            except ValueError as error:
                print(name, space, "ValueError", name in str(error))
        print(ray.get_runtime_context().namespace == sys.argv[2])
        '''
        for name in ("", "chosen"):
            out = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(code), context.address_info["address"], name],
                stdout=subprocess.PIPE, text=True)
            for line in out.stdout.splitlines():
                print(">", repr(name), line)
        """,
        timeout=110,
    )


@snippet("F0.14", cluster=None)
def more_ids() -> Any:
    import copy

    found = {}
    for name in ("ClusterID", "WorkerID", "NodeID", "TaskID", "ActorID", "JobID", "ObjectRef"):
        cls = getattr(ray, name, None)
        if cls is None:
            found[name] = None
            continue
        one = cls(b"\x05" * cls.size())
        found[name] = {
            "copy": outcome(lambda o=one: copy.copy(o) == o),
            "deepcopy": outcome(lambda o=one: copy.deepcopy(o) == o),
            "unequal": one != cls(b"\x06" * cls.size()),
            "key": {one: 1}[cls(b"\x05" * cls.size())],
            "nil": cls.nil().binary() == b"\xff" * cls.size(),
            "wrong hex": outcome(lambda c=cls: c.from_hex("zz")),
            "bytearray": outcome(lambda c=cls: c(bytearray(c.size())).is_nil()),
            "of others": outcome(lambda o=one: o == "x"),
        }
    return found


@snippet("F0.14")
def relations_of_ids() -> Any:
    @ray.remote
    def me() -> Any:
        context = ray.get_runtime_context()
        return (
            context.get_task_id(),
            context.get_job_id(),
            context.get_worker_id(),
            context.get_node_id(),
            context.get_actor_id(),
        )

    ref = me.remote()
    task, job, worker, node, actor = ray.get(ref)
    put = ray.put(1)
    return {
        "task of the ref": ref.task_id().hex() == task,
        "type": type(ref.task_id()).__name__,
        "job of the ref": outcome(lambda: ref.job_id().hex() == job),
        "lengths": [len(x) for x in (task, job, worker, node)],
        "actor": actor,
        "repr": repr(ref) == f"ObjectRef({ref.hex()})",
        "str": str(put) == f"ObjectRef({put.hex()})",
        "same again": ray.ObjectRef(ref.binary()) == ref,
        "call site": type(ref.call_site()).__name__,
        "future": type(ref.future()).__name__,
        "value": ref.future().result(timeout=20)[1] == job,
    }
