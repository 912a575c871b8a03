"""Requests to Serve over HTTP and through handles, here and on Ray by turns.

    python bench/serve_requests.py [--seconds 3] [--rounds 2] [--ray PYTHON]

Needs the load generator `wrk` (a Debian package). Each side is a process of its own, begun again for each
round; a figure is the best round's. The application answers two bytes from one replica. Rows in s and ms:
less is better; in 1/s: more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wrk(port, connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/noop"], capture_output=True, text=True, check=True
    )
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    if bad is not None:
        raise RuntimeError(f"{bad[1]} requests were not answered with 200")
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}[p99[2]]
    return float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1]), float(p99[1]) * unit


def measure(seconds):
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

    def rate(call, per=1):
        call()
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            call()
            count += per
        return count / (time.perf_counter() - start)

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
        rows[f"{name}, 1/s"], rows[f"{name}, p99 ms"] = wrk(port, connections, seconds)
    rows["handle, one at a time, 1/s"] = rate(lambda: noop.remote(None).result(timeout_s=60))

    def many():
        for answer in [noop.remote(None) for _ in range(100)]:
            answer.result(timeout_s=60)

    rows["handle, 100 in flight, 1/s"] = rate(many, 100)
    outer = serve.run(Outer.bind(Noop.bind()), name="two", route_prefix=None)
    rows["two deployments, 1/s"] = rate(lambda: outer.through.remote(1).result(timeout_s=60))
    start, count = time.perf_counter(), 20_000
    assert len(get(f"/stream?n={count}")) == 6 * count
    rows["streamed chunks, 1/s"] = count / (time.perf_counter() - start)
    serve.run(Echo.bind(), name="echo", route_prefix="/echo")
    body, times = os.urandom(10 << 20), []
    for _ in range(5):
        start = time.perf_counter()
        assert get("/echo", body) == body
        times.append(time.perf_counter() - start)
    rows["10 MB there and back, ms"] = sorted(times)[2] * 1e3
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
    parser.add_argument("--ray", help="an interpreter that has Ray")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("serve_requests.py needs the load generator `wrk`: apt-get install wrk")
    if options.child:
        print(json.dumps(measure(options.seconds)))
        return
    sides = {"heliostat": sys.executable, **({"ray": options.ray} if options.ray else {})}
    best = {}
    for _ in range(options.rounds):
        for side, python in sides.items():
            command = [python, __file__, "--child", "--seconds", str(options.seconds)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
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
