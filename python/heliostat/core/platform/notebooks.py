"""Tables of HTML that notebooks show of an object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from html import escape
from typing import Any


def table(rows: Mapping[str, str]) -> str:
    """A row for each name; the texts are HTML."""
    body = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in rows.items())
    return f"<table>{body}</table>"


def settings(config: Any) -> str:
    """The fields of a dataclass that are set; None and "DEPRECATED" mean that one is not."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    unset = (None, "DEPRECATED")
    return table(
        {
            name: escape(value if isinstance(value, str) else repr(value))
            for name, value in values.items()
            if not any(value is one or value == one for one in unset)
        }
    )
