"""The machines of one cluster in Amazon EC2. They are known by their tags, which are Ray's."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from heliostat.autoscaler.launcher.aws.account import Account, key_file
from heliostat.autoscaler.launcher.aws.client import Aws, Refused
from heliostat.autoscaler.launcher.aws.section import read
from heliostat.autoscaler.launcher.cloud import CloudError, CloudMachine, kinds_of
from heliostat.autoscaler.launcher.config import Config
from heliostat.autoscaler.launcher.node_types import NodeType
from heliostat.autoscaler.launcher.providers import Host

_CLUSTER = "ray-cluster-name"
_ROLE = "ray-node-type"
_KIND = "ray-user-node-type"
_CONFIG = "ray-launch-config"
# Another zone may have what this one has not.
_ELSEWHERE = (
    "InsufficientInstanceCapacity",
    "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow",
    "Unsupported",
)
# How long EC2 may not know yet of a profile that was just made, in seconds.
_PROFILE_S = 60.0
_PROFILE_LOOK_S = 3.0
# The part of a machine's memory that its node offers to tasks.
_MEMORY_PART = 0.7


class Ec2:
    """See ``Cloud``."""

    def __init__(
        self,
        config: Config,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises ``ConfigError`` where the file is wrong."""
        self._config, self._section = config, read(config)
        self._aws = Aws(self._section.region, self._section.credentials)
        self._account = Account(self._aws, self._section, config.cluster_name)
        kinds = kinds_of(config)
        self._head = kinds.head.name
        every = [kinds.head, *kinds.workers.values()]
        self._machines = {kind.name: dict(kind.node_config) for kind in every}
        self._resources: dict[str, dict[str, float]] = {}
        self._now, self._pause = now, pause

    def key(self) -> Path | None:
        """The one that was made for the cluster, where the file names none."""
        if self._config.auth.private_key is not None:
            return None
        return key_file(self._config.cluster_name, self._section.region)

    def prepare(self) -> None:
        """Fill in what the file leaves open of each kind of machine."""
        made: dict[str, Any] = {}

        def once(name: str, make: Callable[[], Any]) -> Any:
            if name not in made:
                made[name] = make()
            return made[name]

        for kind, machine in self._machines.items():
            if "KeyName" not in machine:
                own = self._section.key_name
                machine["KeyName"] = own or once("key", self._account.key_name)
            if "NetworkInterfaces" not in machine and "LaunchTemplate" not in machine:
                if "SubnetId" not in machine and not machine.get("SubnetIds"):
                    machine["SubnetIds"] = once("subnets", self._account.subnets)
                if "SecurityGroupIds" not in machine:
                    subnet = _subnets(machine)[0]
                    group = once(f"group {subnet}", partial(self._account.group, subnet))
                    machine["SecurityGroupIds"] = [group]
            if "ImageId" not in machine and "LaunchTemplate" not in machine:
                name = str(machine["InstanceType"])
                machine["ImageId"] = once(f"image {name}", partial(self._account.image, name))
            if kind == self._head and "IamInstanceProfile" not in machine:
                machine["IamInstanceProfile"] = {"Arn": self._account.head_profile()}

    def told_on_head(self) -> dict[str, Any]:
        """Return the file as the autoscaler beside the head reads it: all that ``prepare`` has
        found is named.
        """
        told = dict(self._config.told)
        told["provider"] = {**self._config.provider, "use_internal_ips": True}
        told["available_node_types"] = {
            name: {**row, "node_config": self._machines.get(name, row.get("node_config"))}
            for name, row in told["available_node_types"].items()
        }
        return told

    # --- what there is

    def machines(self) -> list[CloudMachine]:
        """Return the machines that run or begin to."""
        return [self._machine(row) for row in self._rows("pending", "running")]

    def _rows(self, *states: str) -> list[Mapping[str, Any]]:
        asked = [
            {"Name": f"tag:{_CLUSTER}", "Values": [self._config.cluster_name]},
            {"Name": "instance-state-name", "Values": list(states)},
        ]
        pages = self._aws.pages("ec2", "describe_instances", Filters=asked)
        found = [
            row
            for page in pages
            for reservation in page["Reservations"]
            for row in reservation["Instances"]
        ]
        return sorted(found, key=lambda row: (str(row.get("LaunchTime", "")), row["InstanceId"]))

    def _machine(self, row: Mapping[str, Any]) -> CloudMachine:
        tags = _tags(row)
        name, kind = str(row["InstanceId"]), tags.get(_KIND, "")
        inner, outer = row.get("PrivateIpAddress"), row.get("PublicIpAddress")
        address = inner if self._section.uses_internal_ips else outer
        host = None
        if address and inner and row["State"]["Name"] == "running":
            host = Host(str(address), str(inner), name, kind)
        return CloudMachine(name, kind, tags.get(_ROLE) == "head", host)

    def resources(self, kind: NodeType) -> dict[str, float]:
        """Return the resources of the instance type as EC2 and the file tell them."""
        name = self._machines[kind.name].get("InstanceType")
        if name is None:  # the launch template has it
            return dict(kind.resources)
        if name not in self._resources:
            told = self._aws.ask("ec2", "describe_instance_types", InstanceTypes=[name])
            if not told["InstanceTypes"]:
                raise CloudError(f"AWS knows no instance type {name!r}.")
            self._resources[name] = _resources(told["InstanceTypes"][0])
        return {**self._resources[name], **kind.resources}

    # --- made and ended

    def run(self, kind: NodeType, count: int, *, is_head: bool = False) -> list[str]:
        """Start those that were put aside, then make as many more as are missing."""
        machine = self._machines[kind.name]
        tags = {
            _CLUSTER: self._config.cluster_name,
            _ROLE: "head" if is_head else "worker",
            _KIND: kind.name,
            _CONFIG: _fingerprint(machine),
            "Name": f"ray-{self._config.cluster_name}-{'head' if is_head else 'worker'}",
        }
        begun = self._start_again(tags, count) if self._section.keeps_stopped else []
        refusal: CloudError | None = None
        for subnet in _subnets(machine):
            if len(begun) == count:
                break
            try:
                begun += self._run_in(subnet, machine, tags, count - len(begun))
            except Refused as error:
                refusal = error
                if error.code not in _ELSEWHERE:
                    break
        if not begun and refusal is not None:
            raise refusal
        return begun

    def _start_again(self, tags: Mapping[str, str], count: int) -> list[str]:
        same = (_ROLE, _KIND, _CONFIG)
        found = [
            str(row["InstanceId"])
            for row in self._rows("stopped")
            if all(_tags(row).get(key) == tags[key] for key in same)
        ][:count]
        if found:
            self._aws.ask("ec2", "start_instances", InstanceIds=found)
        return found

    def _run_in(
        self, subnet: str, machine: Mapping[str, Any], tags: Mapping[str, str], count: int
    ) -> list[str]:
        told = {
            key: value for key, value in machine.items() if key not in ("SubnetId", "SubnetIds")
        }
        own = [dict(one) for one in told.pop("TagSpecifications", [])]
        ours = [{"Key": key, "Value": value} for key, value in tags.items()]
        for one in own:
            if one.get("ResourceType") == "instance":
                others = [tag for tag in one.get("Tags", []) if tag["Key"] not in tags]
                one["Tags"] = [*others, *ours]
                break
        else:
            own.append({"ResourceType": "instance", "Tags": ours})
        if subnet:
            told["SubnetId"] = subnet
        until = self._now() + _PROFILE_S
        while True:
            try:
                made = self._aws.ask(
                    "ec2",
                    "run_instances",
                    **told,
                    MinCount=1,
                    MaxCount=count,
                    TagSpecifications=own,
                )
                return [str(row["InstanceId"]) for row in made["Instances"]]
            except Refused as error:
                is_new = "iaminstanceprofile" in str(error).lower().replace(" ", "")
                if not is_new or self._now() >= until:
                    raise
            self._pause(_PROFILE_LOOK_S)

    def release(self, ids: Sequence[str]) -> None:
        """Stop them, for the next time, or end them: ``cache_stopped_nodes`` says which."""
        rows = {row["InstanceId"]: row for row in self._rows("pending", "running")}
        ends: list[str] = []
        stops: list[str] = []
        for name in ids:
            if name not in rows:
                continue
            # One that was bought for as long as it lasts cannot be stopped.
            is_spot = rows[name].get("InstanceLifecycle") == "spot"
            (stops if self._section.keeps_stopped and not is_spot else ends).append(name)
        if stops:
            self._aws.ask("ec2", "stop_instances", InstanceIds=stops)
        if ends:
            self._aws.ask("ec2", "terminate_instances", InstanceIds=ends)


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in row.get("Tags", [])}


def _subnets(machine: Mapping[str, Any]) -> list[str]:
    """The subnets that such a machine may be in, in order; "": a network interface of the file says so."""
    named = machine.get("SubnetIds") or [machine.get("SubnetId", "")]
    return [str(one) for one in named]


def _fingerprint(machine: Mapping[str, Any]) -> str:
    text = json.dumps(machine, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _resources(told: Mapping[str, Any]) -> dict[str, float]:
    memory = told["MemoryInfo"]["SizeInMiB"] * 1024 * 1024 * _MEMORY_PART
    found = {"CPU": float(told["VCpuInfo"]["DefaultVCpus"]), "memory": float(int(memory))}
    gpus = sum(one["Count"] for one in told.get("GpuInfo", {}).get("Gpus", []))
    if gpus:
        found["GPU"] = float(gpus)
    neurons = told.get("NeuronInfo", {}).get("NeuronDevices", [])
    cores = sum(one["Count"] * one["CoreInfo"]["Count"] for one in neurons)
    if cores:
        found["neuron_cores"] = float(cores)
    return found
