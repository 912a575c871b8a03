"""Heads that keep the cluster's state in Redis or etcd: another head goes on with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import clocks, stores
from tests.helpers.certificates import Authority
from tests.helpers.commands import CLI
from tests.helpers.harness import is_alive, start_driver, wait_until
from tests.helpers.shared import cluster as shared
from tests.helpers.stores import Machine, Redis

pytestmark = [
    pytest.mark.contract("F5.10"),
    pytest.mark.heliostat_only("Ray's heads have no lease, and other logs"),
]

DRIVER = """
import os, sys, time
import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

ray.init(address="auto", namespace="n")
go = sys.argv[1]

@ray.remote(num_cpus=0, resources={"far": 0.1})
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count, os.getpid()

@ray.remote
def twice(value):
    return 2 * value

def wait(name):
    while not os.path.exists(os.path.join(go, name)):
        # What needs no head goes on.
        assert ray.get(twice.remote(21), timeout=100) == 42
        time.sleep(0.01)

counter = Counter.options(name="counter", lifetime="detached").remote()
first, pid = ray.get(counter.add.remote(), timeout=60)
_internal_kv_put("key", "value")
print("first=%d" % first, flush=True)
wait("again")
second, same = ray.get(counter.add.remote(), timeout=60)
print("second=%d" % second, flush=True)
print("process=%s" % ("same" if same == pid else "another"), flush=True)
named, _ = ray.get(ray.get_actor("counter").add.remote(), timeout=60)
print("named=%d" % named, flush=True)
print("value=%s" % _internal_kv_get("key").decode(), flush=True)
other = Counter.remote()
print("other=%d" % ray.get(other.add.remote(), timeout=60)[0], flush=True)
print("nodes=%d" % sum(node["Alive"] for node in ray.nodes()), flush=True)
"""


@pytest.fixture
def redis() -> Iterator[Redis]:
    if reason := stores.why_no_redis():
        pytest.skip(reason)
    shared.stop()
    redis = Redis()
    yield redis
    redis.close()


@pytest.fixture
def machines(store: Redis) -> Iterator[list[Machine]]:
    variables = {**store.variables, "HELIOSTAT_CONTROL_LEASE_MS": "1000"}
    with stores.machines(variables, 3) as all_machines:
        yield all_machines


def join(worker: Machine, head: Machine) -> None:
    worker.run("start", f"--address={head.address}", "--num-cpus=2", '--resources={"far": 1}')


def drive(folder: Path, worker: Machine) -> Any:
    return start_driver(folder, DRIVER, args=[str(folder)], env=worker.env)


def led(head: Machine, worker: Machine, folder: Path) -> Any:
    """A head with a worker machine, and a driver there that has made its first call."""
    head.head()
    join(worker, head)
    driver = drive(folder, worker)
    assert driver.wait_line("first") == "1"
    return driver


def check(driver: Any, folder: Path) -> None:
    """After another head has taken over, the driver goes on."""
    (folder / "again").touch()
    done = driver.finish().check()
    said = [done.value(name) for name in ("second", "process", "named", "value", "other")]
    assert said == ["2", "same", "3", "value", "1"]


def test_a_head_on_another_machine_goes_on_with_the_cluster(
    machines: list[Machine], tmp_path: Path
) -> None:
    first, second, worker = machines
    driver = led(first, worker, tmp_path)
    daemon = worker.pid()
    first.kill()
    second.head()
    assert second.address != first.address
    wait_until(lambda: worker.address == second.address, what="the news of the head")
    check(driver, tmp_path)
    assert worker.pid() == daemon
    # Whoever comes later finds all of it, too.
    later = "import ray; ray.init('auto', namespace='n'); c = ray.get_actor('counter'); "
    later += "print('later=%d' % ray.get(c.add.remote(), timeout=60)[0])"
    assert start_driver(tmp_path, later, env=worker.env).finish().check().value("later") == "4"
    assert "far" in worker.run("status").stdout


def test_a_head_that_waits_takes_over_when_the_leader_is_killed(
    machines: list[Machine], tmp_path: Path
) -> None:
    first, second, worker = machines
    driver = led(first, worker, tmp_path)
    said = second.standby()
    assert f":{first.port} (process {first.pid()}) leads the cluster" in said.read_text()
    assert not second.sessions(), "it is no member of the cluster yet"
    first.kill()
    assert second.starts[0].wait(60) == 0, said.read_text()
    assert "Ray runtime started" in said.read_text()
    check(driver, tmp_path)


def test_a_head_whose_clock_is_a_day_off_waits_and_leads_as_any_other(
    machines: list[Machine], tmp_path: Path
) -> None:
    """Leases are counted by no wall clock."""
    if reason := clocks.why_not():
        pytest.skip(reason)
    first, second, worker = machines
    made = clocks.Clocks(tmp_path)
    driver = led(first, worker, tmp_path)
    second.env.update(made.off(clocks.DAY_S))
    said = second.standby()
    assert "leads the cluster" in said.read_text()
    first.kill()
    assert second.starts[0].wait(60) == 0, said.read_text()
    # And one whose clock is a day behind after one that was a day ahead.
    first.env.update(made.off(-clocks.DAY_S))
    again = first.standby()
    second.kill()
    assert first.starts[-1].wait(60) == 0, again.read_text()
    check(driver, tmp_path)


def test_a_head_that_ends_in_order_leaves_the_cluster_to_the_next(
    machines: list[Machine], tmp_path: Path
) -> None:
    first, second, worker = machines
    driver = led(first, worker, tmp_path)
    second.standby()
    first.run("stop")
    assert second.starts[0].wait(60) == 0
    check(driver, tmp_path)


def test_a_head_that_stood_still_does_no_harm_when_it_wakes(
    machines: list[Machine], tmp_path: Path
) -> None:
    first, second, worker = machines
    driver = led(first, worker, tmp_path)
    second.standby()
    old = first.pid()
    os.kill(old, signal.SIGSTOP)
    assert second.starts[0].wait(60) == 0
    wait_until(lambda: worker.address == second.address, what="the news of the head")
    os.kill(old, signal.SIGCONT)
    wait_until(lambda: not is_alive(old), what="the end of the old head")
    assert f"the head at {second.address}" in first.log(), "it says who leads now"
    check(driver, tmp_path)


def test_a_store_that_is_away_for_a_while_costs_a_pause(
    machines: list[Machine], store: Redis, tmp_path: Path
) -> None:
    first, _, worker = machines
    driver = led(first, worker, tmp_path)
    store.signal(signal.SIGSTOP)
    wait_until(lambda: "silent until it is" in first.log(), what="a head without a lease")
    store.signal(signal.SIGCONT)
    wait_until(lambda: "is reached again" in first.log(), what="a head with its lease")
    check(driver, tmp_path)
    # The same with a server that dies and comes back.
    store.kill()
    wait_until(lambda: first.log().count("silent until it is") == 2, what="a silent head")
    store.start()
    assert "1.0 far" in wait_until(lambda: status(worker), what="a status")


def status(machine: Machine) -> str:
    done = machine.run("status", check=False)
    return done.stdout if done.returncode == 0 and "far" in done.stdout else ""


def test_a_store_that_takes_no_writes_for_a_while_ends_nothing(
    redis: Redis, tmp_path: Path
) -> None:
    variables = {**redis.variables, "HELIOSTAT_CONTROL_LEASE_MS": "1000"}
    with stores.machines(variables, 2) as (head, worker):
        driver = led(head, worker, tmp_path)
        # As after a failover that went wrong.
        redis.ask("REPLICAOF 127.0.0.1 1")
        wait_until(lambda: "silent until it is" in head.log(), what="a head without a lease")
        assert "READONLY" in head.log()
        redis.ask("REPLICAOF NO ONE")
        wait_until(lambda: "is reached again" in head.log(), what="a head with its lease")
        check(driver, tmp_path)


def test_jobs_of_the_head_before_are_listed(redis: Redis) -> None:
    variables = {"RAY_REDIS_ADDRESS": redis.address, "HELIOSTAT_CONTROL_LEASE_MS": "1000"}
    with stores.machines(variables, 2) as (first, second):
        first.head("--include-dashboard=true", "--dashboard-port=0")
        submit(first, "done", "echo finished")
        wait_until(lambda: jobs(first).get("done") == "SUCCEEDED", what="the end of a job")
        submit(first, "lost", "sleep 600")
        wait_until(lambda: jobs(first).get("lost") == "RUNNING", what="a job")
        first.kill()
        second.head("--include-dashboard=true", "--dashboard-port=0")
        expect = {"done": "SUCCEEDED", "lost": "FAILED"}
        wait_until(lambda: jobs(second) == expect, what="the jobs of the head before")
        submit(second, "next", "echo next")
        wait_until(lambda: jobs(second).get("next") == "SUCCEEDED", what="another job")


def server(head: Machine) -> str:
    return f"--address=http://{head.ready()['webui_url']}"


def submit(head: Machine, name: str, command: str) -> None:
    job = (f"--submission-id={name}", "--no-wait", "--", *command.split())
    head.run("job", "submit", server(head), *job)


def jobs(head: Machine) -> dict[str, str]:
    script = (
        "import json, sys; from ray.job_submission import JobSubmissionClient as C; "
        "print(json.dumps({j.submission_id: j.status for j in C(sys.argv[1]).list_jobs()}))"
    )
    url = f"http://{head.ready()['webui_url']}"
    done = subprocess.run(
        [sys.executable, "-c", script, url],
        env=head.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_stores_that_cannot_be_used_are_refused_in_a_sentence(redis: Redis) -> None:
    with stores.machines({}, 3) as (first, second, third):
        for store, part in [
            ("etcd://127.0.0.1:1,:2", "the host is missing"),
            ("postgres://127.0.0.1", "a store is redis://HOST:PORT"),
            ("redis://127.0.0.1:port", "'port' is not a port"),
        ]:
            done = first.head(f"--control-store={store}", check=False)
            assert done.returncode != 0
            assert part.replace("'", '"') in done.stdout
        first.head(f"--control-store=redis://{redis.address}")
        first.kill()
        second.env["HELIOSTAT_AUTH_TOKEN"] = "x" * 40
        done = second.head(f"--control-store=redis://{redis.address}", check=False)
        assert done.returncode != 0
        assert "it holds the state of a cluster with another token" in done.stdout
        second.env["RAY_external_storage_namespace"] = "second"
        second.head(f"--control-store=redis://{redis.address}")
        done = third.run("start", "--address=127.0.0.1:1", "--control-store=redis://a", check=False)
        assert "`--control-store` should only be specified when starting head node" in done.stdout


def test_what_answers_and_is_no_store_is_told_in_a_line(redis: Redis) -> None:
    replica = Redis("--replicaof", "127.0.0.1", "1")
    silent = socket.create_server(("127.0.0.1", 0))
    try:
        for store, why in [
            (f"etcd://{redis.address}", "cannot be used: 127.0.0.1"),
            (f"etcds://{redis.address}", "cannot be used: 127.0.0.1"),
            (f"redis://{replica.address}", "Give the address of the server that it copies"),
            (f"redis://127.0.0.1:{silent.getsockname()[1]}", "no answer within"),
            ("redis://127.0.0.1:1", "Connection refused"),
        ]:
            with stores.machines({}, 1) as (head,):
                argv = ("start", "--head", f"--port={head.port}", f"--control-store={store}")
                said = said_by(head, argv, why)
                assert len([line for line in said.splitlines() if store in line]) == 1, said
                assert "Traceback" not in said
    finally:
        silent.close()
        replica.close()


def test_a_password_is_asked_for_and_not_shown(redis: Redis) -> None:
    locked = Redis("--requirepass", "secret word")
    try:
        with stores.machines({"RAY_REDIS_ADDRESS": locked.address}, 1) as (head,):
            done = head.head(check=False)
            assert done.returncode != 0
            assert "`--redis-password` or RAY_REDIS_PASSWORD" in done.stdout
            head.head("--redis-password=secret word")
            command = Path(f"/proc/{head.pid()}/cmdline").read_bytes()
            assert b"secret" not in command
            assert "secret" not in head.log()
    finally:
        locked.close()


def test_the_state_is_deleted_as_kuberay_does(redis: Redis) -> None:
    from ray._private.gcs_utils import cleanup_redis_storage

    variables = {"RAY_REDIS_ADDRESS": redis.address, "RAY_external_storage_namespace": "ours"}
    with stores.machines(variables, 1) as (head,):
        head.head()
        head.run("stop")
        place = ("127.0.0.1", redis.port, "", False)
        assert not cleanup_redis_storage(*place, storage_namespace="theirs")
        assert cleanup_redis_storage(*place, storage_namespace="ours")
        assert not cleanup_redis_storage(*place, storage_namespace="ours")
    with pytest.raises(ValueError, match="storage namespace must be a string"):
        cleanup_redis_storage("h", 1, "", False, None)  # type: ignore[arg-type]


@pytest.fixture(params=["redis", "etcd"])
def encrypted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redis]:
    if reason := stores.why_no_redis() if request.param == "redis" else stores.why_no_etcd():
        pytest.skip(reason)
    shared.stop()
    kind = stores.EncryptedRedis if request.param == "redis" else stores.EncryptedEtcd
    store = kind(Authority(tmp_path / "authority"))
    yield store
    store.close()


def test_stores_are_reached_over_tls(encrypted: Redis, tmp_path: Path) -> None:
    """A head takes over with the state, and every certificate that is of no use is told in one line."""
    lease = {"HELIOSTAT_CONTROL_LEASE_MS": "1000"}
    with stores.machines({**encrypted.variables, **lease}, 3) as (first, second, worker):
        driver = led(first, worker, tmp_path)
        first.kill()
        second.head()
        check(driver, tmp_path)
    stranger = Authority(tmp_path / "stranger", "strangers")
    (certificate, key), variables = stranger.sign("head"), encrypted.variables
    believed, shown, of_key = (
        next(name for name in variables if name.endswith(end))
        for end in ("_CA_CERT", "_CLIENT_CERT", "_CLIENT_KEY")
    )
    missing = "variable of its key is not"
    for changed, why in [
        ({believed: str(stranger.path)}, f"its certificate is not of an authority in {believed}"),
        ({believed: str(tmp_path / "none")}, f"{believed}={tmp_path / 'none'} cannot be used"),
        ({shown: str(certificate), of_key: str(key)}, "it ended the TLS session"),
        ({of_key: ""}, f"{shown} is set and the {missing}"),
    ]:
        with stores.machines({**variables, **changed}, 1) as (head,):
            start = ("start", "--head", f"--port={head.port}", "--include-dashboard=false")
            said = said_by(head, start, why)
            assert "Traceback" not in said


def said_by(head: Machine, argv: tuple[str, ...], why: str) -> str:
    """What a start says until it says that; it may go on trying."""
    out = head.home / "said"
    with out.open("w") as stream:
        start = subprocess.Popen(
            [CLI, *argv],
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env=head.env,
        )
    try:
        wait_until(lambda: why in out.read_text() or start.poll() is not None, what=why)
        assert start.poll() != 0
        said = out.read_text()
        assert why in said, said
        return said
    finally:
        start.kill()
        start.wait()


def test_redis_over_tls_is_cleaned_as_kuberay_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray._private.gcs_utils import cleanup_redis_storage

    if reason := stores.why_no_redis():
        pytest.skip(reason)
    redis = stores.EncryptedRedis(Authority(tmp_path / "authority"))
    try:
        variables = redis.variables
        with stores.machines(variables, 1) as (head,):
            head.head()
            head.run("stop")
        for name in ("RAY_REDIS_CA_CERT", "RAY_REDIS_CLIENT_CERT", "RAY_REDIS_CLIENT_KEY"):
            monkeypatch.setenv(name, variables[name])
        place = ("127.0.0.1", redis.port, "", True)
        assert cleanup_redis_storage(*place, storage_namespace="default")
        assert not cleanup_redis_storage(*place, storage_namespace="default")
    finally:
        redis.close()
