"""Machines of Amazon EC2, with moto in its place: what is made once, found again, put aside and ended."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

moto = pytest.importorskip("moto")
boto3 = pytest.importorskip("boto3")

pytestmark = [
    pytest.mark.heliostat_only("the modules are Heliostat's own"),
    pytest.mark.contract("F6.29", "F6.37"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # boto3 keeps its connections
]

pytest.importorskip("heliostat", reason="Heliostat's own modules")

from heliostat.autoscaler.launcher.aws.client import Aws, Refused  # noqa: E402
from heliostat.autoscaler.launcher.aws.ec2 import Ec2  # noqa: E402
from heliostat.autoscaler.launcher.checks import ConfigError  # noqa: E402
from heliostat.autoscaler.launcher.cloud import CloudError, CloudProvider  # noqa: E402
from heliostat.autoscaler.launcher.config import Config, check  # noqa: E402
from heliostat.autoscaler.launcher.node_types import NodeType  # noqa: E402

REGION = "us-west-2"


@pytest.fixture
def client(image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with moto.mock_aws():
        made = boto3.client("ec2", REGION)
        made.image = image
        yield made


@pytest.fixture(scope="module")
def image() -> str:
    """One of the images that moto always has: it takes seconds to list them."""
    with moto.mock_aws():
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        found = boto3.client("ec2", REGION, **keys).describe_images()["Images"]
    name: str = found[0]["ImageId"]
    return name


def config(client: Any, provider: dict[str, Any] | None = None, **worker: Any) -> Config:
    machine = {"InstanceType": "m5.large", "ImageId": client.image}
    told = {
        "cluster_name": "team",
        "provider": {"type": "aws", "region": REGION, **(provider or {})},
        "available_node_types": {
            "head": {"node_config": machine},
            "gpu": {
                "node_config": {**machine, "InstanceType": "g5.12xlarge", **worker},
                "resources": {"disk": 1},
            },
        },
        "head_node_type": "head",
    }
    return check(told, "cluster.yaml")


def gpu(config: Config) -> NodeType:
    assert config.node_types is not None
    return config.node_types.workers["gpu"]


def states(client: Any) -> dict[str, str]:
    rows = client.describe_instances()["Reservations"]
    return {one["InstanceId"]: one["State"]["Name"] for row in rows for one in row["Instances"]}


def test_what_machines_need_is_made_once(client: Any, tmp_path: Path) -> None:
    first = Ec2(config(client))
    first.prepare()
    kept = first.told_on_head()["available_node_types"]
    key = first.key()
    assert key is not None
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    opens = subprocess.run(
        ["ssh-keygen", "-y", "-f", key], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert opens.stdout.startswith("ssh-rsa "), opens.stderr
    second = Ec2(config(client))
    second.prepare()
    assert second.told_on_head()["available_node_types"] == kept
    groups = client.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["ray-autoscaler-team"]}]
    )["SecurityGroups"]
    assert len(groups) == 1
    ports = {(one["IpProtocol"], one.get("FromPort")) for one in groups[0]["IpPermissions"]}
    assert ports == {("tcp", 22), ("-1", None)} or ports == {("tcp", 22), ("-1", -1)}
    assert len(client.describe_key_pairs()["KeyPairs"]) == 1
    # A user whose half of the key is gone gets a new one.
    key.unlink()
    third = Ec2(config(client))
    third.prepare()
    assert key.is_file()
    assert len(client.describe_key_pairs()["KeyPairs"]) == 2


def test_what_the_file_names_is_taken(client: Any) -> None:
    network = client.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = client.create_subnet(VpcId=network, CidrBlock="10.1.0.0/24")["Subnet"]["SubnetId"]
    group = client.create_security_group(GroupName="own", VpcId=network, Description="x")["GroupId"]
    made = config(client, SubnetIds=[subnet], SecurityGroupIds=[group], KeyName="own-key")
    ec2 = Ec2(made)
    ec2.prepare()
    machine = ec2.told_on_head()["available_node_types"]["gpu"]["node_config"]
    assert machine["SubnetIds"] == [subnet]
    assert machine["SecurityGroupIds"] == [group]
    assert machine["KeyName"] == "own-key"
    assert "IamInstanceProfile" not in machine, "only the head makes machines"


def test_rules_of_the_file_are_added(client: Any) -> None:
    rule = {
        "IpProtocol": "tcp",
        "FromPort": 8265,
        "ToPort": 8265,
        "IpRanges": [{"CidrIp": "10.0.0.0/8"}],
    }
    group = {"GroupName": "mine", "IpPermissions": [rule]}
    Ec2(config(client, {"security_group": group})).prepare()
    found = client.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["mine"]}])[
        "SecurityGroups"
    ][0]
    assert 8265 in {one.get("FromPort") for one in found["IpPermissions"]}


def test_machines_are_known_by_their_tags(client: Any) -> None:
    told = config(
        client,
        {"use_internal_ips": True},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "me"}]}],
    )
    ec2 = Ec2(told)
    head = CloudProvider(told, ec2, pause=lambda _: None).take_head()
    (worker,) = ec2.run(gpu(told), 1)
    # What the autoscaler beside the head reads is JSON.
    there = Ec2(check(json.loads(json.dumps(ec2.told_on_head(), default=str))))
    found = {one.id: one for one in there.machines()}
    assert found[head.id].is_head
    assert (found[worker].kind, found[worker].is_head) == ("gpu", False)
    assert found[worker].host is not None
    assert found[worker].host.address == found[worker].host.inner
    row = client.describe_instances(InstanceIds=[worker])["Reservations"][0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
    assert tags["owner"] == "me"
    assert tags["ray-cluster-name"] == "team"
    assert tags["Name"] == "ray-team-worker"
    other = Ec2(check({**told.told, "cluster_name": "other"}))
    assert other.machines() == []


def test_resources_are_those_of_the_instance_type_and_of_the_file(client: Any) -> None:
    told = config(client)
    found = Ec2(told).resources(gpu(told))
    assert found["CPU"] == 48
    assert found["GPU"] == 4
    assert found["disk"] == 1
    assert 100e9 < found["memory"] < 192 * 1024**3
    unknown = config(client, InstanceType="m5.lage")
    with pytest.raises(CloudError, match=r"m5\.lage"):
        Ec2(unknown).resources(gpu(unknown))


def test_stopped_machines_wait_for_the_next_time(client: Any) -> None:
    told = config(client)
    ec2 = Ec2(told)
    ec2.prepare()
    first, second = ec2.run(gpu(told), 2)
    ec2.release([first, second])
    assert states(client) == {first: "stopped", second: "stopped"}
    assert ec2.machines() == []
    (again,) = ec2.run(gpu(told), 1)
    assert again in (first, second)
    # Another kind of machine is not taken from them.
    changed = config(client, InstanceType="m5.large")
    other = Ec2(changed)
    other.prepare()
    (new,) = other.run(gpu(changed), 1)
    assert new not in (first, second)


@pytest.mark.parametrize("how", ["spot", "the file says so"])
def test_machines_that_are_not_put_aside_end(client: Any, how: str) -> None:
    market = {"InstanceMarketOptions": {"MarketType": "spot"}} if how == "spot" else {}
    told = config(client, None if how == "spot" else {"cache_stopped_nodes": False}, **market)
    ec2 = Ec2(told)
    ec2.prepare()
    made = ec2.run(gpu(told), 2)
    ec2.release([*made, "i-0123456789abcdef0"])
    assert set(states(client).values()) == {"terminated"}


def test_another_zone_is_tried_where_one_is_full(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = config(client, {"availability_zone": "us-west-2b, us-west-2a"})
    ec2 = Ec2(told)
    ec2.prepare()
    ask, asked = Aws.ask, []

    def full(self: Aws, service: str, operation: str, **arguments: Any) -> Any:
        if operation == "run_instances":
            asked.append(arguments["SubnetId"])
            if len(asked) == 1:
                raise Refused("InsufficientInstanceCapacity", "no room")
        return ask(self, service, operation, **arguments)

    monkeypatch.setattr(Aws, "ask", full)
    assert len(ec2.run(gpu(told), 1)) == 1
    zones = {
        one["SubnetId"]: one["AvailabilityZone"] for one in client.describe_subnets()["Subnets"]
    }
    assert [zones[one] for one in asked] == ["us-west-2b", "us-west-2a"]

    def refused(self: Aws, service: str, operation: str, **arguments: Any) -> Any:
        if operation == "run_instances":
            raise Refused("VcpuLimitExceeded", "AWS refuses run_instances: VcpuLimitExceeded: 0")
        return ask(self, service, operation, **arguments)

    monkeypatch.setattr(Aws, "ask", refused)
    with pytest.raises(CloudError, match="VcpuLimitExceeded"):
        ec2.run(gpu(told), 1)


def test_nobody_who_may_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CloudError, match="AWS has no credentials here: run `aws configure`"):
        Aws(REGION, {}).ask("ec2", "describe_instances")


@pytest.mark.parametrize(
    ("provider", "worker", "said"),
    [
        ({"region": ""}, {}, "`provider.region` must name a region"),
        ({"regoin": "x"}, {}, r"`provider.regoin` is not a key .* Did you mean 'region'\?"),
        ({"availability_zone": ["a"]}, {}, "must be a text: zones with commas between"),
        ({"cache_stopped_nodes": "no"}, {}, "write true or false"),
        ({}, {}, None),
        ({}, {"MaxCount": 3}, "leave out `MaxCount`"),
    ],
)
def test_a_wrong_section_is_one_sentence(
    client: Any, provider: dict[str, Any], worker: dict[str, Any], said: str | None
) -> None:
    if said is None:
        told = config(client).told
        del told["available_node_types"]["gpu"]["node_config"]["InstanceType"]
        with pytest.raises(ConfigError, match="must have an `InstanceType`, such as"):
            Ec2(check(told))
        return
    with pytest.raises(ConfigError, match=said):
        Ec2(config(client, provider, **worker))


def test_a_key_of_the_users_has_a_name_in_aws(client: Any, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")
    told = {**config(client).told, "auth": {"ssh_private_key": str(tmp_path / "key")}}
    with pytest.raises(ConfigError, match="`KeyName` that AWS knows the key by"):
        Ec2(check(told))
    told["provider"] = {**told["provider"], "key_pair": {"key_name": "mine"}}
    ec2 = Ec2(check(told))
    ec2.prepare()
    assert ec2.key() is None
    assert ec2.told_on_head()["available_node_types"]["gpu"]["node_config"]["KeyName"] == "mine"
