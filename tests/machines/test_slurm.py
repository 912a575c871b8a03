"""`symmetric-run` as Slurm starts it: on every machine at once, cancelled at any time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, TOKEN, Machine, Machines
from tests.machines.slurm import Fake, Slurm, why_no_slurm

pytestmark = [pytest.mark.heliostat_only("machines of namespaces")]

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "examples" / "slurm" / "training.sbatch"

COUNT = """
import os, ray, sys
ray.init()
alive = [node for node in ray.nodes() if node["Alive"]]
print("nodes", len(alive), "cpus", int(ray.cluster_resources()["CPU"]), flush=True)

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where():
    return ray.get_runtime_context().get_node_id()

print("used", len(set(ray.get([where.remote() for _ in range(12)]))), flush=True)
sys.exit(int(sys.argv[1]))
"""

STAY = """
import ray, signal, sys, time

def save(*_):
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
ray.init()

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Worker:
    def stay(self):
        time.sleep(600)

workers = [Worker.remote() for _ in range(3)]
calls = [worker.stay.remote() for worker in workers]
ray.get([worker.__ray_ready__.remote() for worker in [Worker.options(num_cpus=0).remote()]])
print("running", flush=True)
ray.get(calls)
"""


@pytest.fixture
def machines(_can_make: None) -> Iterator[list[Machine]]:
    with Machines(3) as all_machines:
        yield all_machines


def write(machine: Machine, text: str) -> Path:
    script = machine.directory / "script.py"
    script.write_text(text)
    return script


def heliostats(machines: list[Machine]) -> list[str]:
    """What of Heliostat still runs on the machines."""
    every = [line for machine in machines for line in machine.processes()]
    words = ("heliostat", "ray::", "symmetric-run", "script.py")
    return [line for line in every if any(word in line for word in words)]


@pytest.mark.contract("F6.32")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=["head first", "head last"])
def test_a_job_is_a_cluster_in_whatever_order_its_tasks_start(
    machines: list[Machine], order: tuple[int, ...]
) -> None:
    script = write(machines[0], COUNT)
    job = Fake(machines).submit(
        SCRIPT, str(script), "3", cwd=CHECKOUT, order=order, SLURM_CPUS_ON_NODE="1"
    )
    assert job.wait() == 3, job.output()
    said = job.output()
    # Slurm gave one CPU of each machine, whatever the machine has.
    assert "nodes 3 cpus 3" in said, said
    assert "used 3" in said, said
    assert said.count("The cluster has ended.") == 2, said
    harness.wait_until(lambda: not heliostats(machines), what=str(heliostats(machines)))


@pytest.mark.contract("F6.32")
def test_two_jobs_of_the_same_machines_do_not_meet(machines: list[Machine]) -> None:
    slurm = Fake(machines)
    script = write(machines[0], COUNT)
    jobs = [
        slurm.submit(SCRIPT, str(script), str(code), cwd=CHECKOUT, SLURM_CPUS_ON_NODE="1")
        for code in (0, 4)
    ]
    assert [job.wait() for job in jobs] == [0, 4], "\n".join(job.output() for job in jobs)
    for job in jobs:
        assert "nodes 3 cpus 3" in job.output()


@pytest.mark.contract("F6.32")
@pytest.mark.parametrize("how", ["scancel", "only symmetric-run is killed"])
def test_a_cancelled_job_leaves_nothing(machines: list[Machine], how: str) -> None:
    script = write(machines[0], STAY)
    job = Fake(machines).submit(SCRIPT, str(script), cwd=CHECKOUT, SLURM_CPUS_ON_NODE="1")
    harness.wait_until(lambda: "running" in job.output(), what=job.output())
    if how == "scancel":
        job.cancel()
        assert "saved" in job.output()
    else:
        for machine in machines:
            machine.run("pkill", "-KILL", "-f", "symmetric-run --address", check=False)
            machine.run("pkill", "-KILL", "-f", "script.py", check=False)
        job.wait()
    harness.wait_until(lambda: not heliostats(machines), what=str(heliostats(machines)))


@pytest.mark.contract("F6.32")
def test_a_machine_that_does_not_come_is_counted(machines: list[Machine]) -> None:
    job = Fake(machines).submit(
        SCRIPT,
        "never.py",
        cwd=CHECKOUT,
        order=(0, 1),
        RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT="5",
    )
    assert job.wait() == 1
    assert "2 of 3 nodes were there after 5 s" in job.output()
    harness.wait_until(lambda: not heliostats(machines), what=str(heliostats(machines)))


@pytest.mark.contract("F6.32")
def test_a_head_that_does_not_come_is_named(machines: list[Machine]) -> None:
    env = {"RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT": "2", "HELIOSTAT_AUTH_TOKEN": TOKEN}
    address = f"--address={machines[0].ip}:7777"
    done = machines[1].run(
        str(HELIOSTAT), "symmetric-run", address, "--", "true", env=env, check=False
    )
    assert done.returncode == 1
    assert f"The head at {machines[0].ip}:7777 did not answer within 2 s" in done.stderr


@pytest.mark.contract("F6.32")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--address=127.0.0.1:7777", "--head", "--", "true"], "`--head` cannot be given"),
        (["--address=127.0.0.1:7777", "--port=1", "--", "true"], "`--port` cannot be given"),
        (["--address=127.0.0.1:7777", "--block", "--", "true"], "`--block` cannot be given"),
        (["--address=127.0.0.1:7777", "--min-nodes=2", "--", "true"], "loopback address"),
        (["--address=127.0.0.1", "--", "true"], "<host>:<port>"),
        (["--address=no.such.host.invalid:1", "--", "true"], "no.such.host.invalid"),
        (["--address=127.0.0.1:7777", "--", "/no/such/program"], "/no/such/program"),
        (["--address=127.0.0.1:7777"], "COMMAND"),
        (["--", "true"], "--address"),
    ],
)
def test_wrong_words_are_refused(machines: list[Machine], arguments: list[str], said: str) -> None:
    done = machines[0].run(str(HELIOSTAT), "symmetric-run", *arguments, check=False)
    assert done.returncode != 0
    assert said in done.stderr, done.stderr
    assert not heliostats(machines)


@pytest.mark.contract("F6.32")
def test_the_command_knows_its_cluster(make_machines: Callable[[int], list[Machine]]) -> None:
    """Another cluster runs on the machine; the command is not told of that one."""
    (machine,) = make_machines(1)
    address = f"{machine.ip}:7777"
    env = {
        "HELIOSTAT_ADDRESS": f"{machine.ip}:6379",
        "SLURM_JOB_ID": "1",
        "SLURM_CPUS_ON_NODE": "1",
    }
    run = [str(HELIOSTAT), "symmetric-run", f"--address={address}", "--", "printenv", "RAY_ADDRESS"]
    assert address in machine.run(*run, env=env).stdout.splitlines()
    status = machine.run(str(HELIOSTAT), "status").stdout
    assert "1 node" in status.lower() or "Active" in status, status
    killed = [*run[:-2], "bash", "-c", f"kill -{signal.SIGKILL} $$"]
    assert machine.run(*killed, check=False).returncode == 128 + signal.SIGKILL


@pytest.mark.contract("F6.32")
@pytest.mark.parametrize("ends", ["by itself", "scancel"])
def test_debians_slurm_runs_the_documented_script(machines: list[Machine], ends: str) -> None:
    reason = why_no_slurm()
    if reason:
        pytest.skip(f"Slurm: {reason}; `make test-extras` installs it")
    slurm = Slurm(machines)
    if ends == "by itself":
        job = slurm.submit(SCRIPT, str(write(machines[0], COUNT)), "3", cwd=CHECKOUT)
        assert job.wait() == 3, job.output() + slurm.logs
        assert "nodes 3 cpus 3" in job.output()
    else:
        job = slurm.submit(SCRIPT, str(write(machines[0], STAY)), cwd=CHECKOUT)
        harness.wait_until(lambda: "running" in job.output(), what=slurm.logs)
        job.cancel()
    harness.wait_until(lambda: not heliostats(machines), what=str(heliostats(machines)))
