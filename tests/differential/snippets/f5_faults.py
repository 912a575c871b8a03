"""F5: crashes, memory, drivers that end."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import ray
from kit import driver, outcome, snippet


@snippet("F5.01", "F5.04")
def crashes() -> Any:
    @ray.remote(max_retries=0)
    def end(how: str) -> None:
        if how == "exit":
            os._exit(3)
        if how == "sys":
            raise SystemExit(4)
        if how == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote
    class A:
        def end(self) -> None:
            os._exit(3)

        def leave(self) -> None:
            raise SystemExit(0)

        def f(self) -> int:
            return 1

    a, b = A.remote(), A.remote()
    first = outcome(lambda: ray.get(a.end.remote(), timeout=30))
    return {
        how: outcome(lambda h=how: ray.get(end.remote(h), timeout=30))
        for how in ("exit", "sys", "segv", "kill")
    } | {
        "actor": [first, outcome(lambda: ray.get(a.f.remote(), timeout=30))],
        "actor leaves": [
            outcome(lambda: ray.get(b.leave.remote(), timeout=30)),
            outcome(lambda: ray.get(b.f.remote(), timeout=30)),
        ],
    }


@snippet("F5.08", "F0.08", cluster=None)
def driver_ends() -> Any:
    return driver(
        """
        import os, subprocess, sys, time, ray
        context = ray.init(num_cpus=2, include_dashboard=False)
        code = f'''
        import os, ray
        ray.init("{context.address_info["address"]}", log_to_driver=False)
        @ray.remote
        class A:
            def pid(self): return os.getpid()
        @ray.remote
        def pid():
            return os.getpid()
        a = A.options(name="kept", lifetime="detached", namespace="n").remote()
        b = A.options(name="lost", namespace="n").remote()
        print(ray.get(a.pid.remote()), ray.get(b.pid.remote()))
        '''
        code = "\\n".join(line.strip(" ") if not line.startswith("            ") else line[8:]
                          for line in code.splitlines())
        import textwrap
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True,
                              capture_output=True)
        print(">", done.returncode)
        if done.returncode:
            print(done.stderr)
        kept, lost = map(int, done.stdout.split()[-2:])

        def alive(pid):
            try:
                return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                return False

        deadline = time.monotonic() + 20
        while alive(lost) and time.monotonic() < deadline:
            time.sleep(0.1)
        print(">", alive(kept), alive(lost))
        print(">", ray.get(ray.get_actor("kept", namespace="n").pid.remote()) == kept)
        try:
            ray.get_actor("lost", namespace="n")
        except ValueError:
            print("> no name")
        ray.shutdown()
        deadline = time.monotonic() + 20
        while alive(kept) and time.monotonic() < deadline:
            time.sleep(0.1)
        print(">", alive(kept))
        """,
        timeout=80,
    )


@snippet("F5.09", cluster=None)
def signals() -> Any:
    source = """
        import atexit, os, signal, threading, time, ray
        atexit.register(lambda: print("> at exit"))
        ray.init(num_cpus=1, include_dashboard=False)
        ref = ray.remote(lambda: time.sleep(60)).remote()
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.{name})).start()
        begun = time.monotonic()
        try:
            ray.get(ref)
        finally:
            print(">", time.monotonic() - begun < 20)
        """
    return {name: driver(source.format(name=name)) for name in ("SIGTERM", "SIGINT")}


@snippet("F5.03", "F3.03")
def owners() -> Any:
    @ray.remote
    def make() -> Any:
        return [ray.put("inner")]

    @ray.remote
    class Holder:
        def put(self) -> Any:
            return [ray.put("held")]

    holder = Holder.remote()
    inner = ray.get(holder.put.remote())[0]
    before = ray.get(inner)
    ray.kill(holder)
    time.sleep(1)
    return before, ray.get(ray.get(make.remote())[0])


@snippet("F5.07", "F15.09", cluster=None)
def no_memory() -> Any:
    return driver(
        """
        import ray
        ray.init(num_cpus=1, include_dashboard=False)
        @ray.remote(max_retries=0)
        def greedy():
            held = []
            for _ in range(200):
                held.append(bytearray(16 << 20))
            return len(held)
        try:
            print(">", ray.get(greedy.remote(), timeout=40))
        except Exception as error:
            print(">", type(error).__name__)
        """,
        env={
            "RAY_memory_usage_threshold": "0.01",
            "RAY_memory_monitor_refresh_ms": "100",
            "RAY_task_oom_retries": "0",
        },
    )


@snippet("F5.12", "F5.13", cluster=None)
def rare_names() -> Any:
    error = ray.exceptions.StreamingGeneratorReplayInconsistentError
    return [c.__name__ for c in error.__mro__ if not c.__name__.startswith("_")]


@snippet("F5.04", "F15.09", cluster=None)
def retries_by_variable() -> Any:
    return driver(
        """
        import os, tempfile, ray
        ray.init(num_cpus=1, include_dashboard=False)
        path = tempfile.mktemp()
        @ray.remote
        def crash():
            with open(path, "a") as file:
                file.write("x")
            os._exit(1)
        try:
            ray.get(crash.remote(), timeout=60)
        except Exception as error:
            print()  # the line before it may be somebody else's
            print(">", type(error).__name__, len(open(path).read()))
        """,
        env={"RAY_TASK_MAX_RETRIES": "1"},
    )
