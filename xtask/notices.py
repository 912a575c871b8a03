"""Notices of what a wheel contains of others: licences of linked crates, and of the page's scripts.

``python xtask/notices.py`` prints those of wheels for this machine. Crates that only help to build are not
linked, nor are those of tests. Texts that several crates share are written once.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINKED_INTO = ("helio-py", "helio-cli")

# What the page is built with (crates/helio-dashboard/page/package.json), and whose it is.
PAGE = {
    "preact 10.27.2": "2015-present Jason Miller",
    "uplot 1.6.32": "2022 Leon Sorokin",
}
MIT = """\
The MIT License (MIT)

Copyright (c) {holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""

_FILES = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$")


def packages(machine: str) -> list[dict[str, Any]]:
    """What is linked on this kind of machine and comes from elsewhere, by name."""
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        f"{machine.replace('arm64', 'aarch64')}-unknown-linux-gnu",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"cargo metadata: {done.stderr}")
    told = json.loads(done.stdout)
    known = {package["id"]: package for package in told["packages"]}
    needs = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    waiting = [one["id"] for one in known.values() if one["name"] in LINKED_INTO]
    linked: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in linked or _is_macro(known[name]):
            continue
        linked.add(name)
        waiting += [
            need["pkg"]
            for need in needs[name]
            if any(kind["kind"] is None for kind in need["dep_kinds"])
        ]
    found = [known[name] for name in linked if known[name]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package: dict[str, Any]) -> Iterator[str]:
    """The texts of licences that a crate brings along; MIT's own words for one that brings none."""
    folder = Path(package["manifest_path"]).parent
    paths = [
        path for path in sorted(folder.iterdir()) if _FILES.match(path.name) and path.is_file()
    ]
    yield from (path.read_text(errors="replace").strip() for path in paths)
    if not paths:
        if "MIT" not in (package["license"] or ""):
            sys.exit(
                f"{package['name']} brings no text of its licence, {package['license']}: add it here"
            )
        yield MIT.format(
            holder=", ".join(package["authors"]) or f"the authors of {package['name']}"
        )


@cache
def text(machine: str) -> str:
    """The notices of wheels for this kind of machine, as one text."""
    shared: dict[str, list[str]] = {}
    lines = ["Heliostat contains code of these projects, under their licences.", ""]
    for package in packages(machine):
        label = f"{package['name']} {package['version']}"
        licence = package["license"] or "see its text"
        lines.append(f"{label}: {licence}; {package['repository'] or 'crates.io'}")
        for said in texts(package):
            shared.setdefault(said, []).append(label)
    for label, holder in PAGE.items():
        lines.append(f"{label}: MIT; npm")
        shared.setdefault(MIT.format(holder=holder), []).append(label)
    for said, labels in sorted(shared.items(), key=lambda one: one[1]):
        lines += ["", "-" * 80, *labels, "", said]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(platform.machine()), end="")
