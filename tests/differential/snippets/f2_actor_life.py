"""F2: how actors begin, come back and end: hooks, restarts, leaving, being killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from kit import driver, outcome, snippet, until


def get(ref: Any, timeout: float = 30) -> Any:
    return ray.get(ref, timeout=timeout)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ended(pid: int) -> bool:
    return bool(until(lambda: not alive(pid), 20))


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@ray.remote
class Hooked:
    """Writes into a file of the folder which hooks run."""

    def __init__(self, where: str) -> None:
        import atexit

        self.where = where
        atexit.register(self.write, where, "atexit")

    @staticmethod
    def write(where: str, word: str) -> None:
        with (Path(where) / "hooks").open("a") as file:
            file.write(word + " ")

    def __del__(self) -> None:
        self.write(self.where, "del")

    def __ray_shutdown__(self) -> None:
        self.write(self.where, "shutdown")

    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def sys_exit(self) -> None:
        raise SystemExit(0)

    def kill_self(self) -> None:
        ray.kill(ray.get_runtime_context().current_actor)
        time.sleep(20)

    def crash(self) -> None:
        os._exit(1)


@snippet("F2.06", "F2.07", "F2.22", "F2.23", limit_s=180)
def hooks() -> Any:
    found: dict[str, Any] = {}

    def run(end: Any, after: float = 1.5) -> Any:
        with folder() as where:
            actor = Hooked.remote(str(where))
            pid = get(actor.pid.remote(), 60)
            said = end(actor)
            del actor
            gone = ended(pid)
            time.sleep(after if not any(where.iterdir()) else 0.3)  # for a hook that comes late
            hooks = where / "hooks"
            return [gone, hooks.read_text() if hooks.exists() else "", said]

    found["dropped"] = run(lambda a: None)
    found["killed"] = run(lambda a: ray.kill(a))
    found["exit_actor"] = run(lambda a: outcome(lambda: get(a.leave.remote())))
    found["terminate"] = run(lambda a: outcome(lambda: get(a.__ray_terminate__.remote())))
    found["sys.exit"] = run(lambda a: outcome(lambda: get(a.sys_exit.remote())))
    found["kills itself"] = run(lambda a: outcome(lambda: get(a.kill_self.remote()), "ray.kill"))
    found["crash"] = run(lambda a: outcome(lambda: get(a.crash.remote())))
    # Not compared: Ray runs all of its hooks, or atexit alone.
    found["#terminated by a signal"] = run(lambda a: os.kill(get(a.pid.remote()), signal.SIGTERM))
    return found


@snippet("F2.22", limit_s=120)
def leaving_otherwise() -> Any:
    @ray.remote
    class InInit:
        def __init__(self) -> None:
            ray.actor.exit_actor()

        def f(self) -> int:
            return 1

    @ray.remote
    class ExitsInInit:
        def __init__(self) -> None:
            raise SystemExit(3)

        def f(self) -> int:
            return 1

    @ray.remote(max_concurrency=2)
    class Threads:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def wait(self) -> None:
            threading.Event().wait(60)

        def pid(self) -> int:
            return os.getpid()

    @ray.remote
    class Async:
        async def leave(self) -> None:
            ray.actor.exit_actor()

        async def wait(self) -> None:
            await asyncio.sleep(60)

        def sync_leave(self) -> None:
            ray.actor.exit_actor()

        async def pid(self) -> int:
            return os.getpid()

        async def stream(self) -> Any:
            yield 1
            ray.actor.exit_actor()

    @ray.remote
    class Sync:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def slow(self) -> None:
            time.sleep(1)

        def caught(self) -> str:
            try:
                ray.actor.exit_actor()
            except Exception as error:
                return type(error).__name__
            return "nothing"

        def in_thread(self) -> Any:
            said = []

            def run() -> None:
                try:
                    ray.actor.exit_actor()
                except BaseException as error:
                    said.append([c.__name__ for c in type(error).__mro__][-3:])

            t = threading.Thread(target=run)
            t.start()
            t.join()
            return said

        def pid(self) -> int:
            return os.getpid()

        def stream(self) -> Any:
            yield 1
            ray.actor.exit_actor()

    found: dict[str, Any] = {
        "in init": outcome(lambda: get(InInit.remote().f.remote()), "exit"),
        "SystemExit in init": outcome(lambda: get(ExitsInInit.remote().f.remote()), "exit"),
    }
    t = Threads.remote()
    pid = get(t.pid.remote())
    waiting = t.wait.remote()
    found["threads"] = outcome(lambda: get(t.leave.remote()), "exit_actor")
    found["another thread"] = outcome(lambda: get(waiting))
    found["threads' end"] = ended(pid)
    a = Async.remote()
    pid = get(a.pid.remote())
    waiting = a.wait.remote()
    found["async"] = outcome(lambda: get(a.leave.remote()), "exit_actor")
    found["another call"] = outcome(lambda: get(waiting))
    found["async' end"] = ended(pid)
    b = Async.remote()
    found["sync in async"] = outcome(lambda: get(b.sync_leave.remote()), "exit_actor")
    s = Sync.remote()
    get(s.pid.remote())
    slow, leave = s.slow.remote(), s.leave.remote()
    queued = [s.pid.remote() for _ in range(3)]
    found["before"] = outcome(lambda: get(slow))
    found["leave"] = outcome(lambda: get(leave), "exit_actor")
    found["queued"] = [outcome(lambda r=r: get(r), "exit_actor") for r in queued]
    s = Sync.remote()
    found["caught"] = outcome(lambda: get(s.caught.remote()))
    found["restarted"] = _exit_with_restarts()
    s = Sync.remote()
    found["stream"] = [outcome(lambda r=r: get(r)) for r in s.stream.remote()]
    a = Async.remote()
    found["async stream"] = [outcome(lambda r=r: get(r)) for r in a.stream.remote()]
    return found


def _exit_with_restarts() -> Any:
    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class A:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def pid(self) -> int:
            return os.getpid()

    a = A.remote()
    get(a.pid.remote())
    return [
        outcome(lambda: get(a.leave.remote()), "exit_actor"),
        outcome(lambda: get(a.pid.remote()), "exit_actor"),
    ]


@snippet("F2.10", "F2.18", "F5.05", limit_s=180)
def beginnings() -> Any:
    """Constructors that hang, fail, fail later, are killed."""

    @ray.remote
    class Hangs:
        def __init__(self, mark: str) -> None:
            Path(mark).write_text(str(os.getpid()))
            time.sleep(600)

        def f(self) -> int:
            return 1

    @ray.remote
    class Fails:
        def __init__(self, error: Any) -> None:
            raise error

        def f(self) -> int:
            return 1

        def stream(self) -> Any:
            yield 1

    @ray.remote
    class FailsLater:
        def __init__(self, where: str) -> None:
            mark = Path(where) / "mark"
            if mark.exists():
                raise ValueError("not a second time")
            mark.touch()

        def f(self) -> int:
            return 1

        def crash(self) -> None:
            os._exit(1)

    @ray.remote
    class CrashesOnce:
        def __init__(self, where: str) -> None:
            mark = Path(where) / "crashed"
            if not mark.exists():
                mark.touch()
                os._exit(1)

        def f(self) -> int:
            return 1

    @ray.remote
    class AsyncFails:
        async def __init__(self) -> None:
            pass

        async def f(self) -> int:
            return 1

    class Custom(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a, b)
            self.b = b

    found: dict[str, Any] = {}
    with folder() as where:
        begun = time.monotonic()
        a = Hangs.remote(str(where / "pid"))
        found["asynchronous"] = time.monotonic() - begun < 5
        waiting = a.f.remote()
        until(lambda: (where / "pid").exists() and (where / "pid").read_text(), 60)
        found["hangs"] = outcome(lambda: get(waiting, 0.5))
        ray.kill(a)
        found["killed in init"] = outcome(lambda: get(waiting), "ray.kill")
        found["later call"] = outcome(lambda: get(a.f.remote()), "ray.kill")
        found["its end"] = ended(int((where / "pid").read_text()))
        early = Hangs.remote(str(where / "early"))
        ray.kill(early)
        found["killed at once"] = outcome(lambda: get(early.f.remote()))
        f = FailsLater.options(max_restarts=1, max_task_retries=1).remote(str(where))
        found["first"] = get(f.f.remote())
        f.crash.remote()
        found["fails later"] = outcome(
            lambda: get(f.f.remote()), "creation task", "not a second time"
        )
        c = CrashesOnce.options(max_restarts=1).remote(str(where))
        found["crashed in init, restarted"] = outcome(lambda: get(c.f.remote(), 60))
        (where / "crashed").unlink()
        c = CrashesOnce.remote(str(where))
        found["crashed in init"] = outcome(lambda: get(c.f.remote(), 60))
    bad = Fails.remote(Custom(1, 2))
    refs = [bad.f.remote() for _ in range(3)]
    found["each"] = [outcome(lambda r=r: get(r), "creation task", "Custom") for r in refs]

    def cause() -> Any:
        try:
            get(bad.f.remote())
        except ray.exceptions.ActorDiedError as error:
            return [error.actor_init_failed, type(error.__cause__).__name__, "Fails" in str(error)]
        return None

    found["cause"] = cause()
    found["stream"] = outcome(lambda: [get(r) for r in bad.stream.remote()], "creation task")
    found["wait"] = outcome(lambda: len(ray.wait([bad.f.remote()], timeout=10)[0]))
    found["restarts"] = outcome(
        lambda: get(Fails.options(max_restarts=3).remote(ValueError("x")).f.remote()),
        "creation task",
    )
    found["ready"] = outcome(
        lambda: get(Fails.remote(ValueError("x")).__ray_ready__.remote()), "creation task"
    )
    found["async init"] = outcome(lambda: get(AsyncFails.remote().f.remote()))
    ref = ray.remote(lambda: 1 / 0).remote()
    found["failed argument"] = outcome(lambda: get(Fails.remote(ref).f.remote()), "division")

    @ray.remote
    def make() -> Any:
        return Fails.remote(ValueError("made in a task"))

    found["from a task"] = outcome(lambda: get(get(make.remote()).f.remote()), "made in a task")
    return found


@snippet("F2.18", "F2.20", "F5.05", "F2.11", limit_s=240)
def restarts_and_calls() -> Any:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def add(self, x: Any) -> int:
            self.seen.append(x)
            return len(self.seen)

        def all(self) -> Any:
            return self.seen

    @ray.remote
    class Worker:
        def __init__(self, log: Any, where: str) -> None:
            self.log, self.where = log, where

        def step(self, i: int) -> int:
            ray.get(self.log.add.remote(i))
            return i

        def crash_once(self, i: int) -> int:
            ray.get(self.log.add.remote(i))
            mark = Path(self.where) / f"crashed{i}"
            if not mark.exists():
                mark.touch()
                os._exit(1)
            return i

        def stream(self, n: int) -> Any:
            for i in range(n):
                mark = Path(self.where) / "stream"
                if i == 3 and not mark.exists():
                    mark.touch()
                    os._exit(1)
                yield i

        def fails_twice(self, name: str) -> Any:
            mark = Path(self.where) / name
            with mark.open("a") as file:
                file.write("x")
            if mark.stat().st_size < 3:
                raise ValueError("again")
            return mark.stat().st_size

        def stream_fails(self, name: str) -> Any:
            mark = Path(self.where) / name
            with mark.open("a") as file:
                file.write("x")
            yield 1
            if mark.stat().st_size < 3:
                raise ValueError("again")
            yield mark.stat().st_size

        def count(self, name: str) -> int:
            return (Path(self.where) / name).stat().st_size

        def pid(self) -> int:
            return os.getpid()

        def sleep(self, s: float) -> None:
            time.sleep(s)

    found: dict[str, Any] = {}
    with folder() as where:
        log = Log.remote()
        w = Worker.options(max_restarts=2, max_task_retries=2).remote(log, str(where))
        refs = [w.step.remote(0), w.crash_once.remote(1), *(w.step.remote(i) for i in range(2, 8))]
        found["queued"] = outcome(lambda: get(refs, 60))
        seen = get(log.all.remote())
        # At least once each. Ray gives no order to what it sends again.
        found["seen"] = [sorted(set(seen)), seen.count(1) >= 2]
        found["stream"] = outcome(lambda: [get(r, 60) for r in w.stream.remote(6)])
        one = Worker.options(max_restarts=1, max_task_retries=0).remote(log, str(where))
        get(one.pid.remote())
        found["no retries"] = [
            outcome(
                lambda: get(one.crash_once.remote(50)), "unavailable", "may or may not", "executed"
            ),
            until(lambda: "returns" in outcome(lambda: get(one.pid.remote()))),
        ]
        two = Worker.options(max_restarts=0, max_task_retries=3).remote(log, str(where))
        get(two.pid.remote())
        found["retries, no restarts"] = outcome(lambda: get(two.crash_once.remote(60)))
        r = Worker.options(max_task_retries=5).remote(log, str(where))
        found["errors are not retried"] = [
            outcome(lambda: get(r.fails_twice.remote("a"))),
            get(r.count.remote("a")),
        ]
        found["asked for"] = outcome(
            lambda: get(r.fails_twice.options(retry_exceptions=True).remote("b"))
        )
        found["another class"] = [
            outcome(lambda: get(r.fails_twice.options(retry_exceptions=[KeyError]).remote("c"))),
            get(r.count.remote("c")),
        ]
        found["too few"] = [
            outcome(
                lambda: get(
                    r.fails_twice.options(retry_exceptions=True, max_task_retries=1).remote("d")
                )
            ),
            get(r.count.remote("d")),
        ]
        found["stream of errors"] = outcome(
            lambda: [get(x) for x in r.stream_fails.options(retry_exceptions=True).remote("e")]
        )
        # Killed from outside while calls wait.
        k = Worker.options(max_restarts=1, max_task_retries=-1).remote(log, str(where))
        pid = get(k.pid.remote())
        calls = [k.sleep.remote(0.5), k.pid.remote(), k.pid.remote()]
        os.kill(pid, signal.SIGKILL)
        late = outcome(lambda: get(calls, 60))
        found["killed outside"] = "returns" in late
        # Restarted by ray.kill, with calls that were waiting.
        g = Worker.options(max_restarts=1, max_task_retries=-1).remote(log, str(where))
        get(g.pid.remote())
        waits = g.sleep.remote(0.2)
        ray.kill(g, no_restart=False)
        found["kill, restart"] = outcome(lambda: get([waits, g.step.remote(99)], 60))
        get(g.pid.remote())
        ray.kill(g)
        found["kill for good"] = outcome(lambda: get(g.pid.remote()), "ray.kill")
    return found


@snippet("F2.06", "F5.01", "F5.08", limit_s=120)
def children() -> Any:
    """Processes that actors start: forks, and programs."""

    @ray.remote
    class Parent:
        def __init__(self) -> None:
            self.n = 5

        def program(self) -> int:
            return subprocess.Popen(["sleep", "1000"]).pid

        def run(self) -> Any:
            done = subprocess.run(["echo", "from a child"], capture_output=True, text=True)
            return [done.returncode, done.stdout]

        def fork(self) -> Any:
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.write(write, str(self.n * 2).encode())
                os._exit(0)
            os.close(write)
            got = os.read(read, 100)
            return [os.waitpid(pid, 0)[1], int(got)]

        def multi(self) -> Any:
            import multiprocessing

            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(abs, [-1, -2, -3])

        def spawn(self) -> Any:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(lambda x: ray.get(ray.put(x)), [1, 2]))

        def pid(self) -> int:
            return os.getpid()

    p = Parent.remote()
    return {
        "run": get(p.run.remote()),
        "fork": get(p.fork.remote()),
        "pool": outcome(lambda: get(p.multi.remote())),
        "threads": get(p.spawn.remote()),
        "then": get(p.fork.remote()) and get(p.run.remote())[0],
    }


@snippet("F2.16", "F2.17", "F2.27", "F5.08", cluster=None, limit_s=150)
def across_drivers() -> Any:
    """Detached and named actors, seen by drivers that come one after the other."""
    return driver(
        """
        import os, subprocess, sys, textwrap, time, ray
        context = ray.init(num_cpus=4, include_dashboard=False, namespace="first")
        address = context.address_info["address"]

        def run(code, wait=True):
            head = f'''
        import os, sys, time, signal, ray
        ray.init("{address}", log_to_driver=False, namespace=NAMESPACE)
        @ray.remote
        class A:
            def __init__(self): self.n = 0
            def up(self):
                self.n += 1
                return self.n
            def pid(self): return os.getpid()
        '''
            text = textwrap.dedent(head).replace("NAMESPACE", "'first'") + textwrap.dedent(code)
            process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
            out = process.communicate(timeout=60)[0] if wait else None
            for line in (out or "").splitlines():
                if line.startswith("> "):
                    print(line)
            return process

        run('''
        a = A.options(name="stays", lifetime="detached").remote()
        b = A.options(name="goes").remote()
        c = A.options(name="far", namespace="other", lifetime="detached").remote()
        print("> one", ray.get([a.up.remote(), b.up.remote(), c.up.remote()]))
        ''')
        run('''
        a = ray.get_actor("stays")
        print("> two", ray.get(a.up.remote()), sorted(ray.util.list_named_actors()))
        print("> far", ray.get(ray.get_actor("far", namespace="other").up.remote()))
        for name, namespace in (("goes", None), ("far", None), ("stays", "other")):
            try:
                ray.get_actor(name, namespace)
                print("> found", name)
            except ValueError:
                print("> no", name)
        print("> all", sorted((e["namespace"], e["name"])
                              for e in ray.util.list_named_actors(all_namespaces=True)))
        try:
            A.options(name="stays").remote()
            print("> made")
        except ray.exceptions.ActorAlreadyExistsError:
            print("> exists")
        again = A.options(name="stays", get_if_exists=True, lifetime="detached").remote()
        print("> again", ray.get(again.up.remote()))
        ray.kill(a)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                ray.get_actor("stays")
            except ValueError:
                break
        fresh = A.options(name="stays", lifetime="detached").remote()
        print("> fresh", ray.get(fresh.up.remote()))
        ''')
        # A driver that dies by kill -9 takes its own actors, not the detached ones.
        run('''
        b = A.options(name="mine").remote()
        c = A.options(name="from a task", lifetime="detached").remote()
        ray.get([b.up.remote(), c.up.remote()])
        os.kill(os.getpid(), signal.SIGKILL)
        ''')
        deadline = time.monotonic() + 30
        while "mine" in ray.util.list_named_actors() and time.monotonic() < deadline:
            time.sleep(0.1)
        print("> after kill -9", sorted(ray.util.list_named_actors()))
        print("> still", ray.get(ray.get_actor("from a task").up.remote()))
        free = ray.cluster_resources()["CPU"]
        while ray.available_resources().get("CPU") != free and time.monotonic() < deadline:
            time.sleep(0.1)
        print("> CPUs", ray.available_resources().get("CPU"))
        """,
        timeout=140,
    )
