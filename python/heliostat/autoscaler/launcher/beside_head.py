"""Puts a cluster's autoscaler (``head_autoscaler.py``) beside its head, from the user's machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from heliostat.autoscaler.launcher.cloud import CloudProvider
from heliostat.autoscaler.launcher.config import Config
from heliostat.autoscaler.launcher.remote import Remote, Say

_FOLDER = "~/.heliostat/clusters"


def log_file(cluster_name: str) -> str:
    """The program's log on the head."""
    return f"{_FOLDER}/{cluster_name}.autoscaler.log"


def _file(cluster_name: str) -> str:
    return f"{_FOLDER}/{cluster_name}.autoscaler.yaml"


def start(head: Remote, config: Config, provider: CloudProvider, say: Say) -> None:
    """Start it on the head, in place of one that runs there. Raises ``RemoteError``."""
    name = config.cluster_name
    told = provider.cloud.told_on_head()
    # The files are on the head by now, and go from there to the others, as the head's own for them do.
    mounts = {remote: remote for remote in config.file_mounts}
    told["file_mounts"] = mounts | {path: path for path in config.cluster_synced_files}
    told.pop("cluster_synced_files", None)
    access = provider.auth()
    if access.private_key is not None:
        key = f"{_FOLDER}/{name}.head.pem"
        told["auth"] = {**told.get("auth", {}), "ssh_private_key": key}
        # The tool copies the mode, too: nobody else reads it there.
        head.copy_to(access.private_key, key)
    with tempfile.NamedTemporaryFile("w", prefix="heliostat-", suffix=".yaml") as kept:
        # JSON, which YAML reads, too.
        json.dump(told, kept, default=str)
        kept.flush()
        head.copy_to(Path(kept.name), _file(name))
    say(f"starts the autoscaler, whose log is {log_file(name)}")
    head.run(f"nohup setsid ray autoscaler {_file(name)} >> {log_file(name)} 2>&1 < /dev/null &")


def stop(head: Remote, config: Config) -> None:
    """End it. Raises ``RemoteError``."""
    file = _file(config.cluster_name)
    head.run(f"[ ! -r {file} ] || ray autoscaler --stop {file}")
