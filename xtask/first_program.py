"""Runs the README's first program with the interpreter that runs this: does it print what stands there?"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def main() -> int:
    """Elsewhere than in the checkout, whose package would be imported."""
    found = re.search(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit("README.md has no program")
    said = re.findall(r"^print\(.*\)  # (.*)$", found[1], re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", found[1]]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    print(done.stdout, done.stderr, sep="\n")
    return 0 if done.returncode == 0 and done.stdout.splitlines()[-len(said) :] == said else 1


if __name__ == "__main__":
    sys.exit(main())
