"""The commands of the guide's page on machines of one's own, with a stand-in for ssh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import harness
from tests.machines.machines import Machine, Machines

pytestmark = [pytest.mark.heliostat_only("a page of our own")]

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "on-premise.md"


def _login(machine: Machine) -> str:
    """The command line of a shell on that machine, which runs what it is given."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = machine.command(("env", "-u", "HELIOSTAT_AUTH_TOKEN", "bash", "-c"), {"PATH": path})
    return " ".join(f"'{word}'" for word in words)


@pytest.mark.contract("F6.02", "F6.30")
@pytest.mark.usefixtures("_can_make")
def test_the_commands_of_the_page_make_a_cluster_and_end_it() -> None:
    by_hand = PAGE.read_text().partition("## By hand")[2]
    block = re.search(r"^```console\n(.*?)^```", by_hand, re.MULTILINE | re.DOTALL)
    assert block is not None
    lines = [line.removeprefix("$ ") for line in block[1].splitlines()]
    assert lines[0].startswith("head=")
    with Machines(3) as machines:
        head, *workers = machines
        # The page's addresses are an example's; a machine of namespaces offers what it is told.
        hosts = " ".join(machine.ip for machine in workers)
        lines[0] = f'head={head.ip} workers="{hosts}"'
        few = "--num-cpus=1 --object-store-memory=100000000 --node-ip-address"
        script = "\n".join(["set -eu", *lines])
        script = script.replace("start --head", f"start --head {few}={head.ip}")
        script = script.replace("start --address", f"start {few}=$host --address")
        folder = head.field.directory / "bin"
        folder.mkdir()
        cases = "\n".join(f'{one.ip}) exec {_login(one)} "$*" ;;' for one in machines)
        ssh = folder / "ssh"
        ssh.write_text(f"#!/bin/bash\nhost=$1\nshift\ncase $host in\n{cases}\nesac\nexit 255\n")
        ssh.chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=harness.clean_env({"PATH": f"{folder}:{os.environ['PATH']}"}),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "/3.0 CPU" in done.stdout, done.stdout
        for machine in machines:
            harness.wait_until(
                lambda one=machine: not any("heliostat node" in line for line in one.processes()),
                what="every daemon has ended",
            )
            kept = machine.directory / "home" / ".heliostat" / "auth_token"
            assert kept.stat().st_mode & 0o077 == 0
