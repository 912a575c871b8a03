"""The cluster's state in an etcd of three members on machines of their own, whose links fail in turn."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.helpers import harness, stores
from tests.machines.machines import HELIOSTAT, PORT, Machine, Machines

pytestmark = [
    pytest.mark.contract("F5.10"),
    pytest.mark.heliostat_only("Ray keeps nothing in etcd"),
]

CLIENT, PEER = 2379, 2380

# Keys as fast as they are acknowledged; each is written down, and in the end all of them must be there.
KEYS = """
    import os
    import ray
    from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

    ray.init(namespace="n")

    @ray.remote(num_cpus=0, resources={"m5": 1})
    class Counter:
        def __init__(self):
            self.calls = 0
        def count(self):
            self.calls += 1
            return self.calls

    counter, number = Counter.remote(), 0
    with open(os.environ["DONE"], "a", buffering=1) as done:
        while not os.path.exists(os.environ["STOP"]):
            number += 1
            _internal_kv_put(f"key {number}", f"value {number}")
            done.write(f"{number}\\n")
            assert ray.get(counter.count.remote(), timeout=100) == number
    for key in range(1, number + 1):
        assert _internal_kv_get(f"key {key}") == f"value {key}".encode(), key
    print(f"keys={number}")
"""


class Field:
    """Three machines with a member of etcd each, two with a head each, one that works."""

    def __init__(self) -> None:
        self.field = Machines(6)
        self.members, self.heads = self.field.all[:3], self.field.all[3:5]
        self.worker = self.field.all[5]
        self.started: list[subprocess.Popen[bytes]] = []
        self.waiting: subprocess.Popen[bytes] | None = None
        self.said = (self.field.directory / f"said{number}" for number in itertools.count())
        places = ",".join(f"{member.ip}:{CLIENT}" for member in self.members)
        self.env = {"HELIOSTAT_CONTROL_STORE": f"etcd://{places}"}
        cluster = ",".join(f"{one.name}=http://{one.ip}:{PEER}" for one in self.members)
        for member in self.members:
            own, peer = f"http://{member.ip}:{CLIENT}", f"http://{member.ip}:{PEER}"
            self.spawn(
                member,
                *("etcd", "--name", member.name, "--data-dir", str(member.directory / "etcd")),
                *("--listen-client-urls", own, "--advertise-client-urls", own),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", cluster),
            )

    def spawn(self, machine: Machine, *argv: str) -> Path:
        """Start something that stays; the file of what it says."""
        said = next(self.said)
        with said.open("wb") as out:
            command = machine.command(argv, self.env)
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            self.started.append(subprocess.Popen(command, env=harness.clean_env(), **streams))
        return said

    def two_heads(self) -> tuple[Machine, Machine]:
        """The one that leads, and the other, which waits. A busy one may have lost its lease meanwhile."""
        if self.waiting is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # It is about to lead, then.
                self.waiting.wait(1)
            if self.waiting.poll() is None:
                leader, other = sorted(self.heads, key=self.leads, reverse=True)
                return leader, other
        harness.wait_until(
            lambda: [self.leads(head) for head in self.heads].count(True) == 1,
            what="one head that leads",
        )
        leader, other = sorted(self.heads, key=self.leads, reverse=True)
        self.stand_by(other)
        return leader, other

    def stand_by(self, head: Machine) -> None:
        options = head.common("--num-cpus=0", "--include-dashboard=false")
        said = self.spawn(head, str(HELIOSTAT), "start", "--head", f"--port={PORT}", *options)
        harness.wait_until(lambda: "This head waits" in said.read_text(), what="a head that waits")
        self.waiting = self.started[-1]

    def leads(self, head: Machine) -> bool:
        found = list((head.directory / "tmp" / "ray").glob("session_2*/node.pid"))
        places = [f"/proc/{path.read_text().strip()}" for path in found]
        return any(head.run("test", "-e", place, check=False).returncode == 0 for place in places)

    def heal(self) -> None:
        for machine in self.field.all:
            machine.heal()

    def close(self) -> None:
        self.field.close()
        for process in self.started:
            process.wait(60)


@pytest.fixture
def field(_can_make: None) -> Iterator[Field]:
    if reason := stores.why_no_etcd():
        pytest.skip(reason)
    made = Field()
    yield made
    made.close()


def apart(field: Field, one: Iterable[Machine], other: Iterable[Machine]) -> None:
    field.field.partition(one, other)


def test_links_of_an_etcd_fail_and_no_acknowledged_key_is_lost(field: Field) -> None:
    first, _ = field.heads
    first.start_head("--num-cpus=0", "--include-dashboard=false", env=field.env)
    field.worker.join(first)
    field.two_heads()
    done, stop = field.field.directory / "done", field.field.directory / "stop"
    done.touch()
    driver = field.worker.start_script(KEYS, env={"DONE": str(done), "STOP": str(stop)})

    def goes_on(what: str) -> None:
        """Ten keys more: nine of them were begun after this."""
        before = len(done.read_text().splitlines())

        def is_further() -> bool:
            assert driver.process.poll() is None, driver.stderr()
            return len(done.read_text().splitlines()) >= before + 10

        harness.wait_until(is_further, what=f"keys {what}")

    goes_on("at the beginning")
    # From its own members: one of the three leads the others.
    for member in field.members:
        rest = [other for other in field.members if other is not member]
        apart(field, [member], rest)
        goes_on("while a member is away from the others")
        field.heal()
        goes_on("with all members")
    # From one head.
    leader, other = field.two_heads()
    apart(field, [leader], field.members)
    harness.wait_until(lambda: field.leads(other), what="the other head to lead")
    goes_on("with the other head")
    field.heal()
    # From both.
    leader, other = field.two_heads()
    apart(field, field.heads, field.members)
    silent = "silent until it is"
    harness.wait_until(lambda: silent in leader.logs(), what="a head that falls silent")
    field.heal()
    goes_on("after both heads were cut off")
    stop.touch()
    assert int(driver.finish().check().value("keys")) >= 10
