"""The operations of ``up``, ``down``, ``exec`` and the others on the machines of one cluster."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heliostat.autoscaler.launcher import beside_head
from heliostat.autoscaler.launcher.cloud import BOOT_S, CloudProvider
from heliostat.autoscaler.launcher.config import Config
from heliostat.autoscaler.launcher.provider_choice import provider_of
from heliostat.autoscaler.launcher.providers import Host, Provider, alone
from heliostat.autoscaler.launcher.remote import Remote, RemoteError, quote
from heliostat.core.platform import auth

# So many machines are set up at once.
_AT_ONCE = 32
_OWN_FOLDER = "~/.heliostat"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class ClusterError(RuntimeError):
    """The failed steps, machine by machine."""


class Cluster:
    """The cluster that a file describes. ``say`` hears what happens, line by line."""

    def __init__(
        self,
        config: Config,
        *,
        is_login_shell: bool = True,
        say: Callable[[str], None] = _print,
    ) -> None:
        """Raises ``ConfigError`` where the file is wrong."""
        self.config = config
        self.provider: Provider = provider_of(config)
        self._is_login_shell = is_login_shell
        self._say = say
        self._token_file = f"{_OWN_FOLDER}/clusters/{config.cluster_name}.token"

    @property
    def grows(self) -> bool:
        """Whether machines are made as they are needed, by an autoscaler beside the head."""
        return isinstance(self.provider, CloudProvider)

    def notes(self) -> list[str]:
        """The sections of the file without effect, a sentence each."""
        return [*self.config.notes, *self.provider.notes]

    # --- its machines

    def head(self) -> Remote:
        """The cluster's head. Raises ``ClusterError`` where there is none."""
        host = self.provider.head()
        if host is None:
            raise ClusterError(
                f"Cluster {self.config.cluster_name!r} has no head: `up {self.config.path}` first."
            )
        return self._remote(host)

    def head_in(self, run_env: str) -> Remote:
        """The head's container for ``"docker"``, its machine itself for ``"host"``, whatever there is for
        ``"auto"``.

        Raises ``ClusterError`` where there is no head, ``ValueError`` where it has no container.
        """
        if run_env == "docker" and self.config.containers is None:
            raise ValueError(
                "The cluster's file has no image in a section `docker`: run_env is 'docker'."
            )
        return self.head().outside() if run_env == "host" else self.head()

    def workers(self) -> list[Remote]:
        """The other machines that were started. Raises ``ClusterError`` where the cluster is not up."""
        if not self.provider.is_up():
            raise ClusterError(
                f"Cluster {self.config.cluster_name!r} was not started by this user on this machine: "
                f"`up {self.config.path}` first."
            )
        return [self._remote(host) for host in self.provider.workers()]

    def machine(self, address: str | None) -> Remote:
        """The one with that address; the head without one. Raises ``ClusterError`` where none has it."""
        if address is None:
            return self.head()
        known = [self.head().host, *self.provider.everything()]
        for host in known:
            if address in (host.address, host.inner):
                return self._remote(host)
        raise ClusterError(
            f"{address} is not a machine of cluster {self.config.cluster_name!r}, which has "
            f"{', '.join(host.address for host in known)}."
        )

    def _remote(self, host: Host) -> Remote:
        head = self.provider.head()
        env = {"RAY_CLUSTER_NAME": self.config.cluster_name}
        if head is not None:
            env["RAY_HEAD_IP"] = head.inner
        env |= self.provider.env_of(host)
        found = self.config.containers
        container = None
        if found is not None:
            container = found.head if head is not None and host == head else found.worker
        token_file, is_login = self._token_file, self._is_login_shell
        return Remote(host, self.provider.auth(), env, token_file, is_login, container)

    def _hears(self, remote: Remote) -> Callable[[str], None]:
        return lambda line: self._say(f"[{remote.host.address}] {line}")

    # --- started and stopped

    def up(self, *, no_restart: bool = False, restart_only: bool = False) -> None:
        """Start it, or bring it up to date: the head, then all others at once.

        Args:
            no_restart: Machines that run a part of it already are set up, and not started again.
            restart_only: Machines are started again, and not set up.

        Raises:
            ClusterError: A machine was not reached or a command failed there. The others were started.
            ValueError: both at once.
        """
        if no_restart and restart_only:
            raise ValueError("--no-restart and --restart-only exclude each other.")
        with alone(self.config.cluster_name):
            was_up = self.provider.is_up()
            head = self._remote(self.provider.take_head())
            self._begin(head, True, starts=not (no_restart and was_up), sets_up=not restart_only)
            self.provider.joined(head.host)
            if isinstance(self.provider, CloudProvider):
                beside_head.start(head, self.config, self.provider, self._hears(head))
                return
            before = self.provider.workers()
            wanted = self.provider.take_workers()
            self._stop_unwanted([one for one in before if one not in wanted])
            synced = self._fetch_synced(head) if wanted and not restart_only else None

            def begin(remote: Remote) -> None:
                if synced is not None:
                    for place, remote_path in enumerate(self.config.cluster_synced_files):
                        remote.copy_to(_only(Path(synced.name) / str(place)), remote_path)
                starts = not (no_restart and remote.host in before)
                self._begin(remote, False, starts=starts, sets_up=not restart_only)

            try:
                errors = self._each(wanted, begin)
            finally:
                if synced is not None:
                    synced.cleanup()
            for host in wanted:
                if host not in errors:
                    self.provider.joined(host)
        _raise(errors, f"{len(wanted) - len(errors)} of {len(wanted)} workers were started.")

    def _stop_unwanted(self, hosts: Sequence[Host]) -> None:
        failed = self._each(hosts, self._stop)
        for error in failed.values():
            self._say(f"Left as it is, and not in the cluster's file any more: {error}")
        self.provider.release(hosts)

    def _stop(self, remote: Remote) -> None:
        """End what runs on a machine of a list, and its container."""
        says = self._hears(remote)
        container = remote.container
        if container is None:
            remote.run("ray stop", says)
            return
        machine = remote.outside()
        if machine.run(container.is_there()).strip() == "true":
            remote.run("ray stop", says)
        machine.run(container.end())
        says(f"{container.name} is ended")

    def down(self, *, workers_only: bool = False, keep_min_workers: bool = False) -> None:
        """Stop it, the head last.

        Args:
            workers_only: The head goes on.
            keep_min_workers: So do as many others as the file asks for at least.

        Raises:
            ClusterError: A machine was not reached or a command failed there. The others were stopped.
        """
        with alone(self.config.cluster_name):
            if isinstance(self.provider, CloudProvider):
                self._release(self.provider, workers_only, keep_min_workers)
                return
            kept = self.provider.take_workers() if keep_min_workers else []
            going = [one for one in self.provider.everything() if one not in kept]

            errors = self._each(going, self._stop)
            self.provider.release([one for one in going if one not in errors])
            if not workers_only and not keep_min_workers:
                head = self.head()
                errors |= self._each([head.host], self._stop)
                if head.host not in errors:
                    self.provider.release([head.host])
        _raise(errors, "The other machines were stopped.")

    def _release(self, provider: CloudProvider, workers_only: bool, keep_min: bool) -> None:
        """The same in a cloud, which ends machines whether or not ssh reaches them."""
        head = provider.head()
        goes_on = workers_only or keep_min
        if head is not None and not goes_on:
            # The autoscaler, which would make new machines, ends first.
            remote = self._remote(head)
            try:
                beside_head.stop(remote, self.config)
                remote.run("ray stop", self._hears(remote))
            except RemoteError as error:
                self._say(f"Ended nevertheless: {error}")
        kept = provider.take_workers() if keep_min else []
        going = [one for one in provider.workers() if one not in kept]
        heads = [] if head is None or goes_on else [head]
        provider.release([*going, *heads])
        for one in [*going, *heads]:
            self._say(f"[{one.address}] {one.id} is ended")

    def bring(self, host: Host) -> None:
        """Set up a machine that was made just now, and start its node. Raises ``RemoteError``."""
        self._begin(self._remote(host), False, starts=True, sets_up=True)

    def _each(
        self, hosts: Sequence[Host], do: Callable[[Remote], object]
    ) -> dict[Host, RemoteError]:
        """Does that with all of them at once; those with which it failed, and why."""
        errors: dict[Host, RemoteError] = {}

        def one(host: Host) -> None:
            try:
                do(self._remote(host))
            except RemoteError as error:
                errors[host] = error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(one, hosts))
        return {host: errors[host] for host in hosts if host in errors}

    def _begin(self, remote: Remote, is_head: bool, *, starts: bool, sets_up: bool) -> None:
        """Set one machine up, if what it needs has changed, and start its daemon."""
        says = self._hears(remote)
        if self.grows:
            remote.wait(BOOT_S, says)
        if remote.container is not None:
            machine = remote.outside()
            for command in self.config.initialization_commands if sets_up else ():
                says(f"$ {command}")
                machine.run(command, says)
            container = remote.container
            known_as = f"{container.program} run {container.image}"
            machine.run(container.start(), says, known_as=known_as)
        self._hand_token(remote)
        if sets_up:
            for path, local in self.config.file_mounts.items():
                says(f"copying {local} to {path}")
                remote.copy_to(local, path, self._rules())
            self._set_up(remote, is_head)
        if starts:
            for command in self.config.start_of(is_head):
                says(f"$ {command}")
                remote.run(command, says)

    def _set_up(self, remote: Remote, is_head: bool) -> None:
        says = self._hears(remote)
        # Those of a machine with a container were for the machine itself.
        first = self.config.initialization_commands if remote.container is None else ()
        commands = [*first, *self.config.setup_of(is_head, remote.host.kind)]
        if not commands:
            return
        # Machines may share their home: the mark is one machine's.
        machine = remote.host.id or remote.host.address
        name = f"{self.config.cluster_name}.{machine}.setup"
        mark = quote(f"{_OWN_FOLDER}/clusters/{name}")
        fingerprint = self._fingerprint(commands)
        if remote.run(f"cat {mark} 2>/dev/null || true").strip() == fingerprint:
            says("is set up already")
            return
        for command in commands:
            says(f"$ {command}")
            remote.run(command, says)
        remote.run(f"echo {fingerprint} > {mark}")

    def _fingerprint(self, commands: Sequence[str]) -> str:
        """A digest of what sets a machine up: the commands, and the files that they may read."""
        digest = hashlib.sha256()

        def add(text: bytes) -> None:
            digest.update(len(text).to_bytes(8, "big") + text)

        for command in commands:
            add(command.encode())
        for remote, local in sorted(self.config.file_mounts.items()):
            files = sorted(local.rglob("*")) if local.is_dir() else [local]
            for file in files:
                if file.is_file():
                    name = file.relative_to(local).as_posix()
                    add(f"{remote}/{name}".encode())
                    add(file.read_bytes())
        return digest.hexdigest()

    def _hand_token(self, remote: Remote) -> None:
        """The cluster's secret is this user's; a machine that has none of its own keeps it as such, too."""
        clusters = f"{_OWN_FOLDER}/clusters"
        own = f"{_OWN_FOLDER}/auth_token"
        keep = (
            f"umask 077; mkdir -p {clusters} && cat > {self._token_file}.part && "
            f"mv {self._token_file}.part {self._token_file} && "
            f"{{ [ -s {own} ] || cp {self._token_file} {own}; }}"
        )
        if auth.is_disabled():
            keep = f"umask 077; mkdir -p {clusters}; rm -f {self._token_file}"
            remote.run(keep)
            return
        remote.run(keep, stdin=auth.token(create=True).encode())

    def _fetch_synced(self, head: Remote) -> tempfile.TemporaryDirectory[str] | None:
        """Fetch the files that the head has for all others, by way of this machine."""
        if not self.config.cluster_synced_files:
            return None
        kept = tempfile.TemporaryDirectory(prefix="heliostat-synced-")
        try:
            for place, path in enumerate(self.config.cluster_synced_files):
                into = Path(kept.name) / str(place)
                into.mkdir()
                head.copy_from(path.rstrip("/"), f"{into}/", self._rules())
        except BaseException:
            kept.cleanup()
            raise
        return kept

    def _rules(self) -> list[str]:
        """Return the options of rsync for files that it leaves out."""
        return [
            *(f"--exclude={pattern}" for pattern in self.config.rsync_exclude),
            *(f"--filter=dir-merge,- {name}" for name in self.config.rsync_filter),
        ]

    # --- used

    def run_here(
        self, remote: Remote, command: str | None, ports: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Run a command there with this process's own input and output; ``None``: a shell. Its exit code."""
        has_terminal = sys.stdin.isatty() or command is None
        told = remote.ssh(*(["-tt"] if has_terminal else []), tunnels=ports)
        shell = "exec bash --login -i" if command is None else command
        what = remote.words(shell, has_terminal=has_terminal)
        return subprocess.run([*told, what], check=False).returncode

    def run_to_end(
        self,
        command: str,
        ports: Sequence[tuple[int, int]],
        *,
        run_env: str,
        is_shown: bool,
        in_tmux: bool,
        stops_cluster: bool,
    ) -> str | None:
        """Run a command on the head for a program; what it has printed, unless that ``is_shown``.

        Raises ``RemoteError``, and ``ValueError`` where the cluster cannot be stopped after it.
        """
        if in_tmux and stops_cluster:
            raise ValueError("A command in tmux has not ended when this returns: leave out stop.")
        command = in_the_background("tmux", command) if in_tmux else command
        say = self._say if is_shown else None
        said = self.head_in(run_env).run(command, say, tunnels=ports)
        if stops_cluster:
            self.down()
        return None if is_shown else said

    def copy(
        self, source: str | None, target: str | None, *, down: bool, remotes: Sequence[Remote]
    ) -> None:
        """Copy to machines, or from one. Without paths: the file's ``file_mounts``.

        Raises ``ValueError`` where one path is missing, ``ClusterError`` with what failed.
        """
        if (source is None) != (target is None):
            raise ValueError("Give both, source and target, or none for the file mounts.")
        if source is not None and target is not None:
            pairs = [(source, target)]
        else:
            mounts = self.config.file_mounts.items()
            pairs = [(path, str(local)) if down else (str(local), path) for path, local in mounts]

        def do(remote: Remote) -> None:
            for one, other in pairs:
                if down:
                    remote.copy_from(one, other, self._rules())
                else:
                    local = Path(one).expanduser()
                    if not local.exists():
                        raise RemoteError(f"There is no {one} on this machine.")
                    remote.copy_to(local, other, self._rules())

        _raise(self._each([one.host for one in remotes], do), "")


def in_the_background(program: str, command: str, extra: str = "") -> str:
    """The command within ``tmux`` or ``screen``, which go on when the connection ends."""
    shell = f"bash -c {shlex.quote(command + '; exec bash')}"
    if program == "tmux":
        return f"tmux new -d {shlex.quote(shell)}"
    return f"screen -L -dm {extra} {shell}"


def _only(folder: Path) -> Path:
    """Return the one entry that was fetched into that folder."""
    (found,) = folder.iterdir()
    return found


def _raise(errors: dict[Host, RemoteError], rest: str) -> None:
    if errors:
        raise ClusterError("\n".join([*map(str, errors.values()), *([rest] if rest else [])]))
