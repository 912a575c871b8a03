"""Puts a built site into a folder of sites, one a version, as the menu of versions wants them.

    SITE_VERSION=0.2.0 make docs
    python xtask/site_versions.py target/site 0.2.0 FOLDER

FOLDER gets 0.2.0/, ``latest/`` where no released version there is newer, ``versions.json``, an
``index.html`` that leads to the latest one, and the latest one's ``404.html``, which servers look for there
alone. It is what a server of static files shows.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

TO_LATEST = """\
<!doctype html>
<meta charset="utf-8">
<title>Heliostat</title>
<meta http-equiv="refresh" content="0; url=latest/index.html">
<a href="latest/index.html">The documentation of the latest version</a>
"""


def order(version: str) -> tuple[int, ...]:
    """What versions are sorted by; one that is not made of numbers, such as "main", comes before all."""
    released = re.fullmatch(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in version.split(".")) if released else (-1,)


def add(site: Path, version: str, folder: Path) -> None:
    """Put the site there under this version, and in the place of the latest if it is that."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "versions.json"
    known = {row["version"] for row in json.loads(listed.read_text())} if listed.exists() else set()
    versions = sorted({*known, version}, key=order, reverse=True)
    places = [version, *(["latest"] if versions[0] == version else [])]
    for place in places:
        shutil.rmtree(folder / place, ignore_errors=True)
        shutil.copytree(site, folder / place)
    missing = folder / "latest/404.html"
    if missing.exists():
        shutil.copy(missing, folder / "404.html")
    rows = [
        {"version": one, "title": one, "aliases": ["latest"] if one == versions[0] else []}
        for one in versions
    ]
    listed.write_text(json.dumps(rows, indent=2) + "\n")
    (folder / "index.html").write_text(TO_LATEST)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [site, version, folder] if Path(site, "index.html").exists():
            add(Path(site), version, Path(folder))
        case _:
            sys.exit(__doc__)
