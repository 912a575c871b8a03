"""Measurements of nodes, as Prometheus reads them."""

from __future__ import annotations

import http.client
import re
import time
from typing import Any, NamedTuple

import ray

from tests.helpers.harness import IS_HELIOSTAT

# A deadline against a hang: Ray tells metrics each ten seconds.
S = 60


class Sample(NamedTuple):
    """A line of the text of metrics."""

    name: str
    tags: dict[str, str]
    value: float


def token() -> str | None:
    """The token that a reader has to show."""
    if not IS_HELIOSTAT:
        return None
    from heliostat.core.platform import auth

    return str(auth.token(False))


def fetch(node: dict[str, Any], shown: str | None, path: str = "/metrics") -> tuple[int, str]:
    """Status and body."""
    link = http.client.HTTPConnection(
        node["NodeManagerAddress"], node["MetricsExportPort"], timeout=S
    )
    try:
        headers = {} if shown is None else {"Authorization": f"Bearer {shown}"}
        link.request("GET", path, headers=headers)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def samples(text: str) -> list[Sample]:
    """The samples of a text."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match:
            tags = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            found.append(Sample(match[1], tags, float(match[3])))
    return found


def scrape() -> list[Sample]:
    """The samples of all nodes."""
    return [one for node in ray.nodes() for one in samples(fetch(node, token())[1])]


def chosen(found: list[Sample], name: str, **tags: str) -> list[Sample]:
    """The series with these tags."""
    return [one for one in found if one.name == name and tags.items() <= one.tags.items()]


def total(found: list[Sample], name: str, **tags: str) -> float:
    """The sum of the series with these tags."""
    return sum(one.value for one in chosen(found, name, **tags))


def until(name: str, value: float, **tags: str) -> None:
    """Until the series with those tags has that sum."""
    deadline = time.monotonic() + S
    while True:
        found = chosen(scrape(), name, **tags)
        if found and sum(one.value for one in found) == value:
            return
        assert time.monotonic() < deadline, (name, tags, found)
        time.sleep(0.1)


def gone(name: str, **tags: str) -> None:
    """Until there is no such series."""
    deadline = time.monotonic() + S
    while found := chosen(scrape(), name, **tags):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def lacking(wanted: dict[str, set[str]], **tags: str) -> dict[str, set[str]]:
    """The series and labels among these that are not there after a while."""
    deadline = time.monotonic() + S
    while True:
        found: dict[str, set[str]] = {}
        for one in scrape():
            if tags.items() <= one.tags.items():
                found.setdefault(one.name, set()).update(one.tags)
        left = {
            name: labels - found.get(name, set())
            for name, labels in wanted.items()
            if name not in found or labels - found[name]
        }
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
