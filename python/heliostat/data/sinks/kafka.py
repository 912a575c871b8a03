"""Rows to a topic of Kafka, at least once."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data import block
from heliostat.data.sinks.datasink import Datasink, TaskContext
from heliostat.data.sources.kafka import WHO, configured

if TYPE_CHECKING:
    import confluent_kafka
    import pyarrow as pa


POLLED_ROWS = 10_000  # after so many, one hears what was delivered
FULL_S = 10.0  # how long a full queue may take to have room
FLUSHED_S = 30.0  # how long the last messages may take


class Form(enum.Enum):
    """The form in which a value is written."""

    JSON = "json"
    STRING = "string"
    BYTES = "bytes"

    def __call__(self, value: object) -> bytes:
        """The bytes of a value."""
        if self is Form.JSON:
            return json.dumps(value, default=_plain).encode()
        return value if self is Form.BYTES and isinstance(value, bytes) else str(value).encode()


def form(name: str, given: object) -> Form:
    """The form of a name.

    Raises:
        ValueError: There is no such.
    """
    try:
        return Form(getattr(given, "value", given))
    except ValueError:
        raise ValueError(
            f"{name} must be one of {[one.value for one in Form]}, got {given!r}"
        ) from None


def _plain(value: object) -> object:
    """Return a value that JSON does not know as one that it knows."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(
        f"a value of type {type(value).__name__} is not JSON: change it before write_kafka, or pass "
        "value_serializer='string'"
    )


class KafkaSink(Datasink[dict[str, int]]):
    """Sends a message for each row. A task that is tried again sends its messages again."""

    def __init__(
        self,
        topic: str,
        servers: str,
        key: str | None,
        key_form: Form,
        value_form: Form,
        settings: dict[str, object],
    ) -> None:
        required("confluent_kafka", WHO)
        self._topic, self._servers, self._key = topic, servers, key
        self._key_form, self._value_form, self._settings = key_form, value_form, settings

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Kafka"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> dict[str, int]:
        """Send the rows of a task.

        Raises:
            RuntimeError: A message was not delivered.
        """
        package = required("confluent_kafka", WHO)
        producer = package.Producer(configured([self._servers], self._settings))
        failed: list[object] = []

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        sent = 0
        try:
            for table in blocks:
                for row in block.rows(table):
                    key = None if self._key is None else row.get(self._key)
                    message: dict[str, object] = {
                        "value": self._value_form(row),
                        "key": None if key is None else self._key_form(key),
                        "on_delivery": delivered,
                    }
                    self._send(producer, message)
                    sent += 1
                    if sent % POLLED_ROWS == 0:
                        producer.poll(0)
            left = producer.flush(timeout=FLUSHED_S)
        except package.KafkaException as error:
            raise RuntimeError(
                f"Failed to write to Kafka topic '{self._topic}': {error}"
            ) from error
        if left:
            raise RuntimeError(
                f"{left} out of {sent} messages were still in-flight for topic '{self._topic}' after "
                f"{FLUSHED_S:g} s: is there a broker at {self._servers}?"
            )
        if failed:
            raise RuntimeError(
                f"Failed to write {len(failed)} out of {sent} messages to Kafka topic "
                f"'{self._topic}': {failed[0]}"
            )
        return {"total_records": sent, "failed_messages": 0}

    def _send(self, producer: confluent_kafka.Producer, message: dict[str, object]) -> None:
        try:
            producer.produce(self._topic, **message)
        except BufferError:
            producer.poll(FULL_S)
            try:
                producer.produce(self._topic, **message)
            except BufferError as error:
                raise RuntimeError(
                    f"Kafka producer queue is still full after {FULL_S:g} s for topic '{self._topic}': "
                    "queue.buffering.max.messages of producer_config may be more."
                ) from error
