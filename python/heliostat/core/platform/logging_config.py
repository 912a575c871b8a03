"""The format and level of the loggers of drivers and workers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import sys
import time
from collections.abc import Sequence
from typing import Any

from heliostat import _heliostat

FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
ENCODINGS = ("TEXT", "JSON")
_KNOWN = vars(logging.makeLogRecord({})).keys() | {"asctime", "message"}
_STANDARD = ("asctime", "levelname", "message", "filename", "lineno", "process")


@dataclasses.dataclass
class LoggingConfig:
    """Encoding and level of the root loggers of the driver and its workers.

    Args:
        encoding: ``"TEXT"`` or ``"JSON"``.
        log_level: The least level that is written: a name of ``logging``.
        additional_log_standard_attrs: Names of attributes of ``logging.LogRecord`` to write besides the
            usual ones.

    Raises:
        ValueError: The encoding or an attribute is unknown.

    Examples:
        >>> import ray
        >>> config = ray.LoggingConfig(encoding="JSON", log_level="WARNING")
        >>> config.to_dict()["encoding"]
        'JSON'
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(
                f"Invalid encoding type: {self.encoding}. Valid encoding types are: {list(ENCODINGS)}"
            )
        for name in self.additional_log_standard_attrs:
            if name not in _KNOWN:
                raise ValueError(f"Unknown python logging standard attribute: {name}")

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> LoggingConfig:
        """From what :meth:`to_dict` gave.

        Args:
            d: The fields.

        Returns:
            The configuration.

        Raises:
            ValueError: A field has a value that it cannot have.
        """
        return cls(**d)

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return dataclasses.asdict(self)

    def apply(self) -> None:
        """To the root logger of this process."""
        handler = _ToStderr()
        names = (*_STANDARD, *self.additional_log_standard_attrs)
        handler.setFormatter(_Json(names) if self.encoding == "JSON" else _Text(names))
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(self.log_level)
        api = logging.getLogger("heliostat")
        api.handlers.clear()
        api.propagate = True


def _added(record: logging.LogRecord) -> dict[str, Any]:
    """Return the values of a record beyond logging's own: the caller's ``extra``, ids, and the time
    in ns.
    """
    given = {name: value for name, value in vars(record).items() if name not in _KNOWN}
    return {**given, **_ids(), "timestamp_ns": time.time_ns()}


def _ids() -> dict[str, str]:
    """Return the ids of the record's process; nothing where there is no session."""
    if not _heliostat.is_connected():
        return {}
    session, now = _heliostat.session(), _heliostat.current()
    ids = {name: session[name] for name in ("job_id", "worker_id", "node_id")}
    if session["is_driver"]:
        return ids
    running = {
        "actor_id": now.actor_id,
        "task_id": now.task_id,
        "task_name": now.task_name,
        "task_func_name": now.function_name,
        "actor_name": now.actor_name,
    }
    return {**ids, **{name: value for name, value in running.items() if value}}


class _Text(logging.Formatter):
    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(FORMAT)
        self._names = [name for name in names if name not in _STANDARD]

    def format(self, record: logging.LogRecord) -> str:
        facts = {**{name: getattr(record, name, None) for name in self._names}, **_added(record)}
        return " ".join([super().format(record), *(f"{k}={v}" for k, v in facts.items())])


class _Json(logging.Formatter):
    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        fields: dict[str, Any] = {name: getattr(record, name, None) for name in self._names}
        if record.exc_info:
            fields["exc_text"] = self.formatException(record.exc_info)
        return json.dumps({**fields, **_added(record)}, default=str)


def set_up(level: int | str, text_format: str | None) -> None:
    """The logger of the API itself: to standard error, once."""
    logger = logging.getLogger("heliostat")
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    if not logger.handlers:
        handler = _ToStderr()
        logger.addHandler(handler)
        logger.propagate = False
    for known in logger.handlers:
        known.setFormatter(logging.Formatter(text_format or FORMAT))


class _ToStderr(logging.Handler):
    """Writes to what ``sys.stderr`` is at the time, which tests and notebooks replace."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed by its owner
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - what it is for
