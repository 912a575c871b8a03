"""What a driver outside of the cluster gets through `ray://`, on one machine: Heliostat beside Ray, by turns.

    .venv/bin/python bench/afar.py [--ray PYTHON-WITH-RAY[CLIENT]] [--rounds 3] [--drivers 500]
        [--processes 10]

Each turn starts a head of its own and a driver that knows only the port for drivers elsewhere. Prints a
Markdown table: the median of the rounds. `--drivers` connects that many, of so many processes at a time,
each of which runs a task and calls an actor of its own, and says what the head's process keeps for one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRIVER = """
import os, sys, time
from pathlib import Path
import numpy as np
import ray

began = time.monotonic()
ray.init(sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=0)
def one():
    return 1

@ray.remote(num_cpus=0)
class Actor:
    def nothing(self):
        return None
    def size(self, box):
        return len(ray.get(box[0]))

ray.get(one.remote())
print(f"connect and first task (s)={time.monotonic() - began}")
actor = Actor.remote()
ray.get(actor.nothing.remote())

def rate(call, unit, seconds=2.0):
    call()
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        call()
        count += unit
    return count / (time.monotonic() - began)

def cpu_s():
    "Of all processes that have the folder of sessions in their environment."
    ticks, mark = 0, os.path.dirname(os.environ["RAY_TMPDIR"]).encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                times = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
                ticks += sum(map(int, times))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")

began = cpu_s()
calls = rate(lambda: ray.get(actor.nothing.remote()), 1)
print(f"actor calls, one at a time (/s)={calls}")
print(f"CPU of all processes for such a call (us)={(cpu_s() - began) / (calls * 2) * 1e6}")
print(f"actor calls, 1000 at once (/s)="
      f"{rate(lambda: ray.get([actor.nothing.remote() for _ in range(1000)]), 1000)}")
data = np.ones(100 << 20, np.uint8)
print(f"put of 100 MiB (GB/s)={rate(lambda: ray.put(data), data.nbytes / 1e9)}")
def passed():
    assert ray.get(actor.size.remote([ray.put(data)])) == len(data)
print(f"put of 100 MiB, read by an actor (GB/s)={rate(passed, data.nbytes / 1e9)}")
"""

MANY = """
import sys
import ray

address, count = sys.argv[1], int(sys.argv[2])

@ray.remote
def one():
    return 1

@ray.remote(num_cpus=0)
class Actor:
    def one(self):
        return 1

contexts = []
for _ in range(count):
    contexts.append(ray.init(address, allow_multiple=True, log_to_driver=False, logging_level="error"))
    with contexts[-1]:
        assert ray.get(one.remote()) == 1
        actor = Actor.remote()
        assert ray.get(actor.one.remote()) == 1
        ray.kill(actor)
print("ready", flush=True)
sys.stdin.readline()
refs = []
for context in contexts:
    with context:
        refs.append(one.remote())
for context, ref in zip(contexts, refs):
    with context:
        assert ray.get(ref) == 1
print("again", flush=True)
sys.stdin.read()
for context in contexts:
    context.disconnect()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Head:
    """A head with a port for drivers elsewhere, started by the command beside an interpreter."""

    def __init__(self, python: str) -> None:
        self.python, self.folder = python, Path(tempfile.mkdtemp(prefix="afar", dir="/tmp"))
        self.door = free_port()
        drop = (
            "RAY_",
            "HELIOSTAT_",
            "HTTP_PROXY",
            "HTTPS_PROXY",
        )  # gRPC asks a proxy for this machine, too
        self.env = {k: v for k, v in os.environ.items() if not k.upper().startswith(drop)}
        self._ray("start", "--head", f"--port={free_port()}", "--num-cpus=4",
                  f"--ray-client-server-port={self.door}", "--include-dashboard=false")  # fmt: skip

    def _ray(self, *words: str) -> None:
        command = [str(Path(self.python).parent / "ray"), *words]
        env = {**self.env, "RAY_TMPDIR": str(self.folder)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")

    def driver(self, source: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-c", source, f"ray://127.0.0.1:{self.door}", *arguments],
            env={**self.env, "RAY_TMPDIR": str(self.folder / "afar")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def daemon(self) -> int:
        """The head's daemon; Heliostat's alone writes down which process it is."""
        return int((self.folder / "ray" / "session_latest" / "node.pid").read_text())

    def stop(self) -> None:
        self._ray("stop", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)


def measured(python: str) -> dict[str, float]:
    head = Head(python)
    try:
        said, _ = head.driver(DRIVER).communicate(timeout=300)
        return {name: float(value) for name, value in re.findall(r"^(.+)=(\S+)$", said, re.M)}
    finally:
        head.stop()


def many(count: int, n_processes: int) -> str:
    """Connects drivers, and says what one costs the head's process."""
    head = Head(sys.executable)
    try:
        pid = head.daemon()
        before, began = memory(pid), time.monotonic()
        sizes = [len(range(i, count, n_processes)) for i in range(n_processes)]
        processes = [head.driver(MANY, str(size)) for size in sizes if size]
        await_lines(processes, "ready")
        took = time.monotonic() - began
        each = (memory(pid) - before) / count / 1e3
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        began = time.monotonic()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("again\n")
            process.stdin.flush()
        await_lines(processes, "again")
        again = time.monotonic() - began
        for process in processes:
            process.communicate()
        return (
            f"{count} drivers of {len(processes)} processes: all had connected and had a task and a call of "
            f"an actor done after {took:.1f} s, another task of each at once took {again:.2f} s; "
            f"{each:.0f} kB each in the head's process, which has {files} descriptors"
        )
    finally:
        head.stop()


def await_lines(processes: list[subprocess.Popen[str]], line: str) -> None:
    for process in processes:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == f"{line}\n", said


def memory(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+)", text, re.M)
    assert found is not None
    return float(found[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--ray", help="a Python with ray[client]; without it there is no comparison"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drivers", type=int, default=50)
    parser.add_argument("--processes", type=int, default=10)
    options = parser.parse_args()
    sides = {"heliostat": sys.executable, **({"ray": options.ray} if options.ray else {})}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, python in sides.items():
            found[side].append(measured(python))
    print("| through `ray://` | " + " | ".join(sides) + " |")
    print("|---|" + "--:|" * len(sides))
    for row in found["heliostat"][0]:
        medians = [statistics.median(one[row] for one in found[side]) for side in sides]
        print(f"| {row} | " + " | ".join(f"{value:,.3g}" for value in medians) + " |")
    if options.drivers:
        print(many(options.drivers, options.processes))


if __name__ == "__main__":
    main()
