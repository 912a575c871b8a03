"""Writes down which release of each library this repository's tasks install: requirements/*.txt.

    python xtask/lock.py write [OPTION …]   with uv; options such as --upgrade go to `uv pip compile`
    python xtask/lock.py check              print what is stale or wrong, a line each; asks no index
    python xtask/lock.py asks SET           print what pyproject.toml asks for, without versions of the lock

A file has every package of one task's environment with its version and the digests of its files, for
Linux and every Python that is supported. `docs/decisions/0044-a-lock-for-what-tasks-install.md` says why.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from heliostat_build import OLDEST, ROOT, load_toml

FOLDER = "requirements"
WORK = ROOT / "target" / "lock"
# Wheels of other systems and machines have no digest here: their sources do.
MACHINES = ("x86_64", "aarch64")
LOCKED = re.compile(r"[\w.-]+==\S+ .*--hash=sha256:\w{64}")
PYTHONS = tuple(f"3.{minor}" for minor in range(OLDEST.minor, 15))


class Set(NamedTuple):
    """What one task installs: the package's requirements, and these extras and groups of pyproject.toml."""

    name: str
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    # Left out although something requires it.
    without: tuple[str, ...] = ()
    # In an environment of its own, where what its packages pin decides nothing for the others.
    alone: bool = False
    # In the place of what packages require of these.
    instead: tuple[str, ...] = ()


EXTRAS = ("data", "serve", "train", "tune")
# What `make test` has not, for its size or what it pins. No comet and no aim: their tests have stand-ins.
LIBRARIES = (
    "audio",
    "avro",
    "ax",
    "bayesopt",
    "bohb",
    "daft",
    "dask",
    "delta",
    "hebo",
    "hudi",
    "hyperopt",
    "iceberg",
    "images",
    "jax",
    "lance",
    "lightning",
    "mcap",
    "mlflow",
    "msgpack",
    "nevergrad",
    "optuna",
    "serve-async-inference",
    "tensorboard",
    "tensorflow",
    "tfrecord",
    "video",
    "wandb",
    "zarr",
    "zoopt",
)
# PyTorch's compiler for GPUs, and those libraries of CUDA that it loads when they are asked for.
FOR_GPUS = (
    "cuda-bindings",
    "cuda-pathfinder",
    "cuda-toolkit",
    "nvidia-cuda-cccl",
    "nvidia-cusolver",
    "nvidia-nvjitlink",
    "nvidia-nvtx",
    "triton",
)
# HEBO asks for NumPy before 1.25, which nothing else here takes; it runs with newer ones.
OF_HEBO = ("numpy>=1.26",)
SETS = (
    Set("demo", groups=("demo",), without=FOR_GPUS),
    Set("dev", groups=("dev",)),
    Set("docs", groups=("docs",)),
    Set("extras", (*EXTRAS, *LIBRARIES), ("dev", "extras"), alone=True, instead=OF_HEBO),
    Set("lock", groups=("lock",)),
    Set("setup", EXTRAS),
    Set("test", EXTRAS, ("dev", "docs", "test")),
)


def asked(pyproject: dict[str, Any], kind: Set) -> list[str]:
    """The requirements that pyproject.toml states for this set."""
    project = pyproject["project"]
    found = set(project["dependencies"])
    for extra in kind.extras:
        found |= set(project["optional-dependencies"][extra])
    for group in kind.groups:
        found |= set(pyproject["dependency-groups"][group])
    return sorted(found)


# ---- writing ----


def uv(*arguments: str | Path) -> None:
    command = [Path(sys.executable).with_name("uv"), "pip", "compile", "--quiet", "--universal"]
    command += ["--python-version", str(OLDEST.major) + "." + str(OLDEST.minor), *arguments]
    if subprocess.run(command, cwd=WORK, check=False).returncode:
        sys.exit("uv could not resolve what pyproject.toml asks for")


def write(options: list[str]) -> None:
    """Resolve all sets as one, so that they agree, and write a file for each."""
    pyproject = load_toml(ROOT / "pyproject.toml")
    WORK.mkdir(parents=True, exist_ok=True)
    whole = WORK / "all.txt"
    listed(whole, sorted({line for kind in SETS if not kind.alone for line in pins(kind)}))
    together = [kind for kind in SETS if not kind.alone]
    lines = sorted({line for kind in together for line in asked(pyproject, kind)})
    wanted = listed(WORK / "all.in", lines)
    uv(wanted, "--output-file", whole, *options)
    (ROOT / FOLDER).mkdir(exist_ok=True)
    for kind in SETS:
        requirements = asked(pyproject, kind)
        locked = WORK / f"pylock.{kind.name}.toml"
        locked.unlink(missing_ok=True)
        wanted = listed(WORK / f"{kind.name}.in", requirements)
        versions = whole
        instead = ("--override", listed(WORK / f"{kind.name}.instead", list(kind.instead)))
        if kind.alone:
            versions = listed(WORK / f"{kind.name}.txt", list(pins(kind)))
            uv(wanted, "--output-file", versions, *instead, *options)
        uv(wanted, "--constraints", versions, "--output-file", locked, *instead)
        packages = load_toml(locked)["packages"]
        path(kind).write_text("\n".join([*head(requirements), *body(packages, kind), ""]))


def listed(file: Path, requirements: list[str]) -> Path:
    file.write_text("".join(f"{line}\n" for line in requirements))
    return file


def pins(kind: Set) -> Iterator[str]:
    """What is locked today, which stays unless an option says otherwise."""
    if path(kind).exists():
        for line in path(kind).read_text().splitlines():
            if "==" in line and not line.startswith("#"):
                yield line.removesuffix("\\").strip()


def path(kind: Set) -> Path:
    return ROOT / FOLDER / f"{kind.name}.txt"


def head(requirements: list[str]) -> list[str]:
    return [
        "# Written by `make lock`, and by nothing else. What pyproject.toml asks for here:",
        *(f"# asks {line}" for line in requirements),
    ]


def body(packages: list[dict[str, Any]], kind: Set) -> Iterator[str]:
    for package in packages:
        if package["name"] in kind.without or not is_possible(package.get("marker")):
            continue
        marker = f" ; {package['marker']}" if "marker" in package else ""
        digests = sorted(hash_ for name, hash_ in files(package) if is_wanted(name))
        yield f"{package['name']}=={package['version']}{marker} \\"
        yield " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests)


def files(package: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, digest) of each file of a package."""
    for file in [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]:
        yield file["url"].rpartition("/")[2], file["hashes"]["sha256"]


def is_wanted(name: str) -> bool:
    """Whether this file can be installed here: sources, or a wheel for Linux and a Python with its GIL."""
    if not name.endswith(".whl"):
        return True
    python, abi, platform = name.removesuffix(".whl").rsplit("-", 3)[1:]
    if platform != "any" and not (
        platform.startswith(("manylinux", "linux")) and platform.endswith(MACHINES)
    ):
        return False
    if abi == "none" or "abi3" in abi.split("."):
        return python != "py2"
    return abi in {"cp" + version.replace(".", "") for version in PYTHONS}


def is_possible(marker: str | None) -> bool:
    """Whether a marker is true on one of the systems that are supported."""
    from pip._vendor.packaging.markers import Marker

    systems = [
        {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": machine,
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
        }
        for python in PYTHONS
        for machine in MACHINES
    ]
    return marker is None or any(Marker(marker).evaluate(system) for system in systems)


# ---- checking ----


def problems(pyproject: dict[str, Any], texts: dict[str, str | None]) -> Iterator[str]:
    """What is wrong with the files' texts, by their sets' names."""
    for kind in SETS:
        name, text = f"{FOLDER}/{kind.name}.txt", texts.get(kind.name)
        if text is None:
            yield f"{name} is missing: run `make lock`"
            continue
        stated = re.findall(r"^# asks (.*)$", text, re.MULTILINE)
        if stated != asked(pyproject, kind):
            yield f"{name} is older than pyproject.toml: run `make lock`"
        if "://" in text:
            yield f"{name} names an index: which one is the machine's business"
        for line in text.replace("\\\n", " ").splitlines():
            if not line.startswith("#") and not LOCKED.fullmatch(line):
                yield f"{name}: no version and digest in {line[:60]!r}"


def check() -> None:
    texts = {kind.name: path(kind).read_text() if path(kind).exists() else None for kind in SETS}
    for problem in problems(load_toml(ROOT / "pyproject.toml"), texts):
        print(problem)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", *options]:
            write(options)
        case ["check"]:
            check()
        case ["asks", name]:
            (kind,) = (kind for kind in SETS if kind.name == name)
            print("\n".join(asked(load_toml(ROOT / "pyproject.toml"), kind)))
        case _:
            sys.exit(__doc__)
