"""One machine that ssh reaches: commands run there, files copied there and back."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heliostat.autoscaler.launcher.config import Auth
from heliostat.autoscaler.launcher.providers import Host

# How long ssh tries to connect, in seconds.
CONNECT_S = 15
# What ssh itself ends with when it could not connect.
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
    """A machine. ``env``: variables of all commands; ``token_file``: a file there with the token."""

    host: Host
    auth: Auth
    env: Mapping[str, str] = field(default_factory=dict)
    token_file: str = ""
    is_login_shell: bool = True

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

    def words(self, command: str) -> str:
        """What the machine's shell is told to run that command as its user would."""
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
    ) -> str:
        """Run a command to its end; what it has printed. ``say`` hears each line as it comes.

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
        self._judge(process.returncode, command, lines)
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
        self._rsync([*rules, f"{self._name()}:{remote}", local])

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
