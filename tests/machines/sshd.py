"""A real sshd on machines of namespaces, with keys of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.machines.machines import Machine

# Debian keeps it where only root's PATH has it.
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def why_no_ssh() -> str:
    """Why no machine can be reached by ssh here; empty when all can."""
    missing = [name for name in ("ssh", "ssh-keygen", "rsync") if shutil.which(name) is None]
    missing += [] if SSHD else ["sshd"]
    return f"not installed: {', '.join(missing)} (Debian: openssh-server, rsync)" if missing else ""


def start(machines: Sequence[Machine], key: Path | None = None) -> Path:
    """Start sshd on all of them; the private key that opens them, made if none is given."""
    if key is None:
        folder = machines[0].field.directory / "ssh"
        folder.mkdir()
        key = folder / "id_ed25519"
        _make_key(key)
    # The daemon wants it, whoever starts it; where the system's own runs it is there already.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for machine in machines:
        host_key = machine.directory / "host_key"
        _make_key(host_key)
        home = machine.directory / "home"
        # As users' profiles do: what a login finds.
        own = machine.directory / "bin"
        path = f"{Path(sys.executable).parent}:{own}:{os.environ['PATH']}"
        (home / ".bash_profile").write_text(f"export PATH={path}\n")
        (home / ".bashrc").write_text("export FROM_BASHRC=1\n")
        config = machine.directory / "sshd_config"
        config.write_text(
            f"HostKey {host_key}\n"
            f"AuthorizedKeysFile {key}.pub\n"
            f"ListenAddress {machine.ip}\n"
            f"SetEnv HOME={home} PATH={own}:/usr/local/bin:/usr/bin:/bin\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            "PasswordAuthentication no\nMaxStartups 100\n"
        )
        log = machine.directory / "sshd.log"
        # It goes to the background by itself, and listens when this command has ended.
        machine.run(str(SSHD), "-f", str(config), "-E", str(log))
    return key


def _make_key(path: Path) -> None:
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(make, check=True, capture_output=True)
