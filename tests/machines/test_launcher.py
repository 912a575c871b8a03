"""`ray up` and what belongs to it, by a real ssh to machines of namespaces."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helpers import harness
from tests.machines import fake_docker, sshd
from tests.machines.machines import HELIOSTAT, Machine, Machines

pytestmark = [pytest.mark.heliostat_only("machines of namespaces")]

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "on-premise.md"
RAY = HELIOSTAT.with_name("ray")
# A machine of namespaces has no route by which it could know its own address.
OWN_IP = "--node-ip-address=$(hostname -I | cut -d' ' -f1)"
FEW = f"--num-cpus=1 --object-store-memory=100000000 {OWN_IP}"


class Cluster:
    """Three machines, a file that describes them, and a fourth on which its user works."""

    def __init__(self, machines: list[Machine]) -> None:
        *self.machines, self.desk = machines
        self.head, *self.workers = self.machines
        self.key = sshd.start(self.machines)
        self.file = self.desk.directory / "cluster.yaml"
        self.write()

    def write(self, *, worker_ips: list[str] | None = None, more: str = "") -> None:
        ips = [one.ip for one in self.workers] if worker_ips is None else worker_ips
        text = textwrap.dedent(
            f"""
            cluster_name: team
            provider:
              type: local
              head_ip: {self.head.ip}
              worker_ips: [{", ".join(ips)}]
            auth:
              ssh_user: root
              ssh_private_key: {self.key}
            head_start_ray_commands:
              - ray stop
              - ray start --head --port=6379 --autoscaling-config=~/x.yaml {FEW}
            worker_start_ray_commands:
              - ray stop
              - ray start --address=$RAY_HEAD_IP:6379 {FEW}
            """
        )
        self.file.write_text(text + textwrap.dedent(more))

    def ray(
        self, command: str, *words: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        argv = [str(RAY), command, str(self.file), *words]
        return self.desk.run("env", "-u", "HELIOSTAT_AUTH_TOKEN", *argv, check=check)

    def nodes(self) -> int:
        said = self.ray("exec", "ray list nodes --format json --filter state=ALIVE").stdout
        return said.count('"node_id"')


@pytest.fixture
def cluster(_can_make: None) -> Iterator[Cluster]:
    reason = sshd.why_no_ssh()
    if reason:
        pytest.skip(reason)
    with Machines(4) as machines:
        yield Cluster(machines)


@pytest.mark.contract("F6.29", "F6.30", "F6.37")
def test_a_file_becomes_a_cluster_that_is_used_and_stopped(cluster: Cluster) -> None:
    material = cluster.desk.directory / "material"
    material.mkdir()
    (material / "words.txt").write_text("one\n")
    (material / "words.pyc").write_text("left out\n")
    cluster.write(
        more=f"""
        file_mounts: {{"~/data/set": "{material}"}}
        rsync_exclude: ["*.pyc"]
        setup_commands:
          - echo "$RAY_CLUSTER_NAME $FROM_BASHRC $(cat ~/data/set/words.txt)" >> ~/setups
        head_setup_commands: ["echo head >> ~/setups"]
        worker_setup_commands: ["echo worker >> ~/setups"]
        """
    )
    up = cluster.ray("up", "--yes")
    assert f"[{cluster.workers[1].ip}] $ ray start" in up.stdout, up.stdout
    assert cluster.nodes() == 3
    for machine, kind in zip(cluster.machines, ("head", "worker", "worker"), strict=True):
        home = machine.directory / "home"
        assert (home / "setups").read_text() == f"team 1 one\n{kind}\n"
        assert not (home / "data" / "set" / "words.pyc").exists()
        assert (home / ".heliostat" / "auth_token").stat().st_mode & 0o077 == 0
    assert cluster.ray("get-head-ip").stdout == f"{cluster.head.ip}\n"
    ips = [one.ip for one in cluster.workers]
    assert sorted(cluster.ray("get-worker-ips").stdout.split()) == ips

    script = cluster.desk.directory / "my script.py"
    script.write_text(
        "import ray, sys\nray.init('auto')\n"
        "print(sys.argv[1:], ray.cluster_resources()['CPU'])\nsys.exit(3)\n"
    )
    ran = cluster.ray("submit", str(script), "a", "--", "--smoke test", check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (3, "['a', '--smoke test'] 3.0")
    # Without a terminal a login's shell has nothing to say of its own.
    told = cluster.ray("exec", "echo out; echo err >&2; exit 7", check=False)
    assert (told.returncode, told.stdout, told.stderr) == (7, "out\n", "err\n")

    note = cluster.desk.directory / "note"
    note.write_text("here\n")
    cluster.ray("rsync-up", "--all-nodes", str(note), "~/notes/")
    for machine in cluster.machines:
        assert (machine.directory / "home" / "notes" / "note").read_text() == "here\n"
    cluster.ray("rsync-down", "~/setups", f"{cluster.desk.directory}/fetched")
    assert (cluster.desk.directory / "fetched").read_text().endswith("head\n")

    # Nothing is set up again while its files and commands are the same, and all of it when they are not.
    before = cluster.ray("exec", "ray list nodes --format json").stdout
    cluster.ray("up", "--yes", "--no-restart")
    assert cluster.ray("exec", "ray list nodes --format json").stdout.count(
        "node_id"
    ) == before.count("node_id")
    assert (cluster.head.directory / "home" / "setups").read_text().count("head") == 1
    (material / "words.txt").write_text("two\n")
    cluster.ray("up", "--yes")
    assert (cluster.head.directory / "home" / "setups").read_text().endswith("team 1 two\nhead\n")
    assert cluster.nodes() == 3

    cluster.ray("down", "--yes", "--workers-only")
    assert cluster.nodes() == 1
    assert cluster.ray("get-worker-ips").stdout == ""
    cluster.ray("down", "--yes")
    for machine in cluster.machines:
        assert not any("heliostat node" in line for line in machine.processes())
    gone = cluster.ray("get-worker-ips", check=False)
    assert gone.returncode == 1
    assert "was not started by this user" in gone.stderr


def with_image(image: str, material: Path) -> str:
    """The part of a file that has a cluster run in containers of that image."""
    return f"""
        docker:
          image: {image}
          container_name: ours
          run_options: ["--env A=1"]
          worker_run_options: ["--cap-add SYS_PTRACE"]
        file_mounts: {{"~/data/set": "{material}", "~/one/script": "{material}/script"}}
        initialization_commands: ["echo before >> ~/outside"]
        setup_commands: ["cat ~/data/set/words >> ~/setups"]
        """


@pytest.mark.contract("F6.29", "F6.30")
def test_a_cluster_runs_in_containers(cluster: Cluster) -> None:
    head, worker, _ = cluster.machines
    both = (head, worker)
    fake_docker.install(both)
    material = cluster.desk.directory / "material"
    material.mkdir()
    (material / "words").write_text("set up\n")
    (material / "script").write_text("#!/bin/sh\necho ran in $HOME\n")
    (material / "script").chmod(0o755)
    cluster.write(worker_ips=[worker.ip], more=with_image("our/image:1", material))
    up = cluster.ray("up", "--yes").stdout
    assert f"[{head.ip}] pulled our/image:1" in up
    assert cluster.nodes() == 2
    for machine in both:
        container, home = fake_docker.folder(machine) / "ours", machine.directory / "home"
        assert (container / "setups").read_text() == "set up\n"
        assert (container / ".heliostat" / "auth_token").stat().st_mode & 0o077 == 0
        assert not (home / ".heliostat" / "auth_token").exists()
        assert (home / "outside").read_text() == "before\n"
        asked = (fake_docker.folder(machine) / "log").read_text()
        (run,) = [line for line in asked.splitlines() if line.startswith("run ")]
        assert re.search(r" --network host .* --shm-size=[1-9]\d*k .*--env A=1 ", run)
        assert ("--cap-add SYS_PTRACE" in run) == (machine is worker)
        assert run.endswith("our/image:1 infinity")

    inside = fake_docker.folder(head) / "ours"
    assert cluster.ray("exec", "~/one/script").stdout == f"ran in {inside}\n"
    outside = cluster.ray("exec", "--run-env", "host", "echo $HOME").stdout
    assert outside == f"{head.directory}/home\n"
    script = cluster.desk.directory / "script.py"
    script.write_text("import os, ray\nray.init('auto')\nprint(os.environ['HOME'])\n")
    assert cluster.ray("submit", str(script)).stdout.endswith(f"{inside}\n")
    cluster.ray("rsync-up", "--all-nodes", str(script), "~/notes/")
    for machine in both:
        assert (fake_docker.folder(machine) / "ours" / "notes" / "script.py").exists()
    fetched = cluster.desk.directory / "fetched"
    cluster.ray("rsync-down", "~/data/set/", f"{fetched}/")
    assert (fetched / "words").read_text() == "set up\n"

    # The same container goes on; another image is another container, which is set up.
    assert "ours runs already" in cluster.ray("up", "--yes", "--no-restart").stdout
    assert (inside / "setups").read_text() == "set up\n"
    (inside / "old").touch()
    cluster.write(worker_ips=[worker.ip], more=with_image("our/image:2", material))
    cluster.ray("up", "--yes")
    assert (inside / "setups").read_text() == "set up\n"
    assert not (inside / "old").exists()
    assert cluster.nodes() == 2
    cluster.write(worker_ips=[worker.ip], more=with_image("nowhere/image", material))
    failed = cluster.ray("up", "--yes", check=False)
    assert failed.returncode == 1
    assert (
        f"{head.ip}: `docker run nowhere/image` ended with exit code 1: there is no image "
        "nowhere/image" in failed.stderr
    )

    cluster.ray("down", "--yes")
    for machine in both:
        assert not (fake_docker.folder(machine) / "ours").exists()
        assert not any("heliostat node" in line for line in machine.processes())


@pytest.mark.contract("F6.29", "F6.30")
def test_a_machine_that_is_away_is_named_and_the_others_start(cluster: Cluster) -> None:
    away, there = cluster.workers
    cluster.write(worker_ips=[f"{away.ip}9", there.ip])
    up = cluster.ray("up", "--yes", check=False)
    assert up.returncode == 1
    assert f"{away.ip}9 is not reached by ssh" in up.stderr, up.stderr
    assert "1 of 2 workers were started." in up.stderr
    assert cluster.ray("get-worker-ips").stdout == f"{there.ip}\n"
    # The file is mended; machines that it does not name any more are stopped.
    cluster.write(worker_ips=[away.ip])
    cluster.ray("up", "--yes", "--no-restart")
    assert cluster.ray("get-worker-ips").stdout == f"{away.ip}\n"
    assert not any("heliostat node" in line for line in there.processes())
    assert any("heliostat node" in line for line in away.processes())
    cluster.ray("exec", "--stop", "true")
    assert not any("heliostat node" in line for line in cluster.head.processes())


@pytest.mark.contract("F6.29")
def test_a_command_that_fails_is_named_and_runs_again(cluster: Cluster) -> None:
    cluster.write(worker_ips=[], more="setup_commands: ['echo no room; test -e ~/room']\n")
    up = cluster.ray("up", "--yes", check=False)
    assert up.returncode == 1
    command = "`echo no room; test -e ~/room` ended with exit code 1: no room"
    assert up.stderr == f"{cluster.head.ip}: {command}\n"
    (cluster.head.directory / "home" / "room").touch()
    assert "is up" in cluster.ray("up", "--yes").stdout


@pytest.mark.contract("F6.29")
def test_files_of_the_head_reach_the_others_and_a_port_is_forwarded(cluster: Cluster) -> None:
    cluster.write(more="cluster_synced_files: [~/made]\nsetup_commands: ['true']\n")
    made = cluster.head.directory / "home" / "made"
    made.mkdir()
    (made / "there").write_text("of the head\n")
    started = cluster.ray("exec", "--start", "echo started")
    assert started.stdout.endswith("started\n")
    for machine in cluster.workers:
        assert (machine.directory / "home" / "made" / "there").read_text() == "of the head\n"
    # What waits at the other end of the tunnel ends by being asked once.
    server = "python -m http.server 8123 --bind 127.0.0.1 --directory ~/made"
    argv = [str(RAY), "exec", str(cluster.file), "-p", "8123", server]
    tunnel = subprocess.Popen(cluster.desk.command(argv), env=harness.clean_env())
    try:
        ask = "import urllib.request as u; print(u.urlopen('http://localhost:8123/there').read())"

        def asked() -> bool:
            done = cluster.desk.run(sys.executable, "-c", ask, check=False)
            return "of the head" in done.stdout

        harness.wait_until(asked, what="the port of the head")
    finally:
        tunnel.terminate()
        tunnel.wait(60)


@pytest.mark.contract("F6.29", "F6.30")
def test_the_commands_of_the_page(cluster: Cluster) -> None:
    page = PAGE.read_text()
    text = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = re.search(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert text is not None
    assert commands is not None
    assert commands[1].startswith("$ ray up")
    config = yaml.safe_load(text[1])
    # The page's machines are an example's; those of namespaces are told what they offer.
    own = yaml.safe_load(cluster.file.read_text())
    config["provider"] |= {key: own["provider"][key] for key in ("head_ip", "worker_ips")}
    config["auth"] |= own["auth"]
    config["setup_commands"] = ["test -s ~/code/requirements.txt"]
    config |= {key: value for key, value in own.items() if key.endswith("_start_ray_commands")}
    here = cluster.desk.directory
    (here / "cluster.yaml").write_text(yaml.safe_dump(config))
    (here / "code").mkdir()
    (here / "code" / "requirements.txt").write_text("none\n")
    (here / "train.py").write_text("import sys\nprint('trained', sys.argv[1:])\n")
    (here / "data.csv").touch()
    script = "\n".join(["set -eu", *(line[2:] for line in commands[1].splitlines())])
    path = f"{RAY.parent}:{os.environ['PATH']}"
    words = ["env", "-u", "HELIOSTAT_AUTH_TOKEN", "bash", "-c", script]
    done = cluster.desk.run(*words, env={"PATH": path}, within=540)  # eight commands
    assert "/3.0 CPU" in done.stdout, done.stdout
    assert "trained ['--epochs', '3']" in done.stdout
    assert (here / "fetched" / "requirements.txt").exists()
    for machine in cluster.machines:
        assert (machine.directory / "home" / "data" / "data.csv").exists()


@pytest.mark.contract("F6.35")
def test_a_program_starts_a_cluster_and_stops_it(cluster: Cluster) -> None:
    program = f"""
    from ray.autoscaler import sdk

    file = {str(cluster.file)!r}
    config = sdk.create_or_update_cluster(file)
    print(sdk.get_head_node_ip(config), sorted(sdk.get_worker_node_ips(file)))
    print(sdk.run_on_cluster(config, cmd="hostname", with_output=True))
    sdk.rsync(config, source=file, target="~/kept", down=False, ip_address={cluster.workers[0].ip!r})
    try:
        sdk.run_on_cluster(config, cmd="echo so; exit 9", with_output=True)
    except RuntimeError as error:
        print(error)
    sdk.teardown_cluster(config)
    """
    done = cluster.desk.run(sys.executable, "-c", textwrap.dedent(program))
    head, *workers = (machine.ip for machine in cluster.machines)
    said = [line for line in done.stdout.splitlines() if line and not line.startswith("[")]
    assert said == [
        f"{head} {workers}",
        cluster.head.run("hostname").stdout.strip(),
        f"{head}: `echo so; exit 9` ended with exit code 9: so",
    ]
    assert (cluster.workers[0].directory / "home" / "kept").read_text() == cluster.file.read_text()
    for machine in cluster.machines:
        assert not any("heliostat node" in line for line in machine.processes())


@pytest.mark.contract("F6.29")
def test_the_log_of_the_head_is_followed_and_two_do_not_start_at_once(cluster: Cluster) -> None:
    pipe = cluster.head.directory / "home" / "pipe"
    os.mkfifo(pipe)
    cluster.write(worker_ips=[], more="setup_commands: ['cat ~/pipe']\n")
    argv = [str(RAY), "up", str(cluster.file), "--yes"]
    first = subprocess.Popen(cluster.desk.command(argv), env=harness.clean_env())

    def write_end() -> int | None:
        assert first.poll() is None, "the first one has ended before its command read"
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            return None

    # It opens when the first one's command reads: then that one has the cluster to itself.
    opened = harness.wait_until(write_end, what="the command of the first one")
    with open(opened, "w") as file:
        second = cluster.ray("up", "--yes", check=False)
        file.write("now\n")
    assert first.wait(120) == 0
    assert second.returncode == 1
    assert "starts or stops cluster 'team' just now" in second.stderr
    with (cluster.desk.directory / "followed").open("w+") as followed:
        argv = [str(RAY), "monitor", str(cluster.file), "--lines", "1000"]
        monitor = subprocess.Popen(
            cluster.desk.command(argv), env=harness.clean_env(), stdout=followed
        )
        try:
            seen = cluster.desk.directory / "followed"
            harness.wait_until(lambda: "node joined" in seen.read_text(), what="the log")
        finally:
            monitor.terminate()
            monitor.wait(60)
