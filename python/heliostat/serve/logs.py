"""Logs of replicas: ``ray.serve`` writes to a file of the replica, each line with its request's id."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import time
from typing import Any

from heliostat.serve.context import ReplicaID, request_context
from heliostat.serve.options import LoggingConfig

logger = logging.getLogger("ray.serve")

_FILE_BYTES_MAX, _FILES_KEPT = 100 << 20, 5


class _Names(logging.Filter):
    """Adds what each line says of its replica and its request."""

    def __init__(self, replica: ReplicaID) -> None:
        super().__init__()
        key = replica.deployment_id
        self._own = {
            "application": key.app_name,
            "deployment": key.name,
            "replica": replica.unique_id,
            "component_name": f"{key.app_name}_{key.name}",
            "component_id": replica.unique_id,
        }

    def filter(self, record: logging.LogRecord) -> bool:
        here = request_context.get()
        vars(record).update(self._own, request_id=here.request_id, route=here.route)
        return True


class _Text(logging.Formatter):
    def __init__(self, more: list[str]) -> None:
        extra = "".join(f" {name}=%({name})s" for name in more)
        super().__init__(
            "%(levelname)s %(asctime)s %(component_name)s %(component_id)s %(request_id)s -- "
            f"%(message)s{extra}"
        )


class _Json(logging.Formatter):
    _FIELDS = (
        "levelname",
        "filename",
        "lineno",
        "component_name",
        "component_id",
        "application",
        "deployment",
        "replica",
        "request_id",
        "route",
    )

    def __init__(self, more: list[str]) -> None:
        super().__init__()
        self._names = (*self._FIELDS, *more)

    def format(self, record: logging.LogRecord) -> str:
        found = vars(record)
        row: dict[str, Any] = {"asctime": self.formatTime(record), "message": record.getMessage()}
        row.update({name: found[name] for name in self._names if found.get(name) not in ("", None)})
        row["timestamp_ns"] = time.time_ns()
        if record.exc_info:
            row["exc_text"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


def set_up(config: LoggingConfig | None, replica: ReplicaID, session_dir: str) -> None:
    """Have the logger write as the configuration says; a second call takes the place of the first."""
    chosen = config or LoggingConfig()
    path = _path(chosen, replica, session_dir)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = logging.handlers.RotatingFileHandler(
        path,
        maxBytes=_FILE_BYTES_MAX,
        backupCount=_FILES_KEPT,
        delay=True,
    )
    shape = _Json if chosen.encoding == "JSON" else _Text
    for old in logger.handlers[:]:
        logger.removeHandler(old)
        old.close()
    for handler in (file, logging.StreamHandler()):
        handler.setFormatter(shape(chosen.additional_log_standard_attrs))
        handler.addFilter(_Names(replica))
        logger.addHandler(handler)
    logger.setLevel(chosen.log_level)
    logger.propagate = False


def _path(config: LoggingConfig, replica: ReplicaID, session_dir: str) -> str:
    folder = config.logs_dir or folder_of(session_dir)
    return os.path.join(folder, f"{stem(replica)}.log")


def folder_of(session_dir: str) -> str:
    """The default folder of a session's log files of replicas."""
    return os.path.join(session_dir, "logs", "serve")


def stem(replica: ReplicaID) -> str:
    """The names of a replica's files begin with it."""
    key = replica.deployment_id
    return f"replica_{key.app_name}_{key.name}_{replica.unique_id}".replace(os.sep, "_")


def told_path(config: LoggingConfig | None, replica: ReplicaID, session_dir: str) -> str:
    """A replica's file as the REST routes name it: from the session's folder of logs on, if it is there."""
    path = _path(config or LoggingConfig(), replica, session_dir)
    return path.removeprefix(os.path.join(session_dir, "logs"))


def access(what: str, outcome: str, began: float) -> None:
    """A line for a request that is over; ``began`` is of ``time.perf_counter``."""
    took = (time.perf_counter() - began) * 1e3
    logger.info("%s %s %.1fms", what, outcome, took, extra={"serve_access_log": True})
