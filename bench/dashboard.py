"""What an open page costs the head while many short calls run, and how quickly a list of many is answered."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

NAMED = "filter_keys=name&filter_predicates=%3D&filter_values="
# What the page of tasks asks for at each change, and the overview when one of these lists has changed.
TASKS = f"/api/v0/tasks?age=400&detail=1&why=1&limit=100&order=creation_time_ms&{NAMED}"
SUMMARY = "/api/v0/tasks/summarize?age=400"
OVERVIEW = {
    "tasks": [
        SUMMARY,
        "/api/v0/tasks/errors?age=400",
        "/api/v0/tasks/activity?age=400&most=200&since=",
    ],
    "actors,jobs,nodes": ["/api/cluster_status", "/api/jobs/", "/api/v0/actors/summarize"],
    "nodes": ["/nodes?view=summary"],
}
STEP_S = 0.02
LISTS = {
    "by name": TASKS + "short",
    "by a rare name": TASKS + "rare",
    "the slowest": TASKS.replace("creation_time_ms", "took") + "short",
    "of a job": "/api/v0/tasks?limit=100&filter_keys=job_id&filter_predicates=%3D&filter_values=01000000",
    "failed": "/api/v0/tasks?limit=100&filter_keys=state&filter_predicates=%3D&filter_values=FAILED",
    "summary": SUMMARY,
}

CLI = [sys.executable, "-c", "import sys; from heliostat.cli import main; sys.exit(main())"]

DRIVER = """
import sys, time, ray
ray.init(address="auto", log_to_driver=False)
rate, step = float(sys.argv[1]), float(sys.argv[2])

@ray.remote(num_cpus=0.01)
def short(x):
    return x

@ray.remote(num_cpus=0.01)
def rare(x):
    return x

ray.get([short.remote(x) for x in range(100)])
print("ready", flush=True)
due, done, sent = time.monotonic(), 0, 0
each = max(1, round(rate * step)) if rate else 1000
waiting = []
while True:
    waiting.append([short.remote(x) for x in range(each)] + ([rare.remote(0)] if done % 50 == 0 else []))
    done += 1
    sent += each
    while len(waiting) > 2:
        ray.get(waiting.pop(0))
    if done % 50 == 0:
        print(sent, time.monotonic(), flush=True)
    if rate:
        due += step
        late = due - time.monotonic()
        if late > 0:
            time.sleep(late)
        elif late < -1:
            due = time.monotonic()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Head:
    """A head of its own, and what its process and its threads have used."""

    def __init__(self, cpus: int, history: bool) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="bench", dir="/tmp"))
        self.token, self.port, self.web = secrets.token_hex(16), free_port(), free_port()
        self.env = {
            **os.environ,
            "RAY_TMPDIR": str(self.home),
            "RAY_AUTH_TOKEN": self.token,
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            "HELIOSTAT_HISTORY": "" if history else "0",
        }
        self.cli(
            "start",
            "--head",
            f"--port={self.port}",
            f"--dashboard-port={self.web}",
            f"--num-cpus={cpus}",
        )
        self.pid = self.json("/nodes?view=summary")["data"]["summary"][0]["raylet"]["pid"]

    def cli(self, *args: str) -> None:
        subprocess.run([*CLI, *args], env=self.env, check=True, stdout=subprocess.DEVNULL)

    def get(self, link: http.client.HTTPConnection, path: str) -> bytes:
        link.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = link.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        return said

    def link(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.web, timeout=60)

    def json(self, path: str) -> Any:
        return json.loads(self.get(self.link(), path))

    def used(self) -> dict[str, float]:
        """Seconds of CPU by the name of the thread."""
        used: dict[str, float] = {}
        for one in Path(f"/proc/{self.pid}/task").iterdir():
            name = (one / "comm").read_text().strip()
            ran_ns = int((one / "schedstat").read_text().split()[0])
            used[name] = used.get(name, 0) + ran_ns / 1e9
        return used

    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(one for one in lines if one.startswith("VmRSS")).split()[1]) / 1024

    def stop(self) -> None:
        self.cli("stop", "--force")
        shutil.rmtree(self.home, ignore_errors=True)


class Page:
    """A page that is open: it follows lists, and asks for what it shows of those that have changed."""

    def __init__(self, head: Head, asks: dict[str, list[str]]) -> None:
        self.events, self.took, self.is_over = 0, [], False
        self.bytes = 0
        self.thread = threading.Thread(target=self.follow, args=(head, asks), daemon=True)
        self.thread.start()

    def follow(self, head: Head, asks: dict[str, list[str]]) -> None:
        events, link = head.link(), head.link()
        of = ",".join(sorted({one for names in asks for one in names.split(",")}))
        events.request(
            "GET", f"/api/v0/changes?of={of}", headers={"Authorization": f"Bearer {head.token}"}
        )
        answer = events.getresponse()
        while not self.is_over:
            line = answer.readline()
            if line.startswith(b"data: "):
                self.events += 1
                changed = set(json.loads(line.removeprefix(b"data: ")))
                due = [paths for names, paths in asks.items() if changed & set(names.split(","))]
                for path in (path for paths in due for path in paths):
                    now = str(int((time.time() - 1) * 1000)) if path.endswith("since=") else ""
                    began = time.monotonic()
                    self.bytes += len(head.get(link, path + now))
                    self.took.append(time.monotonic() - began)
        events.close()

    def close(self) -> None:
        self.is_over = True
        self.thread.join()


class Load:
    """A driver that calls at a rate (0: as fast as it goes)."""

    def __init__(self, head: Head, rate: float) -> None:
        self.told: list[tuple[int, float]] = []
        self.driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(rate), str(STEP_S)],
            env=head.env,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        assert self.driver.stdout
        self.driver.stdout.readline()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.driver.stdout or []:
            sent, at = line.split()
            self.told.append((int(sent), float(at)))

    def rate(self, since: float) -> float:
        told = [one for one in self.told if one[1] >= since]
        return (told[-1][0] - told[0][0]) / (told[-1][1] - told[0][1]) if len(told) > 1 else 0

    def stop(self) -> None:
        self.driver.kill()
        self.driver.wait()


def newest_ms(folder: Path, env: dict[str, str]) -> int:
    """When the last call of a history was over, in milliseconds since 1970."""
    served = subprocess.Popen(
        [*CLI, "history", "open", folder, "--port=0"],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        assert served.stdout
        way = urlsplit(served.stdout.readline().strip())
        link = http.client.HTTPConnection("127.0.0.1", way.port or 0, timeout=60)
        link.request("GET", f"{way.path}?{way.query}")
        entered = link.getresponse()
        entered.read()
        cookie = (entered.headers["set-cookie"] or "").partition(";")[0]
        asked = "/api/v0/tasks?limit=1&detail=1&order=end_time_ms"
        link.request("GET", asked, headers={"Cookie": cookie})
        rows = json.loads(link.getresponse().read())["data"]["result"]["result"]
        newest: int = rows[0]["end_time_ms"]
        return newest
    finally:
        served.terminate()
        served.wait()


def kills(count: int, rate: float) -> None:
    """How much of the end of a head that was killed while calls ran is not in its history."""
    lost = []
    for _ in range(count):
        head = Head(2, True)
        load = None
        try:
            load = Load(head, rate)
            time.sleep(4 + secrets.randbelow(1000) / 1000)
            at_ms = time.time() * 1000
            os.kill(head.pid, signal.SIGKILL)
            load.stop()
            folder = next(head.home.rglob("*.history")).parent
            lost.append(at_ms - newest_ms(folder, head.env))
            print(f"{lost[-1]:.0f} ms of the end are lost", flush=True)
        finally:
            if load:
                load.stop()
            head.stop()
    print(f"killed {count} times: {min(lost):.0f} to {max(lost):.0f} ms are lost")


def percentile(all: list[float], share: float) -> float:
    return sorted(all)[min(len(all) - 1, int(len(all) * share))] if all else 0


def phase(
    head: Head, load: Load, name: str, seconds: float, page: Page | None = None
) -> dict[str, Any]:
    before, began, at = head.used(), time.monotonic(), time.monotonic()
    events = page.events if page else 0
    time.sleep(seconds)
    took = time.monotonic() - began
    after = head.used()
    cores = {one: (after[one] - before.get(one, 0)) / took * 100 for one in after}
    cores = {one: round(used, 2) for one, used in cores.items() if used >= 0.05}
    row: dict[str, Any] = {
        "name": name,
        "calls/s": round(load.rate(at)),
        "all": round(sum(cores.values()), 2),
        **cores,
    }
    if page:
        row["events/s"] = round((page.events - events) / took, 1)
        row["answer ms"] = (
            f"{percentile(page.took, 0.5) * 1e3:.1f} / {percentile(page.took, 0.99) * 1e3:.1f}"
        )
    print(row, flush=True)
    return row


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rate", type=float, default=10_000)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--turns", type=int, default=2)
    p.add_argument(
        "--known", type=int, default=0, help="so many calls, then how quickly lists are answered"
    )
    p.add_argument("--known-within", type=float, default=600, help="or as many as in so many s")
    p.add_argument("--idle", action="store_true", help="measure a cluster at rest, too")
    p.add_argument("--no-history", action="store_true")
    p.add_argument("--kills", type=int, default=0, help="only: kill so many heads under the load")
    args = p.parse_args()
    if args.kills:
        kills(args.kills, args.rate)
        return
    head = Head(2, not args.no_history)
    load = None
    try:
        load = Load(head, args.rate)
        for turn in range(args.turns):
            time.sleep(2)
            phase(head, load, "nobody looks", args.seconds)
            page = Page(head, {"tasks": [TASKS + "short", SUMMARY]})
            time.sleep(2)
            phase(head, load, "tasks and summary", args.seconds, page)
            page.close()
            page = Page(head, OVERVIEW)
            time.sleep(2)
            phase(head, load, "overview", args.seconds, page)
            page.close()
            if turn + 1 < args.turns:
                print("   waits until the table is given back", flush=True)
                time.sleep(62)
        load.stop()
        if args.idle:
            time.sleep(62)
            phase(head, load, "nothing runs, nobody looks", args.seconds)
            page = Page(head, OVERVIEW)
            time.sleep(2)
            phase(head, load, "nothing runs, overview", args.seconds, page)
            page.close()
        if args.known:
            link = head.link()
            load = Load(head, 0)
            known, until = 0, time.monotonic() + args.known_within
            while known < args.known and time.monotonic() < until:
                time.sleep(1)
                told = json.loads(head.get(link, SUMMARY))["data"]["result"]
                known = told["total"]
            load.stop()
            print(
                f"{known} known, {told['num_after_truncation']} with a row, {head.memory_mb():.0f} MB"
            )
            written = sum(one.stat().st_size for one in head.home.rglob("*.history"))
            print(
                f"history: {written / 1e6:.1f} MB, {written / max(1, told['total']):.0f} bytes a call"
            )
            for name, path in LISTS.items():
                took = []
                for _ in range(100):
                    began = time.monotonic()
                    head.get(link, path)
                    took.append((time.monotonic() - began) * 1e3)
                print(
                    f"{name}: median {percentile(took, 0.5):.1f} ms, p99 {percentile(took, 0.99):.1f} ms",
                    flush=True,
                )
    finally:
        if load:
            load.stop()
        head.stop()


if __name__ == "__main__":
    main()
