"""Kinds of refusals: which error a driver gets that a cluster does not let in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from heliostat.core.errors import AuthenticationError, unwelcome

pytestmark = pytest.mark.heliostat_only("Ray has no kinds of refusals")

SOURCE = Path(__file__).parents[2] / "crates/helio-proto/src/hello.rs"


def kinds() -> list[str]:
    """The names of the kinds, as Rust tells them."""
    (names,) = re.findall(
        r"fn name\(self\) -> &'static str \{(.*?)\n    \}", SOURCE.read_text(), re.S
    )
    return re.findall(r'"(\w+)"', names)


@pytest.mark.parametrize("kind", [*kinds(), "of a newer release", ""])
def test_the_kind_chooses_the_class_and_the_text_does_not(kind: str) -> None:
    text = "the authentication token is missing or wrong"
    error = unwelcome(kind, text)
    assert type(error) is (AuthenticationError if kind == "token" else ConnectionError)
    assert str(error) == text


def test_rust_tells_the_kind_that_python_knows() -> None:
    assert "token" in kinds()
