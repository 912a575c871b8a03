"""Slurm over machines of namespaces: the real one, or a stand-in that only starts the command of `srun`.

Both run a job's script on the first machine, as `sbatch` does, and its `srun` on all of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers import harness
from tests.machines.machines import Machine

# The programs that Debian's packages slurmctld, slurmd, slurm-client and munge bring.
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scancel", "munged", "mungekey")

# What stands for srun: it says what it was told, and its end is what the test makes of it.
SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
env -0 > "$STEP/env"
printf '%s\\0' "$@" > "$STEP/command.part"
mv "$STEP/command.part" "$STEP/command"
until [ -e "$STEP/code" ]; do sleep 0.05; done
exit "$(cat "$STEP/code")"
"""
SCONTROL = """#!/bin/bash
echo "$3" | tr , '\\n'
"""


@dataclass
class Job:
    """A job that was submitted."""

    wait: Callable[[], int]
    """Waits for its end; its exit code."""
    output: Callable[[], str]
    """What it has printed so far."""
    cancel: Callable[[], None]
    """As `scancel`: SIGTERM to all of it, and SIGKILL to what is left after a while."""


class Fake:
    """Starts what a job's `srun` is told on every machine, in an order that the test chooses."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = list(machines)
        self.directory = machines[0].field.directory / "slurm"
        self.directory.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (self.directory / name).write_text(text)
            (self.directory / name).chmod(0o755)
        self._count = 0

    def submit(
        self, script: Path, *arguments: str, cwd: Path, order: Sequence[int] = (), **given: str
    ) -> Job:
        """Run the script as a job of all machines; `given`: variables that Slurm would set."""
        self._count += 1
        step = self.directory / f"job{self._count}"
        step.mkdir()
        variables = {
            "SLURM_JOB_ID": str(self._count),
            "SLURM_JOB_NODELIST": ",".join(machine.ip for machine in self.machines),
            "SLURM_JOB_NUM_NODES": str(len(self.machines)),
            "STEP": str(step),
            "PATH": f"{self.directory}:{os.environ['PATH']}",
            **given,
        }
        output = step / "output"
        batch = self._start(
            self.machines[0], ["bash", str(script), *arguments], variables, output, cwd
        )
        harness.wait_until(
            lambda: (step / "command").exists() or batch.poll() is not None, what="srun"
        )
        assert batch.poll() is None, output.read_text()
        command = (step / "command").read_text().split("\0")[:-1]
        inherited = dict(
            line.split("=", 1) for line in (step / "env").read_text().split("\0") if "=" in line
        )
        kept = {name: inherited[name] for name in inherited if name not in ("HOME", "PWD", "_")}
        tasks = [
            self._start(self.machines[index], command, kept, output, cwd)
            for index in order or range(len(self.machines))
        ]

        def wait() -> int:
            codes = [task.wait(120) for task in tasks]
            (step / "code").write_text(str(max(codes)))
            return batch.wait(60)

        def cancel() -> None:
            for machine in self.machines:
                machine.signal_all(signal.SIGTERM)
            for task in tasks:
                try:
                    task.wait(30)
                except subprocess.TimeoutExpired:
                    task.kill()
            for machine in self.machines:
                machine.signal_all(signal.SIGKILL)
            wait()

        return Job(wait, output.read_text, cancel)

    def _start(
        self, machine: Machine, argv: list[str], env: dict[str, str], output: Path, cwd: Path
    ) -> subprocess.Popen[bytes]:
        command = machine.command(["env", f"--chdir={cwd}", *argv], env)
        with output.open("ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=harness.clean_env(),
                start_new_session=True,
            )


def why_no_slurm() -> str:
    """Why Slurm cannot be started here; empty when it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


CONF = """
ClusterName=test
SlurmctldHost=machine0({head})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=20
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass
class Slurm:
    """Debian's Slurm: the controller on the first machine, a daemon on each."""

    machines: list[Machine]
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.machines[0].field.directory / "slurm"
        (self.folder / "state").mkdir(parents=True)
        cores = os.cpu_count() or 1
        nodes = "\n".join(
            f"NodeName=machine{m.index} NodeAddr={m.ip} CPUs={cores} RealMemory=500 State=UNKNOWN"
            for m in self.machines
        )
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(head=self.machines[0].ip, folder=self.folder, nodes=nodes))
        self.env = {"SLURM_CONF": str(conf)}
        # Where the kernel has the controllers in the first version of control groups, Slurm takes that one.
        first = "memory" in Path("/proc/self/cgroup").read_text()
        plugin = "CgroupPlugin=cgroup/v1\nCgroupAutomount=yes\n" if first else "IgnoreSystemd=yes\n"
        conf.with_name("cgroup.conf").write_text(plugin)
        self.machines[0].field.directory.chmod(0o755)  # munge looks at the whole way to its socket
        hosts = self.folder / "hosts"
        names = [f"{m.ip} machine{m.index}\n" for m in self.machines]
        hosts.write_text("".join(["127.0.0.1 localhost\n", *names]))
        for machine in self.machines:
            machine.run("mount", "--bind", str(hosts), "/etc/hosts")
        key, socket = self.folder / "munge.key", self.folder / "munge.socket"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("log", "pid", "seed")]
        self.machines[0].run("munged", "--force", f"--key-file={key}", f"--socket={socket}", *files)
        self.machines[0].run("slurmctld", "-f", str(conf), env=self.env)
        for machine in self.machines:
            (self.folder / f"spool.machine{machine.index}").mkdir()
            if not first:
                machine.run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
            machine.run("slurmd", "-f", str(conf), env=self.env)
        ready = ["sinfo", "--noheader", "--format=%T %D"]

        def all_idle() -> bool:
            said = self.machines[0].run(*ready, env=self.env, check=False).stdout.split()
            return said == ["idle", str(len(self.machines))]

        harness.wait_until(all_idle, what=f"idle nodes; {self.logs}")

    @property
    def logs(self) -> str:
        """The ends of the daemons' logs."""
        return "\n".join(path.read_text()[-1500:] for path in sorted(self.folder.glob("*.log")))

    def submit(self, script: Path, *arguments: str, cwd: Path) -> Job:
        """Run the script as a job of all machines."""
        head, output = self.machines[0], self.folder / f"output.{time.monotonic_ns()}"
        command = ["sbatch", "--parsable", f"--nodes={len(self.machines)}", "--cpus-per-task=1"]
        command += [f"--chdir={cwd}", f"--output={output}", str(script), *arguments]
        number = head.run(*command, env=self.env).stdout.strip()

        def ended() -> Iterator[str]:
            shown = ["scontrol", "--oneliner", "show", "job", number]
            words = head.run(*shown, env=self.env).stdout.split()
            found = dict(word.split("=", 1) for word in words if "=" in word)
            if found["JobState"] in ("COMPLETED", "FAILED", "CANCELLED"):
                yield found["ExitCode"].split(":")[0]

        def wait() -> int:
            return int(harness.wait_until(lambda: list(ended()), what="the job")[0])

        def said() -> str:  # the file is there from the job's start on
            return output.read_text() if output.exists() else ""

        def cancel() -> None:
            head.run("scancel", number, env=self.env)
            wait()

        return Job(wait, said, cancel)
