"""How the loggers of a driver write."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
ENCODINGS = ("TEXT", "JSON")
_STANDARD = ("asctime", "levelname", "message", "filename", "lineno", "process")


@dataclasses.dataclass
class LoggingConfig:
    """Encoding and level of the root logger."""

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(
                f"Invalid encoding type: {self.encoding}. Valid encoding types are: {list(ENCODINGS)}"
            )
        known = vars(logging.makeLogRecord({})).keys() | {"asctime", "message"}
        for name in self.additional_log_standard_attrs:
            if name not in known:
                raise ValueError(f"Unknown python logging standard attribute: {name}")

    def apply(self) -> None:
        """To the root logger of this process."""
        handler = logging.StreamHandler()
        names = [*_STANDARD, *self.additional_log_standard_attrs]
        text = FORMAT + "".join(
            f" {name}=%({name})s" for name in self.additional_log_standard_attrs
        )
        handler.setFormatter(_Json(names) if self.encoding == "JSON" else logging.Formatter(text))
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(self.log_level)


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
        return json.dumps(fields, default=str)


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
