"""`ray up` in a cloud: moto plays EC2, machines of namespaces are its instances, ssh is a real one."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import harness
from tests.machines import sshd
from tests.machines.machines import HELIOSTAT, NET, Machine, Machines

pytest.importorskip("moto.server")

pytestmark = [
    pytest.mark.heliostat_only("machines of namespaces"),
    pytest.mark.contract("F6.29", "F6.37"),
]

RAY = HELIOSTAT.with_name("ray")
PORT = 5000
# The first three addresses of a subnet are the cloud's own; so the fourth machine is the first instance.
INSTANCES_FROM = 3
SERVE = f"from moto.server import main; main(['-H', '0.0.0.0', '-p', '{PORT}'])"
# Reads operations as JSON, a line each, and prints the answers.
ASK = """
import boto3, json, sys
client = boto3.client("ec2", "us-west-2")
print(json.dumps(getattr(client, sys.argv[1])(**json.loads(sys.argv[2])), default=str))
"""
# A machine of namespaces has no route by which it could know its own address.
FEW = "--object-store-memory=100000000 --node-ip-address=$(hostname -I | cut -d' ' -f1)"


class Ec2:
    """Five machines: the user's, the cloud's own, the head, and two that it may have."""

    def __init__(self, machines: list[Machine]) -> None:
        self.desk, self.cloud = machines[:2]
        self.head, *self.spare = machines[INSTANCES_FROM:]
        self.env = {
            "AWS_ENDPOINT_URL": f"http://{self.cloud.ip}:{PORT}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        self.server = self.cloud.start_script(SERVE, name="ec2_server")
        harness.wait_until(self._answers, what="moto's server")
        self.key = sshd.start([self.head])
        self._is_known_to(self.head)
        public = self.key.with_suffix(".pub").read_text()
        self.ask("import_key_pair", KeyName="test", PublicKeyMaterial=public)
        network = self.ask("create_vpc", CidrBlock=f"{NET}.0/24")["Vpc"]["VpcId"]
        subnet = self.ask("create_subnet", VpcId=network, CidrBlock=f"{NET}.0/24")["Subnet"]
        image = self.ask("describe_images")["Images"][0]["ImageId"]
        self.machine = {
            "InstanceType": "m5.large",
            "ImageId": image,
            "KeyName": "test",
            "SubnetIds": [subnet["SubnetId"]],
        }
        self.file = self.desk.directory / "cluster.yaml"
        self.file.write_text(self.text())

    def _answers(self) -> bool:
        return self.try_ask("describe_vpcs").returncode == 0

    def _is_known_to(self, machine: Machine) -> None:
        """As an instance profile and the cloud's own network do."""
        lines = "".join(f"export {name}={value}\n" for name, value in self.env.items())
        with (machine.directory / "home" / ".bash_profile").open("a") as profile:
            profile.write(lines)

    def text(self) -> str:
        machine = json.dumps(self.machine)
        return textwrap.dedent(
            f"""
            cluster_name: team
            provider:
              type: aws
              region: us-west-2
              use_internal_ips: true
              cache_stopped_nodes: false
            auth:
              ssh_user: root
              ssh_private_key: {self.key}
            max_workers: 2
            idle_timeout_minutes: 0.05
            available_node_types:
              head:
                resources: {{CPU: 1}}
                node_config: {machine}
              disks:
                resources: {{CPU: 1, disk: 2}}
                labels: {{zone: b}}
                min_workers: 1
                node_config: {machine}
            head_node_type: head
            file_mounts: {{"~/material": "{self.desk.directory}/material"}}
            setup_commands: ["cp ~/material/words ~/words"]
            head_start_ray_commands:
              - ray stop
              - ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml {FEW}
            worker_start_ray_commands:
              - ray stop
              - ray start --address=$RAY_HEAD_IP:6379 {FEW}
            """
        )

    def try_ask(self, operation: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", ASK, operation, json.dumps(arguments)]
        return self.cloud.run(*argv, env=self.env, check=False)

    def ask(self, operation: str, **arguments: Any) -> Any:
        done = self.try_ask(operation, **arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def running(self) -> list[str]:
        """Addresses of the instances that run."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        rows = self.ask("describe_instances", Filters=states)["Reservations"]
        return sorted(one["PrivateIpAddress"] for row in rows for one in row["Instances"])

    def boot(self, machine: Machine) -> None:
        """When the cloud has made it, it has ssh after a while."""
        harness.wait_until(lambda: machine.ip in self.running(), what=f"instance {machine.ip}")
        sshd.start([machine], self.key)

    def ray(
        self, command: str, *words: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        argv = [str(RAY), command, str(self.file), *words]
        return self.desk.run("env", "-u", "HELIOSTAT_AUTH_TOKEN", *argv, check=check, env=self.env)

    def nodes(self) -> list[dict[str, Any]]:
        said = self.ray("exec", "ray list nodes --detail --format json --filter state=ALIVE")
        found: list[dict[str, Any]] = json.loads(said.stdout)
        return found

    def has_nodes(self, count: int) -> None:
        def enough() -> bool:
            return len(self.nodes()) == count

        try:
            harness.wait_until(enough, what=f"{count} nodes", every=1)
        except BaseException:
            home = self.head.directory / "home" / ".heliostat" / "clusters"
            print((home / "team.autoscaler.log").read_text())
            raise


@pytest.fixture
def ec2(_can_make: None) -> Iterator[Ec2]:
    reason = sshd.why_no_ssh()
    if reason:
        pytest.skip(reason)
    with Machines(INSTANCES_FROM + 3) as machines:
        made = Ec2(machines)
        try:
            yield made
        finally:
            # The server itself, not the program that has entered its machine: that one buries it.
            machines[1].run("pkill", "-9", "-f", "ec2_server", check=False)
            made.server.process.wait(60)


def test_a_cluster_in_a_cloud_grows_shrinks_and_ends(ec2: Ec2) -> None:
    material = ec2.desk.directory / "material"
    material.mkdir()
    (material / "words").write_text("one\n")
    up = ec2.ray("up", "--yes")
    assert "starts the autoscaler" in up.stdout, up.stdout
    assert ec2.ray("get-head-ip").stdout == f"{ec2.head.ip}\n"

    # `min_workers`: it is set up as soon as ssh reaches it, with files that come from the head.
    first, second = ec2.spare
    ec2.boot(first)
    ec2.has_nodes(2)
    assert (first.directory / "home" / "words").read_text() == "one\n"
    worker = next(one for one in ec2.nodes() if not one["is_head_node"])
    assert worker["resources_total"]["CPU"] == 1
    assert worker["resources_total"]["disk"] == 2
    assert worker["labels"]["zone"] == "b"
    assert worker["labels"]["ray.io/node-group"] == "disks"
    assert ec2.ray("get-worker-ips").stdout == f"{first.ip}\n"

    # Two that need a machine each: a second one comes, and goes again when it is idle.
    script = ec2.desk.directory / "work.py"
    script.write_text(
        "import ray, time\nray.init('auto')\n"
        "@ray.remote(resources={'disk': 2}, num_cpus=1)\n"
        "class Disk:\n    def where(self): return ray.util.get_node_ip_address()\n"
        "disks = [Disk.remote() for _ in range(2)]\n"
        "print(sorted(ray.get([one.where.remote() for one in disks])))\n"
    )
    argv = [str(RAY), "submit", str(ec2.file), str(script)]
    command = ec2.desk.command(["env", "-u", "HELIOSTAT_AUTH_TOKEN", *argv], ec2.env)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=harness.clean_env()
    ) as submitted:
        ec2.boot(second)
        said, _ = submitted.communicate(timeout=120)
    assert said.splitlines()[-1] == str([first.ip, second.ip])
    harness.wait_until(lambda: len(ec2.running()) == 2, what="the end of the idle machine", every=1)
    ec2.has_nodes(2)

    # Another autoscaler takes the place of the first one, and everything else goes on.
    before = sorted(one["node_id"] for one in ec2.nodes())
    ec2.ray("up", "--yes", "--no-restart")
    assert sorted(one["node_id"] for one in ec2.nodes()) == before
    assert len([line for line in ec2.head.processes() if "head_autoscaler" in line]) == 1

    ec2.ray("down", "--yes")
    assert ec2.running() == []
    assert not any("heliostat" in line for line in ec2.head.processes())
    gone = ec2.ray("exec", "true", check=False)
    assert gone.returncode == 1
    assert "has no head" in gone.stderr
