"""A machine's container, in which its part of the cluster runs: the file's section `docker`."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.autoscaler.launcher.checks import ConfigError, boolean, known, section, texts

_KEYS = (
    "image",
    "head_image",
    "worker_image",
    "container_name",
    "pull_before_run",
    "run_options",
    "head_run_options",
    "worker_run_options",
    "disable_automatic_runtime_detection",
    "disable_shm_size_detection",
    "use_podman",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# How much of the machine's memory `/dev/shm` of a container may take, which users' libraries share.
_SHM_PART = 0.3
_SHM = f'--shm-size="$(awk \'/^MemTotal/ {{ printf "%dk", $2 * {_SHM_PART} }}\' /proc/meminfo)"'
_LABEL = "heliostat"


@dataclass(frozen=True)
class Container:
    """A machine's container. ``program``: `docker`, or `podman`; ``options``: further ones of its `run`."""

    program: str
    name: str
    image: str
    is_pulled: bool = True
    options: tuple[str, ...] = ()
    has_shm: bool = True
    """Whether its `/dev/shm` gets a part of the machine's memory; else what ``options`` say."""
    finds_gpus: bool = True
    """Whether it gets the machine's GPUs where there are some."""

    def within(self, words: str, *, has_terminal: bool = False) -> str:
        """Return the command by which the machine's shell runs those words in the container."""
        terminal = " --tty" if has_terminal else ""
        return f"{self.program} exec --interactive{terminal} {self.name} {words}"

    def start(self) -> str:
        """A command that makes it, unless it runs already and was made by the same options; what it prints is
        shown."""
        label = f"{_LABEL}={self._fingerprint()}"
        asks = f"{{{{.State.Running}}}} {{{{index .Config.Labels {_quoted(_LABEL)}}}}}"
        runs = f"true {self._fingerprint()}"
        pulls = f"{self.program} pull {shlex.quote(self.image)}" if self.is_pulled else "true"
        fixed = ("--detach", "--init", "--network", "host", "--entrypoint", "sleep")
        run = " ".join(
            [
                f"{self.program} run",
                *fixed,
                f"--name {self.name} --label {label}",
                *([_SHM] if self.has_shm else []),
                "$gpus",
                *self.options,
                f"{shlex.quote(self.image)} infinity",
            ]
        )
        gpus = (
            f"{self.program} info --format '{{{{.Runtimes}}}}' 2>/dev/null | grep -q nvidia && "
            "nvidia-smi >/dev/null 2>&1 && gpus='--gpus all'"
        )
        return "\n".join(
            [
                f"said=$({self.program} inspect --format {shlex.quote(asks)} {self.name} 2>/dev/null)",
                f'if [ "$said" = {shlex.quote(runs)} ]; then echo "{self.name} runs already"; else',
                f"{pulls} && {{ {self.program} rm --force {self.name} >/dev/null 2>&1; gpus=",
                gpus if self.finds_gpus else "",
                f'{run} >/dev/null && echo "{self.name} runs {self.image}"; }}',
                "fi",
            ]
        )

    def end(self) -> str:
        """The command that stops and removes the container."""
        return f"{self.program} rm --force {self.name} >/dev/null 2>&1 || true"

    def is_there(self) -> str:
        """A command that prints `true` where it runs."""
        asks = shlex.quote("{{.State.Running}}")
        return f"{self.program} inspect --format {asks} {self.name} 2>/dev/null || true"

    def _fingerprint(self) -> str:
        told = repr((self.image, self.options, self.has_shm, self.finds_gpus))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Containers:
    """The containers of a cluster: the head's, and the others'."""

    head: Container
    worker: Container


def read(told: Mapping[str, Any]) -> Containers | None:
    """Return the containers of the section; ``None`` where it names no image. Raises
    ``ConfigError``.
    """
    found = section(told, "docker")
    known(found, _KEYS, "docker: ")
    for key in ("image", "head_image", "worker_image", "container_name"):
        if found.get(key) is not None and (not isinstance(found[key], str) or not found[key]):
            raise ConfigError(f"`docker.{key}` must be a text, not {found[key]!r}.")
    images = [found.get(f"{kind}_image") or found.get("image") for kind in ("head", "worker")]
    if not any(images):
        return None
    if not all(images):
        raise ConfigError(
            "`docker` names an image for the head or for the others only: write `image` for all machines, "
            "or both, `head_image` and `worker_image`."
        )
    name = found.get("container_name")
    if not name or not _NAME.fullmatch(name):
        raise ConfigError(
            f"`docker.container_name` is {name!r}: write a name of letters, digits, `-`, `_` and `.`."
        )

    def one(kind: str, image: str) -> Container:
        options = (*texts(found, "run_options"), *texts(found, f"{kind}_run_options"))
        return Container(
            program="podman" if boolean(found, "use_podman") else "docker",
            name=name,
            image=image,
            is_pulled=boolean(found, "pull_before_run", True),
            options=options,
            has_shm=not boolean(found, "disable_shm_size_detection")
            and not any(option.startswith("--shm-size") for option in options),
            finds_gpus=not boolean(found, "disable_automatic_runtime_detection")
            and not any(option.startswith(("--gpus", "--runtime")) for option in options),
        )

    head, worker = images
    assert isinstance(head, str)
    assert isinstance(worker, str)
    return Containers(one("head", head), one("worker", worker))


def _quoted(text: str) -> str:
    """A text for a template of Go's."""
    return f'"{text}"'
