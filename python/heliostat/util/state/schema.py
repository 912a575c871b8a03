"""The classes of rows of the state API, and the facts about their columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

Row = TypeVar("Row", bound="StateSchema")


class Humanify:
    """Numbers as people read them.

    Examples:
        >>> from ray.util.state.common import Humanify
        >>> Humanify.memory(3 << 20), Humanify.duration(90_000)
        ('3.000 MiB', '0:01:30')
    """

    @staticmethod
    def timestamp(x: float) -> str:
        """Write a time as a local date.

        Args:
            x: Milliseconds since 1970.

        Returns:
            The date and time.
        """
        return str(datetime.datetime.fromtimestamp(x / 1000))

    @staticmethod
    def memory(x: int) -> str:
        """Write a number of bytes with a unit.

        Args:
            x: Bytes.

        Returns:
            The text.
        """
        for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if x >= 1 << bits:
                return f"{x / (1 << bits):.3f} {unit}"
        return f"{x:.3f} B"

    @staticmethod
    def duration(x: int) -> str:
        """Write a duration as hours, minutes and seconds.

        Args:
            x: Milliseconds.

        Returns:
            The text.
        """
        return str(datetime.timedelta(milliseconds=x))

    @staticmethod
    def events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write dates for the times of events.

        Args:
            events: The events; they are changed.

        Returns:
            The same events.
        """
        for event in events:
            if "created_ms" in event:
                event["created_ms"] = Humanify.timestamp(event["created_ms"])
        return events

    @staticmethod
    def node_resources(resources: dict[str, Any]) -> dict[str, Any]:
        """Write units for those resources that are bytes.

        Args:
            resources: Amounts by name; they are changed.

        Returns:
            The same dictionary.
        """
        for name, quantity in resources.items():
            if "memory" in name:
                resources[name] = Humanify.memory(quantity)
        return resources


def state_column(
    *, filterable: bool, detail: bool = False, format_fn: Any = None, **kwargs: Any
) -> Any:
    """Make a dataclass field with what the state API knows of a column.

    Args:
        filterable: Rows can be filtered by it.
        detail: It is filled for ``detail=True`` only. Default False.
        format_fn: How people see its value. Default: as it is.
        **kwargs: As of ``dataclasses.field``.

    Returns:
        The field.

    Examples:
        >>> from dataclasses import dataclass
        >>> from ray.util.state.common import StateSchema, state_column
        >>> @dataclass
        ... class Queue(StateSchema):
        ...     name: str = state_column(filterable=True)
        ...     length: int = state_column(filterable=False, detail=True)
        >>> Queue.list_columns(detail=False), Queue.filterable_columns()
        (['name'], {'name'})
    """
    if detail:
        kwargs.setdefault("default", None)
    known = {"detail": detail, "filterable": filterable, "format_fn": format_fn}
    return field(**{**kwargs, "metadata": {**kwargs.get("metadata", {}), **known}})


class StateSchema:
    """A row: its columns are attributes, and can be read like a dictionary's.

    Examples:
        >>> from ray.util.state import list_nodes
        >>> from ray.util.state.common import NodeState, StateSchema
        >>> node = list_nodes()[0]
        >>> isinstance(node, StateSchema), "state" in NodeState.filterable_columns()
        (True, True)
    """

    @classmethod
    def of(cls: type[Row], found: Mapping[str, Any], detail: bool) -> Row:
        """Make a row from one of the core.

        Args:
            found: The values by column.
            detail: Fill the columns for detail, too.

        Returns:
            The row.
        """
        return cls(**{name: found.get(name) for name in cls.list_columns(detail)})

    @classmethod
    def _fields(cls) -> list[Any]:
        return list(fields(cls))  # type: ignore[arg-type] # a dataclass below

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """Give the names of the columns, in their order.

        Args:
            detail: Those for detail, too. Default True.

        Returns:
            The names.
        """
        return [one.name for one in cls._fields() if detail or not one.metadata.get("detail")]

    @classmethod
    def columns(cls) -> set[str]:
        """The names of all columns."""
        return set(cls.list_columns())

    @classmethod
    def base_columns(cls) -> set[str]:
        """The columns that are always filled."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls) -> set[str]:
        """The columns that are filled with ``detail=True``: all."""
        return cls.columns()

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """The columns by which rows can be filtered."""
        return {one.name for one in cls._fields() if one.metadata.get("filterable")}

    @classmethod
    def humanify(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Write dates and units for numbers.

        Args:
            state: The row as a dictionary; it is changed.

        Returns:
            The same dictionary.
        """
        for one in cls._fields():
            shown = one.metadata.get("format_fn")
            if shown is not None and state.get(one.name) is not None:
                state[one.name] = shown(state[one.name])
        return state

    def asdict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)  # type: ignore[call-overload,no-any-return] # a dataclass below

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """Give a column's value.

        Args:
            key: The column.
            default: What is returned where there is no such column. Default ``None``.

        Returns:
            The value.
        """
        return getattr(self, key, default)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return self.list_columns()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __len__(self) -> int:
        return len(self.keys())


class _DriverInfo(dict[str, Any]):
    """The driver's ``id``, ``node_ip_address`` and ``pid``, as attributes or like a dictionary."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(kw_only=True)
class JobSchema(StateSchema):
    """A row that may name its driver."""

    def __post_init__(self) -> None:
        driver = getattr(self, "driver_info", None)
        if isinstance(driver, dict):
            self["driver_info"] = _DriverInfo(driver)


# Attributes of columns: shown always or in detail only, usable in filters, and their form for people.
FILTER = {"detail": False, "filterable": True, "format_fn": None}
SHOWN = {"detail": False, "filterable": False, "format_fn": None}
DETAIL = {"detail": True, "filterable": False, "format_fn": None}
DETAIL_FILTER = {"detail": True, "filterable": True, "format_fn": None}
SHOWN_TIME = {**SHOWN, "format_fn": Humanify.timestamp}
SHOWN_RESOURCES = {**SHOWN, "format_fn": Humanify.node_resources}
DETAIL_TIME = {**DETAIL, "format_fn": Humanify.timestamp}
DETAIL_EVENTS = {**DETAIL, "format_fn": Humanify.events}
