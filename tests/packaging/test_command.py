"""The commands `heliostat` and `ray` before the binary takes over."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from heliostat import cli


def test_the_binary_learns_its_name_and_the_python_for_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    became: list[object] = []
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(os, "execve", lambda *given: became.extend(given))
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/ray", "start", "--head"])
    cli.main()
    binary, arguments, environment = became
    assert binary == cli.BINARY
    assert arguments == ["ray", "start", "--head"]
    assert isinstance(environment, dict)
    assert environment["HELIOSTAT_PYTHON"] == sys.executable


def test_a_missing_binary_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "BINARY", tmp_path / "heliostat")
    with pytest.raises(SystemExit, match="Reinstall the package, or run `make dev`"):
        cli.main()
