"""An application of Serve under load while its replicas are killed, updated and scaled.

    python bench/serve_soak.py [--minutes 60] [--connections 4] [--callers 2]

Needs the load generator `wrk` (a Debian package). Every ten seconds a replica is killed (SIGKILL),
every 30 the code changes, every 20 the number of replicas. A GET has to be answered with 200 all
the time; a call of a handle may fail only with its replica. Memory: of the HTTP server, the
controller and the head, after a tenth of the time and at the end. Exits with 1 where a request
failed that had to be answered.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def megabytes(pid):
    with open(f"/proc/{pid}/status") as file:
        found = re.search(r"VmRSS:\s+(\d+)", file.read())
    return int(found[1]) / 1024


def processes():
    """The ids of the session's HTTP server, controller and head, by name."""
    from heliostat import _heliostat

    session = _heliostat.session()["session_name"].encode()
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                of_session = session in file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ")
        except OSError:
            continue
        if b"serve-ingress" in line and (of_session or session in line):
            found["HTTP server"] = int(entry)
        elif b" node --head" in line and (of_session or session in line):
            found["head"] = int(entry)
        elif b"ServeController" in line and of_session:
            found["controller"] = int(entry)
    return found


class Load:
    """GETs by wrk and calls of a handle by threads, until it is stopped."""

    def __init__(self, port, handle, connections, callers):
        self.is_over = False
        self.gets = self.bad = self.broken = self.calls = self.died = 0
        self.failed = []
        self.slowest_ms = 0.0
        self.lock = threading.Lock()
        work = [lambda: self.get(port, connections), *[lambda: self.call(handle)] * callers]
        self.threads = [threading.Thread(target=one) for one in work]
        for one in self.threads:
            one.start()

    def get(self, port, connections):
        command = ["wrk", "-t1", f"-c{connections}", "-d5s", "--timeout", "30s"]
        while not self.is_over:
            said = subprocess.run(
                [*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True
            ).stdout
            self.gets += int(re.search(r"(\d+) requests in", said)[1])
            bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
            self.bad += int(bad[1]) if bad else 0
            errors = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
            self.broken += sum(map(int, errors.groups())) if errors else 0
            slowest = re.search(r"Latency\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)\b", said)
            unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}[slowest[2]]
            self.slowest_ms = max(self.slowest_ms, float(slowest[1]) * unit)

    def call(self, handle):
        from ray.exceptions import RayActorError

        while not self.is_over:
            try:
                handle.name.remote().result(timeout_s=60)
            except RayActorError:
                with self.lock:
                    self.died += 1
            except Exception as error:
                self.failed.append(repr(error)[:200])
            with self.lock:
                self.calls += 1
            time.sleep(0.01)

    def stop(self):
        self.is_over = True
        for one in self.threads:
            one.join()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--callers", type=int, default=2)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("serve_soak.py needs the load generator `wrk`: apt-get install wrk")
    import ray
    from ray import serve

    def application(generation, replicas):
        @serve.deployment(num_replicas=replicas, max_ongoing_requests=50)
        class Soaked:
            async def __call__(self, request):
                import asyncio

                await asyncio.sleep(0.005)
                return f"of generation {generation}"

            def name(self):
                return generation

            def pid(self):
                return os.getpid()

        return Soaked.bind()

    port = free_port()
    ray.init(address="local", num_cpus=16, logging_level="ERROR", log_to_driver=False)
    serve.start(http_options={"port": port})
    handle = serve.run(application(0, 3))
    load = Load(port, handle, options.connections, options.callers)
    began = time.monotonic()
    seconds, kills, updates, scalings = options.minutes * 60, 0, 0, 0
    generation, replicas, memory = 0, 3, {}
    for turn in range(1, int(seconds // 10) + 1):
        time.sleep(max(0.0, began + turn * 10 - time.monotonic()))
        if not memory and turn * 10 >= seconds / 10:
            memory = {name: megabytes(pid) for name, pid in processes().items()}
        try:
            pids = handle.broadcast("pid").results(timeout_s=60, return_exceptions=True)
            os.kill(random.choice([one for one in pids if isinstance(one, int)]), signal.SIGKILL)
            kills += 1
        except (IndexError, ProcessLookupError):
            pass
        if turn % 2 == 0:
            replicas, scalings = random.choice([2, 3, 4, 5]), scalings + 1
        if turn % 3 == 0:
            generation, updates = generation + 1, updates + 1
        if turn % 2 == 0 or turn % 3 == 0:
            serve.run(application(generation, replicas))
    took = time.monotonic() - began
    load.stop()
    after = {name: megabytes(pid) for name, pid in processes().items()}
    print(
        f"{took / 60:.1f} minutes: {kills} replicas killed, {updates} updates, {scalings} scalings"
    )
    print(
        f"{load.gets} GETs ({load.gets / took:.0f}/s), {load.bad} not answered with 200, "
        f"{load.broken} without an answer, slowest {load.slowest_ms:.0f} ms"
    )
    print(
        f"{load.calls} calls of handles, {load.died} ended with their replica, "
        f"{len(load.failed)} otherwise {load.failed[:3]}"
    )
    for name, size in after.items():
        print(f"{name}: {memory.get(name, 0):.0f} MB, at the end {size:.0f}")
    serve.shutdown()
    ray.shutdown()
    sys.exit(1 if load.bad or load.broken or load.failed else 0)


if __name__ == "__main__":
    main()
