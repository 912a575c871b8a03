"""The provider of machines that a cluster's file names."""

from __future__ import annotations

from heliostat.autoscaler.launcher.config import Config
from heliostat.autoscaler.launcher.providers import LocalProvider, Provider, naming


def provider_of(config: Config) -> Provider:
    """The provider that the file names. Raises ``ConfigError`` where its section is wrong."""
    if config.provider["type"] == "local":
        return LocalProvider(config)
    from heliostat.autoscaler.launcher.aws.ec2 import Ec2
    from heliostat.autoscaler.launcher.cloud import CloudProvider

    with naming(config.path):
        return CloudProvider(config, Ec2(config))
