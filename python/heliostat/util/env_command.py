"""``env``: the environments of packages on this machine, listed, made ahead, and removed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from heliostat.core.platform import settings
from heliostat.core.runtime_env import packages
from heliostat.core.runtime_env.packages import InstalledEnvironment
from heliostat.util.commands import exit_code, table

_HEADS = ("id", "state", "size", "built in", "uses", "last used", "packages")
_PACKAGES_MAX = 60
_DAY_S = 86_400


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} env",
        description="Environments of packages (`pip`, `uv` of runtime environments) on this machine.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--temp-dir", help="the folder of sessions [default: $RAY_TMPDIR/ray, else /tmp/ray]"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="print those there are, and those that failed")
    listed.add_argument("--format", choices=("table", "json"), default="table")
    build = commands.add_parser("build", help="make one, so that no worker has to wait for it")
    build.add_argument(
        "--runtime-env", metavar="FILE", help="a YAML or JSON file with the environment"
    )
    build.add_argument("--runtime-env-json", metavar="JSON", help="the environment itself")
    build.add_argument("--pip", nargs="+", metavar="PACKAGE", help="packages, for the field `pip`")
    build.add_argument("--uv", nargs="+", metavar="PACKAGE", help="packages, for the field `uv`")
    clean = commands.add_parser("clean", help="remove those that nobody uses")
    clean.add_argument("id", nargs="*", help="the environments [default: all]")
    clean.add_argument(
        "--unused-days", type=float, default=0, help="only if unused for so long [default: 0]"
    )
    options = parser.parse_args(arguments)
    return exit_code(lambda: _act(options), TypeError)


def _act(options: argparse.Namespace) -> int:
    shelf = packages.shelf_of(settings.temp_dir(options.temp_dir))
    if options.command == "list":
        return _list(shelf, options.format)
    if options.command == "build":
        return _build(shelf, options)
    return _clean(shelf, options.id, options.unused_days * _DAY_S)


def _list(shelf: Path, form: str) -> int:
    made = packages.all_made(shelf)
    if form == "json":
        print(json.dumps([one._asdict() for one in made], indent=2))
        return 0
    print("\n".join(table([_HEADS, *(_cells(one) for one in made)])))
    for one in made:
        if one.error:
            print(f"\n{one.id} failed: {one.error.strip()}")
    return 0


def _cells(one: InstalledEnvironment) -> tuple[str, ...]:
    used = datetime.fromtimestamp(one.last_used).strftime("%Y-%m-%d %H:%M:%S")
    names = " ".join(one.packages)
    if len(names) > _PACKAGES_MAX:
        names = f"{names[: _PACKAGES_MAX - 1]}…"
    size = "" if one.state != "ready" else f"{one.size / 2**20:.1f} MiB"
    built = "" if one.built_s is None else f"{one.built_s:.1f} s"
    return (
        one.id,
        one.state,
        size,
        built,
        str(one.uses),
        used,
        f"{one.tool}: {names}" if one.tool else "",
    )


def _build(shelf: Path, options: argparse.Namespace) -> int:
    wanted = _wanted(options)
    tools = [tool for tool in ("pip", "uv") if wanted.get(tool)]
    if not tools:
        raise ValueError(
            "there is nothing to build: give --pip, --uv or a runtime_env that has one"
        )
    # As if a worker did it: the environments of a session lie beside it.
    os.environ["HELIOSTAT_SESSION_DIR"] = str(shelf.parent.parent / "no_session")
    for tool in tools:
        begun = time.monotonic()
        made = packages.have(tool, packages.normal(tool, wanted[tool]))
        print(f"{made.folder.name} is ready after {time.monotonic() - begun:.1f} s: {made.folder}")
    return 0


def _wanted(options: argparse.Namespace) -> Mapping[str, Any]:
    given: dict[str, Any] = {}
    if options.runtime_env:
        import yaml

        given = yaml.safe_load(Path(options.runtime_env).read_text())
    if options.runtime_env_json:
        given = json.loads(options.runtime_env_json)
    if not isinstance(given, dict):
        raise ValueError("a runtime_env is a dictionary")
    return {**given, **{tool: value for tool in ("pip", "uv") if (value := getattr(options, tool))}}


def _clean(shelf: Path, ids: Sequence[str], unused_s: float) -> int:
    there = {one.id: one for one in packages.all_made(shelf) if one.state != "failed"}
    if unknown := sorted(set(ids) - set(there)):
        raise ValueError(f"there is no environment {unknown[0]}: `env list` shows those there are")
    until, freed = time.time() - unused_s, 0
    for one in there.values():
        if (ids and one.id not in ids) or one.last_used > until:
            continue
        if packages.remove(shelf / one.id):
            freed += one.size
            print(f"{one.id} is removed")
        else:
            print(f"{one.id} is in use, so it stays")
    print(f"{freed / 2**20:.1f} MiB are free again")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
