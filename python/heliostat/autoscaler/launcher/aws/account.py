"""The parts of an account that the machines of a cluster need: a key, subnets, a firewall, an
image, the head's rights.

Each is made only where the file does not name one, and is found again the next time.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heliostat.autoscaler.launcher.aws.client import Aws, Refused
from heliostat.autoscaler.launcher.aws.section import Section
from heliostat.autoscaler.launcher.cloud import CloudError
from heliostat.autoscaler.launcher.providers import folder

PROFILE = "heliostat-head-v1"
_UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{arch}/hvm/ebs-gp3/ami-id"
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
# The rights that an autoscaler needs, and no more.
_RIGHTS = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "ec2:CreateTags",
                "ec2:Describe*",
                "ec2:RunInstances",
                "ec2:StartInstances",
                "ec2:StopInstances",
                "ec2:TerminateInstances",
            ],
            "Resource": "*",
        },
        {
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": "*",
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
    ],
}


def key_file(cluster_name: str, region: str) -> Path:
    """The file of the key for the machines of a cluster whose file names none."""
    return folder() / f"{cluster_name}.{region}.pem"


@dataclass
class Account:
    """The account of one cluster."""

    aws: Aws
    section: Section
    cluster_name: str

    # --- the key

    def key_name(self) -> str:
        """A key pair of this user's, made if its private half is not here."""
        file = key_file(self.cluster_name, self.aws.region)
        name_file = file.with_suffix(".name")
        if file.is_file() and name_file.is_file():
            name = name_file.read_text().strip()
            try:
                self.aws.ask("ec2", "describe_key_pairs", KeyNames=[name])
                return name
            except Refused as error:
                if error.code != "InvalidKeyPair.NotFound":
                    raise
        # The name is nobody else's: another user's machine has its own private half.
        name = f"heliostat-{self.cluster_name}-{secrets.token_hex(4)}"
        made = self.aws.ask("ec2", "create_key_pair", KeyName=name)
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as kept:
            kept.write(made["KeyMaterial"])
        name_file.write_text(name)
        part.replace(file)
        return name

    # --- the network

    def subnets(self) -> list[str]:
        """Return the subnets of the region's usual network, in the order of the file's zones."""
        asked = [{"Name": "state", "Values": ["available"]}]
        found = self.aws.ask("ec2", "describe_subnets", Filters=asked)["Subnets"]
        # Without a public address nobody outside reaches a machine, nor it the packages that it installs.
        usual = [one for one in found if one.get("DefaultForAz")]
        usual = usual or [
            one for one in found if one.get("MapPublicIpOnLaunch") or self.section.uses_internal_ips
        ]
        zones = self.section.zones
        if zones:
            usual = [one for one in usual if one["AvailabilityZone"] in zones]
            usual.sort(key=lambda one: zones.index(one["AvailabilityZone"]))
        else:
            usual.sort(key=lambda one: str(one["AvailabilityZone"]))
        if not usual:
            raise CloudError(
                f"AWS has no subnet for machines in {', '.join(zones) or self.aws.region}: name "
                "`SubnetIds` in each `node_config`, or other zones."
            )
        network = usual[0]["VpcId"]
        return [str(one["SubnetId"]) for one in usual if one["VpcId"] == network]

    def group(self, subnet: str) -> str:
        """The firewall: ssh from everywhere, everything between its machines, and the file's rules."""
        found = self.aws.ask("ec2", "describe_subnets", SubnetIds=[subnet])["Subnets"]
        network = found[0]["VpcId"]
        name = self.section.group_name or f"ray-autoscaler-{self.cluster_name}"
        asked = [
            {"Name": "group-name", "Values": [name]},
            {"Name": "vpc-id", "Values": [network]},
        ]
        groups = self.aws.ask("ec2", "describe_security_groups", Filters=asked)["SecurityGroups"]
        if groups:
            group = str(groups[0]["GroupId"])
        else:
            made = self.aws.ask(
                "ec2",
                "create_security_group",
                GroupName=name,
                VpcId=network,
                Description=f"Machines of cluster {self.cluster_name}",
            )
            group = str(made["GroupId"])
        rules: list[Mapping[str, Any]] = [
            {
                "IpProtocol": "tcp",
                "FromPort": 22,
                "ToPort": 22,
                "IpRanges": [{"CidrIp": "0.0.0.0/0"}],
            },
            {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]},
            *self.section.rules,
        ]
        for rule in rules:
            try:
                self.aws.ask(
                    "ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=[rule]
                )
            except Refused as error:
                if error.code != "InvalidPermission.Duplicate":
                    raise
        return group

    # --- the machine

    def image(self, instance_type: str) -> str:
        """The newest image of Ubuntu 24.04, as its maker publishes it, for that kind of machine."""
        described = self.aws.ask("ec2", "describe_instance_types", InstanceTypes=[instance_type])
        (kind,) = described["InstanceTypes"]
        its = kind["ProcessorInfo"]["SupportedArchitectures"]
        arch = next((_ARCHITECTURES[one] for one in its if one in _ARCHITECTURES), "amd64")
        found = self.aws.ask("ssm", "get_parameter", Name=_UBUNTU.format(arch=arch))
        return str(found["Parameter"]["Value"])

    def head_profile(self) -> str:
        """The rights of the head, which makes the other machines: the ARN of its instance profile."""
        profile = self._made("get_instance_profile", InstanceProfileName=PROFILE)
        if profile is None:
            self.aws.ask("iam", "create_instance_profile", InstanceProfileName=PROFILE)
        if self._made("get_role", RoleName=PROFILE) is None:
            document = json.dumps(_TRUST)
            self.aws.ask("iam", "create_role", RoleName=PROFILE, AssumeRolePolicyDocument=document)
        rights = json.dumps(_RIGHTS)
        self.aws.ask(
            "iam",
            "put_role_policy",
            RoleName=PROFILE,
            PolicyName="autoscaler",
            PolicyDocument=rights,
        )
        found = self.aws.ask("iam", "get_instance_profile", InstanceProfileName=PROFILE)
        if not found["InstanceProfile"]["Roles"]:
            self.aws.ask(
                "iam",
                "add_role_to_instance_profile",
                InstanceProfileName=PROFILE,
                RoleName=PROFILE,
            )
        return str(found["InstanceProfile"]["Arn"])

    def _made(self, operation: str, **arguments: str) -> Any:
        try:
            return self.aws.ask("iam", operation, **arguments)
        except Refused as error:
            if error.code != "NoSuchEntity":
                raise
            return None
