"""Benchmark rows over the public `import ray` API; see README.md.

The parent never imports ray: each group of rows runs in a forked child, so a hang or a crash costs
one row, and whatever the child's ray.init() started is killed afterwards.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time

BUDGET = 60  # seconds a row may take, set-up included
OWN_INIT = ("life", "idle", "disk")  # groups that call ray.init themselves, or never
FRESH = (*OWN_INIT, "drain", "actors40", "put800")  # groups with a new process for each sample
ROWS, now = [], time.perf_counter


class Row:
    """Rows 'name|unit' of a group. build() returns the call to repeat (mult None: the figures)."""

    def __init__(self, group, labels, mult, build):
        self.group, self.mult, self.build = group, mult, build
        self.units = dict((label + "|1/s").split("|")[:2] for label in labels.split(", "))
        ROWS.append(self)

    def sample(self):
        if self.mult is None:
            return {name: [value] for name, value in zip(self.units, self.build(), strict=True)}
        ((name, unit),) = self.units.items()
        began, fn, out = now(), self.build(), []
        window(fn, 0.5)  # warm up
        while len(out) < ARGS.repeat and (not out or now() - began < BUDGET / 2):
            rate = window(fn, ARGS.seconds)
            out.append(1 / rate if unit == "s" else rate * self.mult)
        return {name: out}


def window(fn, seconds):
    """Calls per second of fn over at least `seconds`, at least one call."""
    n, began = 0, now()
    while not n or now() - began < seconds:
        fn()
        n += 1
    return n / (now() - began)


def init():
    """Import ray and start it; returns the seconds of both, of the ray.init that was accepted."""
    global ray
    began = now()
    import ray

    imported = now() - began
    options = dict(
        address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    while True:
        began = now()
        try:
            ray.init(num_cpus=ARGS.num_cpus, **options)
            return imported, now() - began
        except (TypeError, ValueError, NotImplementedError) as e:
            del options[next(k for k in options if k in str(e))]  # go on without what was refused


# ---- what runs remotely, and the shapes of a call ----
def small(x=None):
    return b"ok"


class Server:
    def __init__(self, body=None):
        self.body = body

    def small(self, x=None):
        return b"ok"

    def run(self):
        self.body()


class AsyncServer:
    async def small(self, x=None):
        return b"ok"


def remote(thing, **options):
    return ray.remote(**options)(thing) if options else ray.remote(thing)


def task(fn=small, **options):
    f = remote(fn, **options)
    return lambda *x: f.remote(*x)


def actor(cls, **options):
    a = remote(cls, **options).remote()
    return lambda *x: a.small.remote(*x)


def sync(start, *args):
    return lambda: ray.get(start(*args))


def batch(*starts, n=1000):
    return lambda: ray.get([start() for start in starts for _ in range(n)])


def batch_arg(start):
    return lambda: ray.get([start(i) for i in range(1000)])


def batch_ref(*starts):
    return lambda: ray.get(
        [start(x) for x in [ray.put(0)] for start in starts for _ in range(1000)]
    )


def puts(n):
    return [ray.put(i) for i in range(n)]


def put_again(value, n):
    return lambda: [None for _ in range(n) if ray.put(value)]  # each reference is dropped at once


def clients(count, body):
    them = [remote(Server).remote(body) for _ in range(count)]
    return lambda: ray.get([c.run.remote() for c in them])


def stream(n):
    def items():
        for i in range(n):
            yield i

    start = task(items, num_returns="streaming")
    return lambda: [ray.get(ref) for ref in start()]


def wait_all(start):
    def fn():
        left = [start() for _ in range(1000)]
        while left:
            _, left = ray.wait(left)

    return fn


def placement_groups(n):
    from ray.util.placement_group import placement_group, remove_placement_group

    def fn():
        groups = [placement_group([{"CPU": 0.001}]) for _ in range(n)]
        assert all([g.wait(timeout_seconds=30) for g in groups])
        for g in groups:
            remove_placement_group(g)

    return fn


def ones(mb):
    import numpy

    return numpy.ones(mb * 125_000, dtype=numpy.int64)  # real pages, not the kernel's one zero page


# ---- figures taken once in a process, in the order of their row's names ----
def life():
    steps = lambda: ray.get(task()()), lambda: ray.get(actor(Server)()), lambda: ray.shutdown()
    return *init(), *(1 / window(step, 0) for step in steps)


def idle():
    """What init() started, 5 s later; a daemon that left the tree has become our parent's child."""
    init()
    time.sleep(5)
    pids = [p for p in descendants(os.getppid()) if p != os.getpid()]
    before, began = sum(map(cpu_seconds, pids)), now()
    time.sleep(5)
    cpu = 100 * (sum(map(cpu_seconds, pids)) - before) / (now() - began)
    rss, pss = [sum(memory_mb(p, field) for p in pids) for field in ("Rss:", "Pss:")]
    return len(pids), rss, pss, cpu, memory_mb(os.getpid(), "Rss:")


def disk():
    import importlib.metadata as md
    import importlib.util

    top = os.path.dirname(importlib.util.find_spec("ray").origin)
    files = [os.path.join(d, f) for d, _, names in os.walk(top) for f in names]
    files += [
        f.locate()
        for d in set(md.packages_distributions().get("ray", ()))
        for f in md.files(d) or ()
    ]
    return (
        sum(map(os.path.getsize, filter(os.path.isfile, set(map(os.path.realpath, files))))) / 1e6,
    )


def drain(count=100_000):
    start, done = task(lambda: None), 0
    batch(start, n=100)()
    began = now()
    refs = [start() for _ in range(count)]
    submitted = now() - began
    while (
        done < len(refs) and now() - began < BUDGET - 8
    ):  # late: the rate of what was done by then
        ray.get(refs[done : done + 2000])
        done += 2000
    return len(refs) / submitted, done / (now() - began)


def actors40():
    began = now()
    them = [remote(Server, num_cpus=0).remote() for _ in range(40)]
    ray.get([a.small.remote() for a in them])
    created = now()
    for a in them:
        ray.kill(a)
    while them:  # an actor is gone once a call on it fails
        try:
            ray.get(them[-1].small.remote(), timeout=30)
        except ray.exceptions.RayActorError:
            them.pop()
    return 40 / (created - began), 40 / (now() - created)


def put800():
    array = ones(800)
    first, _, steady = [0.8 * window(lambda: ray.put(array), s) for s in (0, 1, ARGS.seconds)]
    ref = ray.put(array)
    assert ray.get(ref)[-1] == 1
    return first, steady, 1e6 / window(lambda: ray.get(ref), 1)


# ---- the rows: group, name|unit, how many units a call is worth (None: figures), builder ----
Row("tasks", "tasks sync", 1, lambda: sync(task()))
Row("tasks", "tasks async", 1000, lambda: batch(task()))
Row("tasks", "tasks 1 small arg async", 1000, lambda: batch_arg(task()))
Row("tasks", "multi client tasks async", 4000, lambda: clients(4, batch(task())))
Row("tasks", "nested fan-out 4x200", 800, lambda: batch(task(batch(task(), n=200)), n=4))
Row("tasks", "streaming generator items", 1000, lambda: stream(1000))
Row("tasks", "wait 1k refs", 1, lambda: wait_all(task()))
Row("tasks", "task with 3k returns|s", 1, lambda: sync(task(lambda: range(3000), num_returns=3000)))
Row("tasks", "task with 10k object args|s", 1, lambda: sync(task(lambda *v: len(v)), *puts(10_000)))
Row("actors", "1:1 actor sync", 1, lambda: sync(actor(Server)))
Row("actors", "1:1 actor async", 1000, lambda: batch(actor(Server)))
Row("actors", "1:1 actor concurrent", 1000, lambda: batch(actor(Server, max_concurrency=16)))
Row("actors", "1:n actor async", 2000, lambda: clients(1, batch(actor(Server), actor(Server))))
Row("actors", "n:n actor async", 4000, lambda: clients(2, batch(actor(Server), actor(Server))))
Row(
    "actors",
    "n:n actor with arg async",
    4000,
    lambda: clients(2, batch_ref(actor(Server), actor(Server))),
)
Row("actors", "1:1 async-actor sync", 1, lambda: sync(actor(AsyncServer)))
Row("actors", "1:1 async-actor async", 1000, lambda: batch(actor(AsyncServer)))
Row("actors", "1:1 async-actor with args async", 1000, lambda: batch_arg(actor(AsyncServer)))
Row("actors", "placement group create+remove", 50, lambda: placement_groups(50))
Row("objects", "put small", 1, lambda: lambda: ray.put(0))
Row("objects", "get small", 1, lambda: functools.partial(ray.get, ray.put(0)))
Row("objects", "put+get small fresh", 1, lambda: sync(ray.put, 0))
Row("objects", "multi client put", 4000, lambda: clients(4, put_again(0, 1000)))
Row("objects", "put multi|GB/s", 4 * 5 * 0.08, lambda: clients(4, put_again(ones(80), 5)))
Row(
    "objects",
    "get object with 10k refs",
    1,
    lambda: functools.partial(ray.get, task(lambda: puts(10_000))()),
)
Row("objects", "get 10k objects|s", 1, lambda: functools.partial(ray.get, puts(10_000)))
Row("life", "import|s, init|s, first task|s, first actor|s, shutdown|s", None, life)
Row("idle", "idle processes|count, idle RSS|MB, idle PSS|MB, idle CPU|%, driver RSS|MB", None, idle)
Row("disk", "package disk|MB", None, disk)
Row("drain", "queued 100k submit, queued 100k drain", None, drain)
Row("actors40", "actor creation 40, actor teardown 40", None, actors40)
Row("put800", "put 800MB first|GB/s, put 800MB steady|GB/s, get 800MB zero-copy|us", None, put800)


def stat(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()


def cpu_seconds(pid):
    return sum(map(int, stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid, field):
    return (
        sum(int(s.split()[1]) for s in open(f"/proc/{pid}/smaps_rollup") if s.startswith(field))
        / 1024
    )


def descendants(root):
    parents, found = {}, [root]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended
            parents[int(pid)] = int(stat(pid)[1])
    for pid in found:
        found += [p for p in parents if parents[p] == pid]
    return found[1:]


def end_descendants():
    while left := descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(OSError):  # gone, or the child of another
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)


def child(rows, pipe):
    """Sends Ray's version, then for each row its samples or, as text, the error."""
    os.dup2(2, 1)  # what ray prints stays out of our output
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    started = rows[0].group not in OWN_INIT and init()
    pipe.send({"ray": ray.__version__} if started else {})
    for row in rows:
        signal.alarm(BUDGET)
        try:
            pipe.send(row.sample())
        except BaseException as e:
            pipe.send(
                "late" if isinstance(e, KeyboardInterrupt) else f"{type(e).__name__}: {e}"[:300]
            )
        signal.alarm(20)
        time.sleep(0.3)
    if started:
        ray.shutdown()


def receive(pipe):
    try:
        return pipe.recv() if pipe.poll(BUDGET + 15) else "hung"
    except EOFError:
        return "process ended"


def run_child(rows, results, meta):
    """Runs rows in one child up to the first error; returns the rows that are left."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    proc = context.Process(target=child, args=(rows, theirs))
    proc.start()
    theirs.close()
    got = started = receive(ours)
    meta.update(got if isinstance(got, dict) else {})
    while rows and (got is started or isinstance(got, dict)):
        got = (
            receive(ours) if isinstance(got, dict) else got
        )  # no start: the same error for all rows
        for name in rows[0].units:
            if isinstance(got, dict):
                results[name]["samples"] += got[name]
            else:
                results[name]["error"] = got
        rows = rows[1:]
    proc.join(20 if isinstance(got, dict) else 0)
    end_descendants()
    return rows


def show(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.4g}"


def summary(name, unit, samples, **more):
    """One row of the report; prints it."""
    out = dict(more, unit=unit, higher_is_better=unit.endswith("/s"))
    if samples:
        out.update(
            median=statistics.median(samples), min=min(samples), max=max(samples), n=len(samples)
        )
    print(
        name,
        f"{show(out['median'])} {unit}" if samples else f"ERROR {out.get('error')}",
        flush=True,
    )
    return out


def main():
    known = list(dict.fromkeys(name for row in ROWS for name in (row.group, *row.units)))
    wanted = set(known) if ARGS.rows == "all" else set(ARGS.rows.split(","))
    if not wanted <= set(known):
        sys.exit(f"unknown: {wanted - set(known)}; rows and groups: {known}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: daemons stay descendants
    meta = {"python": sys.version.split()[0], "cores": os.cpu_count(), "num_cpus": ARGS.num_cpus}
    report = {"meta": meta, "rows": {}}
    for group in dict.fromkeys(row.group for row in ROWS):
        rows, began = [r for r in ROWS if r.group == group and wanted & {group, *r.units}], now()
        results = {
            name: dict(unit=u, group=group, samples=[]) for r in rows for name, u in r.units.items()
        }
        for _ in range(ARGS.repeat if group in FRESH else 1):
            left = rows
            while left and (left is not rows or now() - began < BUDGET / 2):
                left = run_child(left, results, meta)
        report["rows"].update((name, summary(name, **got)) for name, got in results.items())
        if ARGS.json:
            json.dump(report, open(ARGS.json, "w"), indent=1)


def start():
    """The command line of this file, and of those that bring rows of their own."""
    global ARGS
    p = argparse.ArgumentParser(description=__doc__)
    for name, default in {
        "rows": "all",
        "seconds": 2.0,
        "repeat": 3,
        "num-cpus": 4,
        "json": "",
    }.items():
        p.add_argument("--" + name, type=type(default), default=default)
    ARGS = p.parse_args()
    try:
        main()
    finally:
        end_descendants()


if __name__ == "__main__":
    start()
