"""An interpreter of a runtime environment's own, above the one of this process.

It is a virtual environment whose ``python`` finds, in this order: the standard library, what is installed
into it, what this process's environment has (path files included, so the alias ``ray`` and editable
checkouts, too), and the base interpreter's packages if that environment has them as well. Nothing of the
environment below is copied, and nothing of it is changed by what is installed above.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib import metadata

_PACKAGE_PATH = str(Path(__file__).resolve().parents[3])

# Read after the path files of what is installed above, which therefore comes first.
_BELOW = "zz-heliostat-below.pth"

# Says in a stand-in's metadata who has put it there.
_INSTALLER = "heliostat-stand-in"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

# The question to a complete interpreter: the places of these two modules.
_ORIGINS = """
import importlib.util
for name in ("heliostat", "ray"):
    found = importlib.util.find_spec(name)
    print(found.origin if found else "")
"""


class InstallError(RuntimeError):
    """The packages could not be installed; the text is the installer's, or a sentence."""


def make(folder: Path) -> Path:
    """Make the environment in a folder that is not there; returns its ``python``.

    Raises ``OSError`` where that cannot be done.
    """
    import venv

    builder = venv.EnvBuilder(symlinks=True, system_site_packages=has_system_packages())
    builder.create(folder)
    python = folder / "bin" / "python"
    _lay(folder, below())
    return python


def make_from(base: str, folder: Path, places: Sequence[str]) -> None:
    """Make an environment from another interpreter, above these folders of packages alone."""
    import subprocess

    command = [base, "-m", "venv", "--without-pip", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    _lay(folder, places)


def _lay(folder: Path, places: Sequence[str]) -> None:
    """Have the environment find these folders of packages below its own."""
    lines = [f"site.addsitedir({place!r})" for place in places]
    # A checkout that is on the path by a variable or by the script that was started.
    lines.append(f"sys.path += [{_PACKAGE_PATH!r}] * ({_PACKAGE_PATH!r} not in sys.path)")
    text = "".join(f"import site, sys; {line}\n" for line in lines)
    (packages_of(folder) / _BELOW).write_text(text)


def packages_of(folder: Path) -> Path:
    """The folder of the environment's own packages."""
    # Distributions of Linux that change the default scheme leave this one, which `venv` has, too, alone.
    places = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", "posix_prefix", vars=places))


def has_system_packages() -> bool:
    """Whether this process sees the packages of the base interpreter."""
    if sys.prefix == sys.base_prefix:
        return True
    try:
        lines = Path(sys.prefix, "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return False
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition("=") for line in lines)
    }
    return fields.get("include-system-site-packages", "").lower() == "true"


def below() -> list[str]:
    """The folders of packages of this process's environment, without the base interpreter's."""
    if sys.prefix == sys.base_prefix:
        return []  # the base interpreter is what is around: the environment has its packages anyway
    return [place for place in site.getsitepackages([sys.prefix]) if os.path.isdir(place)]


def fingerprint() -> str:
    """Changes when this process's environment becomes another: what counts as installed depends on it."""
    digest = hashlib.sha256(repr((sys.version, sys.prefix, sys.base_prefix)).encode())
    for place in [*below(), *(site.getsitepackages() if has_system_packages() else [])]:
        digest.update(place.encode())
        if os.path.isdir(place):
            names = (name for name in os.listdir(place) if name.endswith(_KINDS))
            digest.update("\n".join(sorted(names)).encode())
    return digest.hexdigest()


_KINDS = (".dist-info", ".egg-info", ".egg-link", ".pth")


def stand_in_for_those_below(folder: Path) -> None:
    """Have installers that look at the environment's own folder alone see what lies below.

    Each distribution gets a folder of metadata that owns no file but itself: a newer version takes its
    place, and nothing below is touched. :func:`dismiss_stand_ins` removes what is left of them.
    """
    own = packages_of(folder)
    seen: set[str] = set()
    for found in _distributions_below():
        name = found.metadata["Name"]
        if (
            not name
            or name.lower() in seen
            or not (text := found.read_text("METADATA") or found.read_text("PKG-INFO"))
        ):
            continue
        seen.add(name.lower())
        info = f"{name.replace('-', '_')}-{found.version}.dist-info"
        (own / info).mkdir(exist_ok=True)
        files = {
            "METADATA": text,
            "INSTALLER": _INSTALLER,
            "WHEEL": found.read_text("WHEEL") or _WHEEL,
        }
        files["RECORD"] = "".join(f"{info}/{one},,\n" for one in (*files, "RECORD"))
        for one, content in files.items():
            (own / info / one).write_text(content)


def _distributions_below() -> Iterable[metadata.Distribution]:
    from importlib import (
        metadata,
    )  # only where something is built: a warm environment is entered at once

    library = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return metadata.distributions(
        path=[place for place in sys.path if place and place not in library]
    )


def dismiss_stand_ins(folder: Path) -> None:
    """Leave in the environment's folder what was installed into it."""
    import shutil

    for info in packages_of(folder).glob("*.dist-info"):
        told = info / "INSTALLER"
        if told.is_file() and told.read_text() == _INSTALLER:
            shutil.rmtree(info)


def alone(session: Path) -> Path:
    """A folder that has Heliostat, its alias and what they need, and none of the packages around them."""
    from importlib import util

    folder = session / "heliostat_alone"
    folder.mkdir(exist_ok=True)
    for name in ("heliostat", "ray", "cloudpickle"):
        found = util.find_spec(name)
        if found is not None and found.origin:
            with contextlib.suppress(FileExistsError):
                (folder / name).symlink_to(os.path.dirname(found.origin))
    return folder


def check(python: Path) -> None:
    """Raise :class:`InstallError` unless this interpreter has this process's Heliostat and its alias."""
    import subprocess

    done = subprocess.run(
        [str(python), "-c", _ORIGINS], capture_output=True, text=True, check=False, cwd=os.sep
    )
    ours, alias = (*done.stdout.splitlines(), "", "")[:2]
    if not ours:
        raise InstallError(f"its interpreter cannot find Heliostat: {done.stderr.strip() or ours}")
    if os.path.realpath(os.path.dirname(ours)) != os.path.join(_PACKAGE_PATH, "heliostat"):
        raise InstallError(
            f"it would bring another Heliostat ({ours}) than the cluster's: leave `heliostat` out of it"
        )
    if not os.path.realpath(alias).startswith(_PACKAGE_PATH + os.sep) and _has_alias():
        raise InstallError(
            f"it would bring another `ray` ({alias or 'none'}) than Heliostat's: leave `ray` out of it, "
            "also as what another package requires"
        )


def _has_alias() -> bool:
    from importlib import util

    found = util.find_spec("ray")
    origin = found.origin if found else None
    return bool(origin) and os.path.realpath(str(origin)).startswith(_PACKAGE_PATH + os.sep)
