"""Requests to Serve over HTTP and through handles, here and on Ray by turns.

    python bench/serve_requests.py [--seconds 3] [--rounds 2] [--ray PYTHON] [--applications 50]

Needs the load generator `wrk` (a Debian package). Where `granian` is installed, it serves the same answer
from an ASGI application, with one worker. `--applications` starts so many of ten replicas each, at once.
Each side is a process of its own, begun again for each round; a figure is the best round's. The application
answers two bytes from one replica. Rows in 1/s: more is better; all others: less. "CPU us" is what all
processes of the side together take for one request or chunk, without the load generator: it says more than
the rate where the machine does other work besides.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid

# Of a side's processes, in their environment.
MARK = "SERVE_REQUESTS_SIDE"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wrk(port, connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    elsewhere = {name: value for name, value in os.environ.items() if name != MARK}
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/noop"],
        capture_output=True,
        text=True,
        check=True,
        env=elsewhere,
    )
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    if bad is not None:
        raise RuntimeError(f"{bad[1]} requests were not answered with 200")
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}[p99[2]]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1])
    number = int(re.search(r"(\d+) requests in", done.stdout)[1])
    return rate, float(p99[1]) * unit, number


def cpu_seconds():
    """What each process has taken that has this one's mark in its environment, and what it is."""
    mark, taken = f"{MARK}={os.environ[MARK]}".encode(), {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark not in file.read():
                    continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                name = file.read().replace(b"\0", b" ").decode(errors="replace")
            seconds = 0.0
            for task in os.listdir(f"/proc/{entry}/task"):
                with open(f"/proc/{entry}/task/{task}/schedstat") as file:
                    seconds += int(file.read().split()[0]) / 1e9
        except OSError:
            continue
        taken[int(entry)] = seconds, name
    return taken


@contextlib.contextmanager
def counted(rows, name):
    """Add a row of the CPU that one unit took; the list that it gives is told how many there were."""
    before, told = cpu_seconds(), []
    yield told
    after, number = cpu_seconds(), sum(told)
    each = {
        process: (seconds - before.get(process, (0.0,))[0]) / number * 1e6
        for process, (seconds, _) in after.items()
    }
    rows[f"{name}, CPU us"] = sum(each.values())
    if os.environ.get("DETAILS"):
        parts = [f"{after[one][1][:60]}: {value:.1f}" for one, value in each.items() if value > 0.2]
        print(f"{name}: {'; '.join(parts)}", file=sys.stderr)


async def application(scope, receive, send):
    """The same two bytes, for a server of ASGI applications."""
    if scope["type"] != "http":
        return
    await receive()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/plain")],
        }
    )
    await send({"type": "http.response.body", "body": b"ok"})


def of_granian(rows, seconds):
    """Rows of that application under Granian, if it is installed."""
    if importlib.util.find_spec("granian") is None:
        return
    port = free_port()
    command = [
        "granian",
        "--interface",
        "asgi",
        "--workers",
        "1",
        "--port",
        str(port),
        "--no-ws",
        "--log-level",
        "error",
    ]
    folder = os.path.dirname(os.path.abspath(__file__))
    server = subprocess.Popen(
        [sys.executable, "-m", *command, "serve_requests:application"], cwd=folder
    )
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        wrk(port, 8, 1)
        with counted(rows, "Granian, 100 connections") as told:
            rate, _, count = wrk(port, 100, seconds)
            rows["Granian, 100 connections, 1/s"] = rate
            told.append(count)
    finally:
        server.terminate()
        server.wait()


def of_many(rows, applications):
    """How long ten replicas of each of so many applications take to be there."""
    from ray import serve

    @serve.deployment(num_replicas=10, ray_actor_options={"num_cpus": 0})
    class Ten:
        def __call__(self, request):
            return "ok"

    targets = [
        serve.RunTarget(Ten.bind(), name=f"many{number}", route_prefix=f"/many{number}")
        for number in range(applications)
    ]
    start = time.perf_counter()
    with counted(rows, f"a replica of {10 * applications}") as told:
        serve.run_many(targets)
        told.append(10 * applications)
    rows[f"{10 * applications} replicas of {applications} applications, s"] = (
        time.perf_counter() - start
    )


def measure(seconds, applications):
    """The rows on whatever `import ray` gives."""
    began = time.perf_counter()
    import ray
    from ray import serve
    from starlette.responses import StreamingResponse

    rows, port = {}, free_port()

    def get(path, data=None):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def rate(name, call, per=1):
        for _ in range(20):
            call()
        count, start = 0, time.perf_counter()
        with counted(rows, name) as told:
            while time.perf_counter() - start < seconds:
                call()
                count += per
            rows[f"{name}, 1/s"] = count / (time.perf_counter() - start)
            told.append(count)

    @ray.remote(num_cpus=0)
    class Bare:
        async def call(self, request):
            return b"ok"

    @serve.deployment(max_ongoing_requests=1000)
    class Noop:
        async def __call__(self, request):
            return b"ok"

    @serve.deployment(max_ongoing_requests=1000)
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        async def through(self, x):
            return await self.inner.remote(x)

    @serve.deployment
    class Stream:
        async def __call__(self, request):
            async def chunks():
                for _ in range(int(request.query_params["n"])):
                    yield b"token\n"

            return StreamingResponse(chunks())

    @serve.deployment
    class Echo:
        async def __call__(self, request):
            return await request.body()

    quiet = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
    ray.init(address="local", num_cpus=8, **quiet)
    serve.start(http_options={"port": port})
    noop = serve.run(Noop.bind(), name="noop", route_prefix="/noop")
    assert get("/noop") == b"ok"
    rows["start to first answer, s"] = time.perf_counter() - began
    start = time.perf_counter()
    serve.run(Stream.bind(), name="stream", route_prefix="/stream")
    assert get("/stream?n=1") == b"token\n"
    rows["second application up, s"] = time.perf_counter() - start
    wrk(port, 8, 1)
    for connections in (1, 32, 100):
        name = f"http, {connections} connections"
        with counted(rows, name) as told:
            rows[f"{name}, 1/s"], rows[f"{name}, p99 ms"], count = wrk(port, connections, seconds)
            told.append(count)
    bare = Bare.remote()
    rate("async actor, one at a time", lambda: ray.get(bare.call.remote(None), timeout=60))
    rate("handle, one at a time", lambda: noop.remote(None).result(timeout_s=60))

    def many():
        for answer in [noop.remote(None) for _ in range(100)]:
            answer.result(timeout_s=60)

    rate("handle, 100 in flight", many, 100)
    outer = serve.run(Outer.bind(Noop.bind()), name="two", route_prefix=None)
    rate("two deployments", lambda: outer.through.remote(1).result(timeout_s=60))
    start, count = time.perf_counter(), 20_000
    with counted(rows, "streamed chunks") as told:
        assert len(get(f"/stream?n={count}")) == 6 * count
        rows["streamed chunks, 1/s"] = count / (time.perf_counter() - start)
        told.append(count)
    serve.run(Echo.bind(), name="echo", route_prefix="/echo")
    body, times = os.urandom(10 << 20), []
    with counted(rows, "10 MB there and back") as told:
        for _ in range(5):
            start = time.perf_counter()
            assert get("/echo", body) == body
            times.append(time.perf_counter() - start)
        told.append(len(times))
    rows["10 MB there and back, ms"] = sorted(times)[2] * 1e3
    of_granian(rows, seconds)
    if applications:
        of_many(rows, applications)
    start = time.perf_counter()
    serve.shutdown()
    rows["shutdown, s"] = time.perf_counter() - start
    ray.shutdown()
    return rows


def more_is_better(row):
    return row.endswith("1/s")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--applications", type=int, default=0, metavar="N")
    parser.add_argument("--ray", help="an interpreter that has Ray")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("serve_requests.py needs the load generator `wrk`: apt-get install wrk")
    if options.child:
        print(json.dumps(measure(options.seconds, options.applications)))
        return
    sides = {"heliostat": sys.executable, **({"ray": options.ray} if options.ray else {})}
    best = {}
    for _ in range(options.rounds):
        for side, python in sides.items():
            given = ["--seconds", options.seconds, "--applications", options.applications]
            command = [python, __file__, "--child", *map(str, given)]
            marked = {**os.environ, MARK: uuid.uuid4().hex}
            done = subprocess.run(command, check=False, capture_output=True, text=True, env=marked)
            if os.environ.get("DETAILS"):
                print(done.stderr, file=sys.stderr)
            if done.returncode != 0:
                sys.exit(f"{side}: {done.stderr}")
            for row, value in json.loads(done.stdout.splitlines()[-1]).items():
                known = best.setdefault(row, {}).setdefault(side, value)
                best[row][side] = (max if more_is_better(row) else min)(known, value)
    print(f"| row | {' | '.join(sides)} |{' ratio |' if options.ray else ''}")
    print("|---" * (len(sides) + 1 + bool(options.ray)) + "|")
    for row, found in best.items():
        cells = [f"{found[side]:.4g}" for side in sides]
        if options.ray:
            ratio = found["heliostat"] / found["ray"]
            cells.append(f"{ratio if more_is_better(row) else 1 / ratio:.1f}")
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
