"""Builds Heliostat's wheel: a PEP 517 and PEP 660 backend of the standard library alone.

One wheel carries three things that no ready backend puts together: the extension module (crate
helio-py), the daemon binary (crate helio-cli, at heliostat/bin/heliostat) and two packages.
`docs/decisions/0002-one-wheel.md` says why.

    python xtask/heliostat_build.py place PROFILE              build, and put both files into python/heliostat
    python xtask/heliostat_build.py wheel FOLDER [VERSION …]   build with the release profile, and pack
    python xtask/heliostat_build.py sdist FOLDER               pack the sources; pip builds a wheel of them

A wheel is for the running CPython, or for each VERSION such as 3.12, whose interpreter need not be here. It
is for this machine's libc and later ones, which an index of packages refuses. With MANYLINUX=2.17 in the
environment it is for that release of glibc and all later ones, with MANYLINUX=2.17-aarch64 for another kind
of machine: ``cargo zigbuild`` links it (``pip install ziglang cargo-zigbuild``, ``rustup target add``).
REPOSITORY_URL and SITE_URL in the environment become the project's addresses in the metadata.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "python"
# Package, and the folder of a wheel that holds it. The alias `ray` has a folder of its own, which a path
# file puts on sys.path: no file of the wheel lies where the real Ray has one (decision 0018).
ALIAS = "heliostat/_alias"
PACKAGES = {"heliostat": "", "ray": f"{ALIAS}/"}
BINARY = "bin/heliostat"
NOTICES = "THIRD-PARTY-NOTICES.txt"
EPOCH = (1980, 1, 1, 0, 0, 0)  # equal inputs make equal bytes


# ---- the system and the Python it is for ----


class Manylinux(NamedTuple):
    """Systems with this release of glibc or a later one."""

    glibc: str
    machine: str

    @classmethod
    def asked(cls) -> Manylinux | None:
        """The one that the environment names, if it does."""
        text = os.environ.get("MANYLINUX", "")
        if not text:
            return None
        found = re.fullmatch(r"(2\.\d+)(?:-(x86_64|aarch64))?", text)
        if found is None:
            sys.exit(f"MANYLINUX={text}: write it as 2.17, or as 2.17-aarch64")
        return cls(found[1], found[2] or platform.machine())

    @property
    def target(self) -> str:
        """What Rust calls it."""
        return f"{self.machine}-unknown-linux-gnu"

    @property
    def tag(self) -> str:
        """What wheels call it; installers before 2021 know the older names alone."""
        modern = f"manylinux_{self.glibc.replace('.', '_')}_{self.machine}"
        older = {"2.12": "manylinux2010", "2.17": "manylinux2014"}.get(self.glibc)
        return f"{modern}.{older}_{self.machine}" if older else modern


class Python(NamedTuple):
    """A version of CPython, with its GIL, on this machine's kind of system."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Python:
        """The version that a text such as "3.12" names."""
        parts = text.split(".")
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            sys.exit(f"{text!r} is not a version of Python: write it as 3.12")
        version = cls(int(parts[0]), int(parts[1]))
        if not OLDEST <= version < cls(4, 0):
            sys.exit(f"Heliostat needs CPython 3.10 or newer, not {text}")
        return version

    @property
    def extension(self) -> str:
        """The name under which this Python imports the extension module."""
        suffix: str = sysconfig.get_config_var("EXT_SUFFIX")
        if self != RUNNING:
            here = f"cpython-{RUNNING.major}{RUNNING.minor}{getattr(sys, 'abiflags', '')}-"
            if here not in suffix:
                sys.exit(f"extension modules end in {suffix} here: run this with CPython on Linux")
            suffix = suffix.replace(here, f"cpython-{self.major}{self.minor}-")
        if SYSTEM:
            suffix = suffix.replace(f"-{platform.machine()}-", f"-{SYSTEM.machine}-")
        return "_heliostat" + suffix

    @property
    def tag(self) -> str:
        """The tag of wheels for this Python."""
        python = f"cp{self.major}{self.minor}"
        flags = getattr(sys, "abiflags", "") if self == RUNNING else ""
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        return f"{python}-{python}{flags}-{SYSTEM.tag if SYSTEM else here}"

    def pyo3_config(self, folder: Path) -> Path:
        """A file that says what PyO3 would otherwise ask the interpreter for."""
        text = (
            f"implementation=CPython\nversion={self.major}.{self.minor}\nshared=true\n"
            f"pointer_width={sys.maxsize.bit_length() + 1}\n"
            "build_flags=\nsuppress_build_script_link_lines=true\n"
        )
        path = folder / "pyo3" / f"cpython-{self.major}.{self.minor}.txt"
        # Cargo looks at its time: an unchanged file is not written again.
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path


SYSTEM = Manylinux.asked()
OLDEST = Python(3, 10)
RUNNING = Python(*sys.version_info[:2])


# ---- what is packed ----


def load_toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib
        except ImportError:
            from pip._vendor import tomli as tomllib
    with path.open("rb") as file:
        return tomllib.load(file)


def project() -> dict[str, Any]:
    """The [project] table, with the version that Cargo.toml alone states."""
    table: dict[str, Any] = load_toml(ROOT / "pyproject.toml")["project"]
    return {**table, "version": load_toml(ROOT / "Cargo.toml")["workspace"]["package"]["version"]}


def addresses() -> dict[str, str]:
    """Where the project is; the repository itself knows no address of its own."""
    repository = os.environ.get("REPOSITORY_URL", "").rstrip("/")
    if not repository:
        return {}
    return {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        **({"Documentation": site} if (site := os.environ.get("SITE_URL", "")) else {}),
    }


def metadata(table: dict[str, Any]) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {table['name']}",
        f"Version: {table['version']}",
        f"Summary: {table['description']}",
        f"License-Expression: {table['license']}",
        *(f"License-File: {name}" for name in table["license-files"]),
        *([f"License-File: {NOTICES}"] if table.get("linked") else []),
        f"Requires-Python: {table['requires-python']}",
        *(f"Classifier: {name}" for name in table["classifiers"]),
        *(f"Requires-Dist: {need}" for need in table["dependencies"]),
        *(f"Project-URL: {name}, {url}" for name, url in addresses().items()),
    ]
    for extra, needs in table["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
    readme = table["readme"]  # without one an index shows the summary
    text = (ROOT / readme).read_text() if readme else f"{table['description']}\n"
    lines += ["Description-Content-Type: text/markdown", "", text]
    return "\n".join(lines)


def python_sources() -> Iterator[tuple[str, Path]]:
    """(name in the wheel, file) of what is pure Python; what `place` left in the tree is not."""
    for package, folder in PACKAGES.items():
        for path in sorted((PYTHON / package).rglob("*")):
            name = path.relative_to(PYTHON)
            built = path.suffix in (".so", ".pyc") or name.parts[:2] == ("heliostat", "bin")
            if path.is_file() and not built:
                yield folder + name.as_posix(), path


# ---- what cargo makes ----


def target_folder() -> Path:
    """Where cargo writes."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")  # absolute one wins


def cargo(profile: str, python: Python = RUNNING) -> tuple[Path, Path]:
    """Build both artefacts with one call, so that they share every dependency; where they lie."""
    wanted = ["--profile", profile, "-p", "helio-py", "-p", "helio-cli"]
    target = target_folder()
    command, folder = ["cargo", "build", *wanted], target / profile
    if SYSTEM:
        if shutil.which("cargo-zigbuild") is None:
            sys.exit(
                "MANYLINUX: cargo zigbuild is not installed: pip install ziglang cargo-zigbuild, "
                f"and rustup target add {SYSTEM.target}"
            )
        command = ["cargo", "zigbuild", "--target", f"{SYSTEM.target}.{SYSTEM.glibc}", *wanted]
        folder = target / SYSTEM.target / profile
    if python == RUNNING and not SYSTEM:
        # The interpreter itself, not the environment's link to it: that one's name stays the same
        # when it comes to mean another version, and PyO3 would not be built again.
        told = {"PYO3_PYTHON": os.path.realpath(sys.executable)}
    else:
        told = {"PYO3_CONFIG_FILE": str(python.pyo3_config(target))}
    if subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, **told}).returncode:
        sys.exit("cargo could not build the extension module and the daemon")
    library = "lib_heliostat.dylib" if sys.platform == "darwin" else "lib_heliostat.so"
    built = folder / library, folder / "heliostat"
    for path in built:
        if not path.exists():
            sys.exit(f"cargo built no {path}: is its crate's target named so?")
    return built


def stamp(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def place(profile: str) -> None:
    """Put both artefacts where the package looks for them in a checkout."""
    extension, binary = cargo(profile)
    for source, name in ((extension, RUNNING.extension), (binary, BINARY)):
        goal = PYTHON / "heliostat" / name
        if goal.exists() and stamp(goal) == stamp(source):
            continue
        goal.parent.mkdir(exist_ok=True)
        # A running process keeps the old file: rename over it, never write into it.
        fresh = goal.with_name(f".{goal.name}.{os.getpid()}")
        shutil.copy2(source, fresh)
        fresh.replace(goal)


# ---- the wheel ----


class Wheel:
    """A wheel being written; closes with its RECORD."""

    def __init__(self, folder: str, tag: str, table: dict[str, Any] | None = None) -> None:
        table = table or project()
        stem = f"{table['name']}-{table['version']}"
        self.info = f"{stem}.dist-info"
        self.name = f"{stem}-{tag}.whl"
        self.path = Path(folder) / self.name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.part = self.path.with_name(f".{self.name}.{os.getpid()}")
        self.zip = zipfile.ZipFile(self.part, "w")
        self.record: list[str] = []
        self.add(f"{self.info}/METADATA", metadata(table).encode())
        self.add(
            f"{self.info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: heliostat_build\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}\n".encode(),
        )
        if commands := [f"{name} = {entry}" for name, entry in table["scripts"].items()]:
            self.add(
                f"{self.info}/entry_points.txt",
                "\n".join(["[console_scripts]", *commands, ""]).encode(),
            )
        for name in table["license-files"]:
            self.add(f"{self.info}/licenses/{name}", (ROOT / name).read_bytes())
        if table.get("linked"):
            sys.path.append(str(ROOT / "xtask"))
            import notices

            machine = SYSTEM.machine if SYSTEM else platform.machine()
            self.add(f"{self.info}/licenses/{NOTICES}", notices.text(machine).encode())

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(entry, data, compresslevel=9)  # an entry does not take the archive's
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self) -> str:
        name = f"{self.info}/RECORD"
        self.add(name, "\n".join([*self.record, f"{name},,", ""]).encode())
        self.zip.close()
        self.part.replace(self.path)
        return self.name


def pack(folder: str, python: Python) -> str:
    """Build for this Python, write its wheel into the folder; the wheel's name.

    A wheel that lies there, made of the same inputs, stays as it is: compressing takes seconds.
    """
    extension, binary = cargo("release", python)
    table = {**project(), "linked": True}
    sources = list(python_sources())
    path = Path(folder).resolve() / f"{table['name']}-{table['version']}-{python.tag}.whl"
    told = inputs(table, [extension, binary, *(source for _, source in sources)])
    kept = target_folder() / "packed" / path.name
    if kept.exists() and path.exists() and kept.read_text() == f"{told} {stamp(path)} {path}":
        return path.name
    wheel = Wheel(folder, python.tag, table)
    for name, source in sources:
        wheel.add(name, source.read_bytes())
    wheel.add("heliostat-alias.pth", f"{ALIAS}\n".encode())
    wheel.add(f"heliostat/{python.extension}", extension.read_bytes(), 0o755)
    wheel.add(f"heliostat/{BINARY}", binary.read_bytes(), 0o755)
    name = wheel.close()
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(f"{told} {stamp(path)} {path}")
    return name


def inputs(table: dict[str, Any], files: list[Path]) -> str:
    """The digest of everything that goes into a wheel."""
    digest = hashlib.sha256(metadata(table).encode())
    fixed = [Path(__file__), ROOT / "xtask/notices.py", ROOT / "Cargo.lock"]
    for path in [*fixed, *(ROOT / name for name in table["license-files"]), *files]:
        data = path.read_bytes()
        digest.update(f"\n{path} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """PEP 517: the wheel that users install."""
    return pack(wheel_directory, RUNNING)


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """PEP 660: a path into the checkout, with both artefacts placed there."""
    place("dev-opt")
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("heliostat.pth", f"{PYTHON}\n".encode())
    return wheel.close()


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """PEP 517: what git tracks, or would."""
    table = project()
    stem = f"{table['name']}-{table['version']}"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    name = f"{stem}.tar.gz"
    with tarfile.open(Path(sdist_directory) / name, "w:gz") as archive:
        info = tarfile.TarInfo(f"{stem}/PKG-INFO")
        data = metadata(table).encode()
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
        for path in sorted(filter(None, listed.split("\0"))):
            if (ROOT / path).is_file():
                archive.add(ROOT / path, f"{stem}/{path}")
    return name


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["place", profile]:
            place(profile)
        case ["wheel", folder, *versions]:
            for version in [Python.parse(text) for text in versions] or [RUNNING]:
                print(pack(folder, version), flush=True)
        case ["sdist", folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            print(build_sdist(folder))
        case _:
            sys.exit(__doc__)
