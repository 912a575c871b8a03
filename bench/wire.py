"""The wire between machines of namespaces, and what Heliostat makes of it.

    PYTHONPATH=. python bench/wire.py [--rounds 5] [--readers 7] [--tls]        as root, with iperf3

Each round measures programs that do nothing else (iperf3, a TCP ping-pong) and Heliostat by turns on the same
machines, so that a busy hour hits both. Prints a Markdown table: medians of both, and of the ratios.
"""

import argparse
import json
import statistics
import subprocess
import sys
import textwrap
import time

from tests.helpers import harness
from tests.machines.machines import Machine, Machines

IPERF_SECONDS = 3

DRIVER = """
    import sys, time
    import numpy as np
    import ray

    ray.init(log_to_driver=False)
    MIB = 1 << 20

    @ray.remote(num_cpus=0)
    class Far:
        def nothing(self):
            return None
        def take(self, box):
            return len(ray.get(box[0]))

    there = [Far.options(resources={f"m{i}": 1}).remote() for i in range(1, READERS + 1)]
    ray.get([far.nothing.remote() for far in there])

    def calls(seconds=2.0):
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            ray.get(there[0].nothing.remote())
            count += 1
        return count / (time.monotonic() - began)

    def moved(size, readers, times):
        rates = []
        for _ in range(times):
            ref = ray.put(np.ones(size * MIB, dtype=np.uint8))
            began = time.monotonic()
            ray.get([far.take.remote([ref]) for far in readers])
            rates.append(size * len(readers) / 1024 / (time.monotonic() - began))
            del ref
        return sorted(rates)[len(rates) // 2]

    rows = {
        "calls": lambda: calls(),
        "one": lambda: moved(400, there[:1], 5),
        "many": lambda: moved(200, there, 3),
    }
    print("ready=1", flush=True)
    for line in sys.stdin:
        print(f"{line.strip()}={rows[line.strip()]()}", flush=True)
"""

PONG = """
    import socket
    server = socket.create_server(("", 6001))
    print("ready", flush=True)
    conn, _ = server.accept()
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while asked := conn.recv(4096):
        conn.send(asked)
"""

PING = """
    import socket, sys, time
    conn = socket.create_connection((sys.argv[1], 6001))
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began, count = time.monotonic(), 0
    while time.monotonic() - began < 2:
        for _ in range(100):
            conn.send(b"x" * 64)
            conn.recv(4096)
        count += 100
    print(count / (time.monotonic() - began))
"""


def serving(machine: Machine, *argv: str) -> subprocess.Popen[str]:
    """A server on the machine, which says a line when it is ready."""
    process = subprocess.Popen(
        machine.command(argv), stdout=subprocess.PIPE, text=True, env=harness.clean_env()
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def ping_pong(one: Machine, other: Machine) -> float:
    """Round trips of 64 bytes a second between two blocking Python programs."""
    pong = serving(other, sys.executable, "-c", textwrap.dedent(PONG))
    rate = float(one.run(sys.executable, "-c", textwrap.dedent(PING), other.ip).stdout)
    pong.wait(30)
    return rate


def iperf(one: Machine, others: list[Machine]) -> float:
    """GiB/s that all of the others get from one, by iperf3."""
    servers = [serving(other, "iperf3", "-s", "-1", "--forceflush") for other in others]
    ask = ["-t", str(IPERF_SECONDS), "-J"]
    clients = [
        subprocess.Popen(
            one.command(["iperf3", "-c", other.ip, *ask]),
            stdout=subprocess.PIPE,
            text=True,
            env=harness.clean_env(),
        )
        for other in others
    ]
    said = [json.loads(client.communicate(timeout=120)[0]) for client in clients]
    for server in servers:
        server.communicate(timeout=30)
    return sum(it["end"]["sum_received"]["bits_per_second"] for it in said) / 8 / (1 << 30)


class Session:
    """A driver on the head that measures what it is asked for."""

    def __init__(self, head: Machine, readers: int) -> None:
        script = head.directory / "driver.py"
        script.write_text(f"READERS = {readers}\n" + textwrap.dedent(DRIVER))
        self.process = subprocess.Popen(
            head.command([sys.executable, str(script)], {"RAY_ADDRESS": "auto"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=harness.clean_env(),
        )
        self._value()

    def measure(self, row: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{row}\n")
        self.process.stdin.flush()
        return self._value()

    def _value(self) -> float:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if "=" in line:
                return float(line.partition("=")[2])
        raise AssertionError("the driver has ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", type=int, default=7, help="machines that read one object")
    parser.add_argument("--tls", action="store_true", help="with --tls=auto; the wire stays bare")
    args = parser.parse_args()
    field = Machines(args.readers + 1)
    try:
        head, *others = field.all
        options = ("--object-store-memory=1000000000", *(("--tls=auto",) if args.tls else ()))
        head.start_head(*options)
        for other in others:
            other.join(head, *options)
        session = Session(head, args.readers)
        rows = {
            "calls": ("a call at a time (/s)", lambda: ping_pong(head, others[0])),
            "one": ("400 MiB to one machine (GiB/s)", lambda: iperf(head, others[:1])),
            "many": (f"200 MiB to {args.readers} (GiB/s in all)", lambda: iperf(head, others)),
        }
        found: dict[str, list[tuple[float, float]]] = {row: [] for row in rows}
        for _ in range(args.rounds):
            for row, (_, bare) in rows.items():
                found[row].append((bare(), session.measure(row)))
                print(time.strftime("%X"), row, *found[row][-1], file=sys.stderr)
    finally:
        field.close()
    print("| row | the wire | Heliostat | ratio |\n|---|--:|--:|--:|")
    for row, (title, _) in rows.items():
        wire, own = (statistics.median(pair[side] for pair in found[row]) for side in (0, 1))
        ratio = statistics.median(own / wire for wire, own in found[row])
        print(f"| {title} | {wire:,.2f} | {own:,.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
