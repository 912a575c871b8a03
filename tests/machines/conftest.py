"""Machines of namespaces for every test of this folder; without root the tests are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.machines.machines import Machine, Machines, why_not


@pytest.fixture(scope="session")
def _can_make() -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"machines of namespaces: {reason}")


@pytest.fixture
def make_machines(_can_make: None) -> Iterator[Callable[..., list[Machine]]]:
    """So many machines, the first of them with a head, the others joined to it; options of `start`."""
    fields: list[Machines] = []

    def make(count: int, *options: str) -> list[Machine]:
        field = Machines(count)
        fields.append(field)
        head, *others = field.all
        head.start_head(*options)
        for machine in others:
            machine.join(head, *options)
        return field.all

    yield make
    for field in fields:
        field.close()
