"""Users of one machine, who share the folder of sessions at most (contract F0.18)."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.harness import clean_env

ONE, OTHER = 65_533, 65_534  # users without an entry anywhere

pytestmark = [
    pytest.mark.contract("F0.18"),
    pytest.mark.heliostat_only("Ray lets every user exchange the sessions of the others"),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None,
        reason="only root can act as two users, and setpriv lets it",
    ),
]

SESSION = """
    import os
    import ray
    context = ray.init(num_cpus=1, include_dashboard=False)

    @ray.remote
    def user():
        return os.geteuid()

    print("session=" + context.address_info["session_dir"])
    print("ran_as=" + str(ray.get(user.remote())))
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder for everything temporary, like ``/tmp``."""
    folder = Path(tempfile.mkdtemp(prefix="heliostat-users-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@functools.cache
def become(user: int) -> tuple[str, ...]:
    """What runs a command as that user, who need not be able to reach this interpreter otherwise.

    The right that this may take does not extend to moving what others own, nor does it hide whose it is.
    """
    plain = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    if subprocess.run([*plain, "env", sys.executable, "-c", ""], check=False).returncode == 0:
        return plain
    return (*plain, "--inh-caps=+dac_override", "--ambient-caps=+dac_override")


def run_as(user: int, root: Path, source: str) -> dict[str, str]:
    """What a script of that user prints as ``key=value``."""
    home = root / f"home{user}"
    home.mkdir(exist_ok=True)
    os.chown(home, user, user)
    done = subprocess.run(
        [*become(user), sys.executable, "-c", textwrap.dedent(source)],
        env=clean_env({"HOME": str(home), "HELIOSTAT_TMPDIR": str(root)}),
        cwd=home,
        umask=0o022,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    return {key: value for key, _, value in lines}


def test_the_second_user_gets_a_folder_of_their_own(root: Path) -> None:
    folders = [Path(run_as(user, root, SESSION)["session"]).parent for user in (ONE, OTHER, ONE)]
    assert folders == [root / "ray", root / f"ray_{OTHER}", root / "ray"]
    assert [folder.stat().st_uid for folder in folders] == [ONE, OTHER, ONE]


def test_a_folder_of_roots_serves_all_and_nobody_touches_what_others_left(root: Path) -> None:
    shared = root / "ray"
    for user in (0, ONE, OTHER):
        found = run_as(user, root, SESSION)
        assert Path(found["session"]).parent == shared
        assert found["ran_as"] == str(user)
    assert shared.stat().st_mode & 0o7777 == 0o1777
    sessions = [path for path in shared.glob("session_*") if not path.is_symlink()]
    assert sorted(path.stat().st_uid for path in sessions) == [0, ONE, OTHER]
    assert {path.stat().st_mode & 0o777 for path in sessions} == {0o700}
    assert (shared / "session_latest").lstat().st_uid == 0


def test_a_folder_that_was_open_to_all_becomes_sticky(root: Path) -> None:
    shared = root / "ray"
    shared.mkdir()
    shared.chmod(0o777)
    # Before its owner has mended it, it is no place for others.
    assert Path(run_as(ONE, root, SESSION)["session"]).parent == root / f"ray_{ONE}"
    assert Path(run_as(0, root, SESSION)["session"]).parent == shared
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_a_link_of_another_user_is_not_followed(root: Path) -> None:
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    os.chown(elsewhere, ONE, ONE)
    link = root / "ray"
    link.symlink_to(elsewhere)
    os.chown(link, ONE, ONE, follow_symlinks=False)
    assert Path(run_as(OTHER, root, SESSION)["session"]).parent == root / f"ray_{OTHER}"
    assert Path(run_as(0, root, SESSION)["session"]).parent == root / "ray_0"
    assert list(elsewhere.iterdir()) == []
    assert Path(run_as(ONE, root, SESSION)["session"]).parent == link


def test_a_session_that_another_user_planted_is_passed_over(root: Path) -> None:
    """AUTH-1: who connects to it would tell it the token."""
    shared = root / "ray"
    shared.mkdir()
    shared.chmod(0o1777)
    planted = shared / "session_9999-01-01_00-00-00_000000_1"
    (planted / "sockets").mkdir(parents=True)
    path = planted / "sockets" / "node.sock"
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(path))
        trap.listen()
        trap.setblocking(False)
        said = {
            "session_dir": str(planted),
            "session_name": planted.name,
            "node_id": "ab" * 28,
            "host": "127.0.0.1",
            "port": 1,
            "control_address": "127.0.0.1:6379",
            "node_socket": str(path),
            "is_head": True,
        }
        (planted / "node.json").write_text(json.dumps(said))
        lock = (planted / "node.pid").open("w+")
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(os.getpid(), file=lock, flush=True)
        (shared / "ray_current_cluster").write_text("127.0.0.1:6379")
        (shared / "session_9999-01-02_00-00-00_000000_1").symlink_to(planted)
        for entry in [planted, *planted.rglob("*"), *shared.iterdir()]:
            os.chown(entry, ONE, ONE, follow_symlinks=False)
            if not entry.is_symlink():
                entry.chmod(0o777)
        found = run_as(
            OTHER,
            root,
            f"""
            import subprocess
            import ray
            from heliostat.core.driver import daemon
            try:
                ray.init("auto")
            except ConnectionError as error:
                print("auto=" + str(error)[:40])
            for command in ("status", "stop"):
                done = subprocess.run([daemon.binary(), command], capture_output=True, text=True)
                print(command + "=" + str(done.returncode) + done.stdout + done.stderr[:60])
            {textwrap.indent(textwrap.dedent(SESSION), " " * 12).strip()}
            """,
        )
        assert found["auto"].startswith("Could not find any running Ray instance")
        assert found["status"].startswith("1ConnectionError: Could not find any running")
        assert found["stop"].startswith("0Did not find any active Ray processes")
        assert Path(found["session"]).parent == shared
        with pytest.raises(BlockingIOError):
            trap.accept()
        lock.close()
