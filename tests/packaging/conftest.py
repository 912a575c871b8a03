"""What these tests install from an index is what is locked, whatever has been released since.

For their own modules only: tests of other folders that the same process runs install from no index.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LOCKED = Path(__file__).resolve().parents[2] / "requirements" / "test.txt"


@pytest.fixture(scope="module", autouse=True)
def constrained(tmp_path_factory: pytest.TempPathFactory) -> object:
    """pip's constraints, without the digests: with them it would want one of our own wheels, too."""
    pins = re.findall(r"^[\w.-]+==.*?(?= \\$)", LOCKED.read_text(), re.MULTILINE)
    path = tmp_path_factory.mktemp("pip") / "constraints.txt"
    path.write_text("".join(f"{pin}\n" for pin in pins))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONSTRAINT", str(path))
        yield path
