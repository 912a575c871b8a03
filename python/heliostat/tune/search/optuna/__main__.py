"""``python -m heliostat.tune.search.optuna PROGRAM``: runs a program that imports nothing of Heliostat's."""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    """Run the program that the command line names, as Python would."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m heliostat.tune.search.optuna PROGRAM [ARGUMENT ...]")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
