"""The `heliostat` and `ray` commands: find the Rust binary inside the package and become it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

BINARY = Path(__file__).resolve().parent / "bin" / "heliostat"


def main() -> NoReturn:
    """Replace this process by the binary; it learns which Python to start workers with."""
    if not os.access(BINARY, os.X_OK):
        sys.exit(
            f"heliostat: no executable at {BINARY}. "
            "Reinstall the package, or run `make dev` in a checkout."
        )
    command = os.path.basename(sys.argv[0])
    environment = {**os.environ, "HELIOSTAT_PYTHON": sys.executable}
    os.execve(BINARY, [command, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
