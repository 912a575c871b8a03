"""The versions of an environment's packages: found out once a cluster.

The node that installs what an environment asks for tells the head which versions it got, a line
``name==version`` each: a *lock*, kept among packages of code by a name that stands for what was asked
for. Other nodes of the session install these versions, whatever has been published meanwhile.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from heliostat.core.driver.daemon import CODE_ARCHIVES

# In an environment's folder.
FILE = "lock.txt"


def name_of(tool: str, asked: Any) -> str:
    """The name of the lock of what is asked for."""
    digest = hashlib.sha256(json.dumps([tool, asked], sort_keys=True).encode())
    return f"_lock_{digest.hexdigest()[:32]}.txt"


def of_cluster(name: str) -> str:
    """The lock that the cluster has; empty: none."""
    from heliostat.core.runtime_env import code_packages

    found = code_packages.named(_session(), name)
    return "" if found is None else found.decode()


def offer(name: str, folder: Path) -> None:
    """Let an environment's lock be the cluster's, unless that has one; once in a session of a node."""
    session = _session()
    if (session / CODE_ARCHIVES / name).exists() or not (folder / FILE).exists():
        return
    from heliostat.core.runtime_env import code_packages

    code_packages.offer(session, name, (folder / FILE).read_bytes())


def record(folder: Path, packages: Path) -> None:
    """Write down what was installed; what came from no index (a folder, a URL) has no version to ask for."""
    lines = []
    for one in metadata.distributions(path=[str(packages)]):
        if one.read_text("direct_url.json") is None:
            lines.append(f"{one.metadata['Name']}=={one.version}")
    (folder / FILE).write_text("\n".join([*sorted(lines, key=str.lower), ""]))


def lines_of(path: Path) -> list[str]:
    """The packages of a lock file (``pylock.toml``), as lines of a requirements file with their hashes.

    Raises ``ValueError`` for one that is no such file, or that names packages which no index has.
    """
    try:
        tomllib = importlib.import_module("tomllib")
    except ImportError:  # Python 3.10
        raise ValueError(f"{path}: Python 3.11 or later reads this; give requirements") from None
    try:
        told = tomllib.loads(path.read_text())
        return [_line(package) for package in told["packages"]]
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: this is not a lock file of PEP 751: {error}") from None


def _line(package: dict[str, Any]) -> str:
    if "version" not in package or {"vcs", "directory", "archive"} & package.keys():
        raise ValueError(
            f"the package {package['name']} of the lock is of no index: give it in a list of packages"
        )
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    hashes = [f"--hash={kind}:{value}" for file in files for kind, value in file["hashes"].items()]
    marker = f" ; {package['marker']}" if "marker" in package else ""
    return " ".join([f"{package['name']}=={package['version']}{marker}", *hashes])


def _session() -> Path:
    return Path(os.environ["HELIOSTAT_SESSION_DIR"])
