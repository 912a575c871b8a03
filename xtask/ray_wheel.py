"""Packs the distribution `ray`, which satisfies what third-party packages require and owns no module.

    python xtask/ray_wheel.py FOLDER    print the wheel's name; nothing is built

`docs/decisions/0018-the-distribution-ray.md` says why there is one.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from heliostat_build import PYTHON, Wheel, project

# What packages ask of `ray` in brackets. Ray's data, training and tuning bring pandas and pyarrow (no
# torch); the other extras ask for nothing that Heliostat's core does not have.
WITH_DATA = ("air", "all", "all-cpp", "data", "rllib", "train", "tune")
WITHOUT = ("adag", "cgraph", "client", "cpp", "llm", "observability", "serve")
WITHOUT_SERVE = ("serve-async-inference", "serve-grpc")


def table() -> dict[str, Any]:
    """The [project] table: the release of Ray whose API this is, with a local version that says whose."""
    ours = project()
    name, version = ours["name"], ours["version"]
    text = (PYTHON / "heliostat/core/platform/version.py").read_text()
    (release,) = re.findall(r'^RAY_VERSION = "(.*)"$', text, re.MULTILINE)
    extras: dict[str, list[str]] = {extra: [] for extra in (*WITHOUT, *WITHOUT_SERVE)}
    extras |= {extra: [f"{name}[data]=={version}"] for extra in WITH_DATA}
    extras["default"] = [f"{name}[default]=={version}"]
    return {
        **ours,
        "name": "ray",
        "version": f"{release}+{name}.{version}",
        "description": f"The API of Ray {release} by {name.capitalize()}, for packages that require `ray`.",
        "readme": None,
        "dependencies": [f"{name}=={version}"],
        "optional-dependencies": dict(sorted(extras.items())),
        # Heliostat's own wheel has the commands: a file has one owner, or it goes with the first that goes.
        "scripts": {},
    }


def pack(folder: str) -> str:
    """Write the wheel into the folder; returns its name."""
    return Wheel(folder, "py3-none-any", table()).close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case [folder]:
            print(pack(folder))
        case _:
            sys.exit(__doc__)
