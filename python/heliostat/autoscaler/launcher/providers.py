"""Providers of a cluster's machines. The launcher knows only :class:`Provider`: clouds fit behind
it, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from heliostat.autoscaler.launcher.checks import ConfigError, known
from heliostat.autoscaler.launcher.config import Auth, Config

_LOCAL_KEYS = ("type", "head_ip", "worker_ips", "external_head_ip", "use_internal_ips")


@dataclass(frozen=True)
class Host:
    """A machine. ``address``: where ssh finds it; ``inner``: where the cluster's other machines do.

    ``id`` is what its cloud calls it, ``kind`` one of the file's node types; a machine of a list has neither.
    """

    address: str
    inner: str
    id: str = ""
    kind: str = ""


class Provider(Protocol):
    """A provider of machines, which knows the ones that belong to the cluster.

    A method that asks a cloud raises ``OSError`` where it does not answer.
    """

    notes: list[str]
    """The parts of the file that cannot be had, a sentence each."""

    def auth(self) -> Auth:
        """The login of ssh."""

    def env_of(self, host: Host) -> Mapping[str, str]:
        """Variables of all commands on that machine."""

    def head(self) -> Host | None:
        """The machine of the head; ``None`` where it has none."""

    def workers(self) -> list[Host]:
        """The other machines that belong to the cluster."""

    def is_up(self) -> bool:
        """Whether the cluster was started and has not been stopped."""

    def everything(self) -> list[Host]:
        """All machines but the head's that may run a part of the cluster, known as such or not."""

    def take_head(self) -> Host:
        """The machine of the head, made if need be."""

    def take_workers(self) -> list[Host]:
        """Return as many machines as the file asks for, made if need be; those that there are come first."""

    def joined(self, host: Host) -> None:
        """From now on that machine belongs to the cluster."""

    def release(self, hosts: Sequence[Host]) -> None:
        """These do not belong to it any more, and are ended where the provider had made them."""


class LocalProvider:
    """A list of machines: ``provider: {type: local, head_ip: …, worker_ips: […]}``.

    Which of them belong to the cluster is kept in a file of the user who starts it.
    """

    def __init__(self, config: Config) -> None:
        """Raises ``ConfigError`` where the section is wrong."""
        told = config.provider
        with naming(config.path):
            head, workers = _local_section(told)
        self._head = Host(str(told.get("external_head_ip") or head), head)
        self._hosts = [Host(one, one) for one in workers]
        asked = config.min_workers
        most = config.max_workers
        self._count = min(
            len(workers) if asked is None else asked,
            len(workers) if most is None else most,
            len(workers),
        )
        self.notes = [
            f"{config.path}: `{key}` is {value}, and there are {len(workers)} `worker_ips`."
            for key, value in (("min_workers", asked), ("max_workers", most))
            if value is not None and value > len(workers)
        ]
        self._auth = config.auth
        self._file = folder() / f"{config.cluster_name}.json"

    def auth(self) -> Auth:
        return self._auth

    def env_of(self, host: Host) -> Mapping[str, str]:
        return {}

    def head(self) -> Host | None:
        return self._head

    def workers(self) -> list[Host]:
        return [Host(one, one) for one in self._kept()["workers"]]

    def is_up(self) -> bool:
        return self._file.exists()

    def everything(self) -> list[Host]:
        found = [*self._hosts, *self.workers()]
        return list(dict.fromkeys(found))

    def take_head(self) -> Host:
        return self._head

    def take_workers(self) -> list[Host]:
        return self._hosts[: self._count]

    def joined(self, host: Host) -> None:
        names = self._kept()["workers"]
        if host != self._head and host.address not in names:
            names.append(host.address)
        self._keep(names)

    def release(self, hosts: Sequence[Host]) -> None:
        if self._head in hosts:
            self._file.unlink(missing_ok=True)
            return
        gone = {one.address for one in hosts}
        if self.is_up():
            self._keep([one for one in self._kept()["workers"] if one not in gone])

    def _kept(self) -> dict[str, list[str]]:
        try:
            found: dict[str, list[str]] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {"workers": []}
        return found

    def _keep(self, workers: Sequence[str]) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps({"workers": list(workers)}))
        part.replace(self._file)


def _local_section(told: Mapping[str, Any]) -> tuple[str, list[str]]:
    if told.get("coordinator_address"):
        raise ConfigError(
            "`provider.coordinator_address` is not supported: name `head_ip` and `worker_ips`."
        )
    known(told, _LOCAL_KEYS, within="provider.", of="`type: local`")
    head, workers = told.get("head_ip"), told.get("worker_ips")
    if not isinstance(head, str) or not head:
        raise ConfigError("`provider.head_ip` must name the head's machine.")
    if not isinstance(workers, list) or not all(isinstance(one, str) and one for one in workers):
        raise ConfigError("`provider.worker_ips` must be a list of machines; `[]` for none.")
    for one in [head, *workers]:
        if one.startswith("-") or any(letter.isspace() for letter in one):
            raise ConfigError(f"`provider`: {one!r} is not the address of a machine.")
    twice = sorted({one for one in workers if workers.count(one) > 1 or one == head})
    if twice:
        raise ConfigError(f"`provider`: {twice[0]} is there twice; each machine has one node.")
    return head, workers


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Have a ``ConfigError`` begin with the file that it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def folder() -> Path:
    """The folder of this user's clusters; made if need be, for nobody else to read."""
    path = Path.home() / ".heliostat" / "clusters"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def alone(cluster_name: str) -> Iterator[None]:
    """A lock on the cluster for this user's commands. Raises ``RuntimeError`` if another one has it."""

    def refuse(holder: str) -> None:
        raise RuntimeError(
            f"Process {holder} starts or stops cluster {cluster_name!r} just now: try again when it "
            "has ended."
        )

    with held(f"{cluster_name}.lock", refuse):
        yield


@contextlib.contextmanager
def held(name: str, is_busy: Callable[[str], None]) -> Iterator[None]:
    """Hold a file of this user's, which names the process that has it.

    ``is_busy`` is told the number of another one's, again and again until it raises or the file is free.
    """
    with (folder() / name).open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip()
            is_busy(holder)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
