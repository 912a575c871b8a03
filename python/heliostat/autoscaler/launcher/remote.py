"""A machine that ssh reaches: commands run there, files copied there and back."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliostat.autoscaler.launcher.config import Auth
from heliostat.autoscaler.launcher.container import Container
from heliostat.autoscaler.launcher.providers import Host

# How long ssh tries to connect, in seconds.
CONNECT_S = 15
# The exit code of ssh itself when it could not connect.
_SSH_FAILED = 255
# Runs `$0` as in a login. An interactive bash complains where it has no terminal: that goes nowhere, and what
# it runs has its standard error again.
_LOGIN = 'exec 3>&2; exec bash --login -i -c "$0" 2>/dev/null'

# How often a machine that boots is tried, in seconds.
_BOOT_LOOK_S = 2.0

Say = Callable[[str], None]


class RemoteError(RuntimeError):
    """A machine was not reached, or a command failed there; ``code``: what the command ended with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Remote:
    """A machine. ``env``: variables of all commands; ``token_file``: a file there with the token;
    ``container``: where commands run and files lie, instead of on the machine itself."""

    host: Host
    auth: Auth
    env: Mapping[str, str] = field(default_factory=dict)
    token_file: str = ""
    is_login_shell: bool = True
    container: Container | None = None

    def outside(self) -> Remote:
        """The machine itself."""
        return replace(self, container=None)

    def ssh(self, *options: str, tunnels: Sequence[tuple[int, int]] = ()) -> list[str]:
        """The command line of ssh to that machine, without what it should run.

        ``tunnels``: ports of this machine, and of that one that they lead to.
        """
        name = (
            self.host.address if self.auth.user is None else f"{self.auth.user}@{self.host.address}"
        )
        leads = [word for mine, its in tunnels for word in ("-L", f"{mine}:localhost:{its}")]
        return [_program("ssh"), *self._options(), *options, *leads, name]

    def _options(self) -> list[str]:
        known = Path.home() / ".heliostat" / "known_hosts"
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_S),
            "ExitOnForwardFailure": "yes",
            "LogLevel": "ERROR",
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            # A machine that is new is believed, one whose key has changed is not.
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": f'"{known}" ~/.ssh/known_hosts',
        }
        if self.host.id:
            # A cloud gives an address to one machine after the other, each with a key of its own.
            options["HostKeyAlias"] = self.host.id
        if self.auth.private_key is not None:
            options["IdentitiesOnly"] = "yes"
        if self.auth.proxy_command is not None:
            options["ProxyCommand"] = self.auth.proxy_command
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        key = self.auth.private_key
        return words if key is None else [*words, "-i", str(key)]

    def words(self, command: str, *, has_terminal: bool = False) -> str:
        """Return the words for the machine's shell that run the command as its user would."""
        words = self._words(command)
        if self.container is None:
            return words
        return self.container.within(words, has_terminal=has_terminal)

    def _words(self, command: str) -> str:
        parts = [f"export {name}={shlex.quote(value)}" for name, value in self.env.items()]
        if self.token_file:
            # Read there: what stands in a command line, every user of the machine sees.
            parts.append(
                f'[ ! -r {self.token_file} ] || export HELIOSTAT_AUTH_TOKEN="$(cat {self.token_file})"'
            )
        if not self.is_login_shell:
            return f"bash -c {shlex.quote(_lines(*parts, command))}"
        parts = ["exec 2>&3 3>&-", *parts, "[ ! -r ~/.bashrc ] || . ~/.bashrc"]
        # In a shell of its own: a login's says "logout" where a command says `exit`.
        script = _lines(*parts, "(", command, ")")
        return f"bash -c {shlex.quote(_LOGIN)} {shlex.quote(script)}"

    def run(
        self,
        command: str,
        say: Say | None = None,
        stdin: bytes = b"",
        tunnels: Sequence[tuple[int, int]] = (),
        known_as: str = "",
    ) -> str:
        """Run a command to its end; what it has printed. ``say`` hears each line as it comes.

        ``known_as``: what an error calls it, instead of by all of its words.

        Raises ``RemoteError``.
        """
        told = [*self.ssh(tunnels=tunnels), self.words(command)]
        with subprocess.Popen(
            told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(stdin)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, and its exit code says why
            lines = []
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip("\r\n")
                lines.append(text)
                if say is not None:
                    say(text)
        self._judge(process.returncode, known_as or command, lines)
        return "".join(f"{line}\n" for line in lines)

    def wait(self, seconds: float, say: Say) -> None:
        """Wait until ssh reaches it, for so long at most. Raises ``RemoteError``."""
        until = time.monotonic() + seconds
        is_told = False
        while True:
            try:
                self.run("true")
                return
            except RemoteError as error:
                if error.code != _SSH_FAILED or time.monotonic() >= until:
                    raise
            if not is_told:
                say("waits until ssh reaches it")
                is_told = True
            time.sleep(_BOOT_LOOK_S)

    def _judge(self, code: int, command: str, lines: Sequence[str]) -> None:
        last = next((line for line in reversed(lines) if line.strip()), "")
        if code == _SSH_FAILED:
            raise RemoteError(f"{self.host.address} is not reached by ssh: {last}", code)
        if code != 0:
            said = f": {last}" if last else ""
            raise RemoteError(
                f"{self.host.address}: `{command}` ended with exit code {code}{said}", code
            )

    def copy_to(self, local: Path, remote: str, rules: Sequence[str] = ()) -> None:
        """Copy a file, or what a folder has, there. Raises ``RemoteError``."""
        if self.container is not None:
            self._copy_within(self.container, local, remote, rules)
            return
        if local.is_dir():
            parent = remote.rstrip("/") or "/"
            source, target = f"{local}/", f"{remote.rstrip('/')}/"
        else:
            parent = remote if remote.endswith("/") else str(Path(remote).parent)
            source, target = str(local), remote
        self.run(f"mkdir -p {quote(parent)}")
        self._rsync([*rules, source, f"{self._name()}:{target}"])

    def copy_from(self, remote: str, local: str, rules: Sequence[str] = ()) -> None:
        """Copy from there, as rsync takes paths. Raises ``RemoteError``."""
        if self.container is not None:
            stage = _stage(self.container, remote)
            place = quote(remote.rstrip("/"))
            packed = self.container.within(_bash(_PACK.format(place=place)))
            machine = self.outside()
            machine.run(f"rm -rf {quote(stage)} && mkdir -p {quote(stage)}")
            known_as = f"{self.container.program} exec … tar {remote}"
            machine.run(f"set -o pipefail; {packed} | tar -x -C {quote(stage)}", known_as=known_as)
            ends = "/" if remote.endswith("/") else ""
            machine.copy_from(f"{stage}/{Path(remote).name}{ends}", local, rules)
            return
        self._rsync([*rules, f"{self._name()}:{remote}", local])

    def _copy_within(
        self, container: Container, local: Path, remote: str, rules: Sequence[str]
    ) -> None:
        """By way of the machine itself, where rsync finds what it brought before."""
        machine, stage = self.outside(), _stage(container, remote)
        staged = f"{stage}/{local.name}"
        machine.copy_to(local, staged, rules)
        if local.is_dir():
            place = quote(remote.rstrip("/") or "/")
            unpack = f"mkdir -p {place} && tar -x --no-same-owner -C {place}"
            taken = f"tar -c -C {quote(staged)} . | {container.within(_bash(unpack))}"
        else:
            parent = remote if remote.endswith("/") else str(Path(remote).parent)
            write = _WRITE.format(
                parent=quote(parent),
                place=quote(remote),
                name=shlex.quote(local.name),
                mode=f"{local.stat().st_mode & 0o777:o}",
            )
            taken = f"{container.within(_bash(write))} < {quote(staged)}"
        machine.run(
            f"set -o pipefail; {taken}", known_as=f"{container.program} exec … tar {remote}"
        )

    def _name(self) -> str:
        address = self.host.address
        address = f"[{address}]" if ":" in address else address
        return address if self.auth.user is None else f"{self.auth.user}@{address}"

    def _rsync(self, words: Sequence[str]) -> None:
        shell = shlex.join([_program("ssh"), *self._options()])
        told = [_program("rsync"), "-az", "--rsh", shell, *words]
        done = subprocess.run(told, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            first = said[0] if said else f"exit code {done.returncode}"
            raise RemoteError(f"{self.host.address}: rsync failed: {first}", done.returncode)


# Commands of a container's shell that hand out a file or a folder, and take a file as rsync would.
_PACK = 'place={place}; cd "$(dirname "$place")" && tar -c "$(basename "$place")"'
_WRITE = (
    'mkdir -p {parent} && place={place} && if [ -d "$place" ]; then place="$place"/{name}; fi && '
    'cat > "$place" && chmod {mode} "$place"'
)


def _stage(container: Container, path: str) -> str:
    """The folder of a machine for files on their way to or from a path of its container."""
    digest = hashlib.sha256(path.rstrip("/").encode()).hexdigest()[:16]
    return f"~/.heliostat/containers/{container.name}/{digest}"


def _bash(script: str) -> str:
    return f"bash -c {shlex.quote(script)}"


def _lines(*parts: str) -> str:
    return "\n".join(parts)


def quote(path: str) -> str:
    """A path for a shell, which still replaces a leading ``~``."""
    head, slash, rest = path.partition("/")
    return f"{head}{slash}{shlex.quote(rest)}" if head == "~" and rest else shlex.quote(path)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RemoteError(f"`{name}` is not installed on this machine: the launcher needs it.")
    return found
