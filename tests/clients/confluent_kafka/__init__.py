"""A stand-in for ``confluent-kafka``: topics of partitions, by "kafka" of the state.

A partition is ``{"first": offset, "last": offset, "messages": [...]}``; offsets that no message has are those
of messages that were compacted away.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import client_state


class KafkaError:
    _PARTITION_EOF = -191
    _ALL_BROKERS_DOWN = -187
    _MSG_TIMED_OUT = -192

    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def __str__(self) -> str:
        return f"KafkaError {self._code}"


class KafkaException(Exception):
    pass


class TopicPartition:
    def __init__(self, topic: str, partition: int, offset: int = -1001) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset


class Message:
    def __init__(self, given: dict[str, Any], error: KafkaError | None = None) -> None:
        self._given, self._error = given, error

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return int(self._given["offset"])

    def key(self) -> Any:
        return self._given.get("key")

    def value(self) -> Any:
        return self._given["value"]

    def topic(self) -> str:
        return str(self._given["topic"])

    def partition(self) -> int:
        return int(self._given["partition"])

    def timestamp(self) -> tuple[int, int]:
        return 1, self._given["timestamp"]

    def headers(self) -> Any:
        return self._given.get("headers")


class Topic:
    def __init__(self, partitions: dict[int, Any]) -> None:
        self.partitions = partitions


class Metadata:
    def __init__(self, topics: dict[str, Topic]) -> None:
        self.topics = topics


class Consumer:
    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["bootstrap.servers"]
        assert settings["enable.auto.commit"] is False
        self._settings = settings
        self._at = TopicPartition("", 0)
        with client_state.changed("kafka-settings", []) as held:
            held.append({k: v for k, v in settings.items() if not callable(v)})

    def close(self) -> None:
        pass

    def list_topics(self, timeout: float) -> Metadata:
        found = client_state.load("kafka", {})
        return Metadata({name: Topic(dict(parts)) for name, parts in found.items()})

    def _partition(self, place: TopicPartition) -> dict[str, Any]:
        found: dict[str, Any] = client_state.load("kafka", {})[place.topic][place.partition]
        return found

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        held = self._partition(place)
        return held["first"], held["last"]

    def offsets_for_times(
        self, places: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        (place,) = places
        after = [m for m in self._partition(place)["messages"] if m["timestamp"] >= place.offset]
        offset = after[0]["offset"] if after else -1
        return [TopicPartition(place.topic, place.partition, offset)]

    def assign(self, places: list[TopicPartition]) -> None:
        (self._at,) = places

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        if client_state.load("kafka-down", False):
            self._settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
            return []
        if client_state.fails("kafka-read"):
            return [Message({"offset": -1}, KafkaError(-1))]
        held, at = self._partition(self._at), self._at.offset
        found = [Message(m) for m in held["messages"] if m["offset"] >= at][: min(num_messages, 3)]
        if found:
            self._at.offset = found[-1].offset() + 1
        elif self._settings.get("enable.partition.eof"):
            return [Message({"offset": held["last"]}, KafkaError(KafkaError._PARTITION_EOF))]
        return found


class Producer:
    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["bootstrap.servers"]
        self._queue: list[tuple[str, dict[str, Any]]] = []
        self._room = int(settings.get("queue.buffering.max.messages", 100_000))

    def produce(
        self, topic: str, value: bytes, key: bytes | None, on_delivery: Callable[..., None]
    ) -> None:
        assert isinstance(value, bytes)
        if len(self._queue) >= self._room:
            raise BufferError("Local: Queue full")
        self._queue.append((topic, {"value": value, "key": key, "on_delivery": on_delivery}))

    def poll(self, timeout: float) -> int:
        if client_state.load("kafka-down", False):
            return 0
        with client_state.changed("kafka", {}) as held:
            for topic, message in self._queue:
                tell = message.pop("on_delivery")
                if client_state.load("kafka-refuses", b"") == message["value"]:
                    tell(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                    continue
                parts = held[topic]
                number = zlib.crc32(message["key"] or b"") % len(parts)
                part = parts[number]
                about = {"topic": topic, "partition": number, "timestamp": part["last"]}
                part["messages"].append({**message, **about, "offset": part["last"]})
                part["last"] += 1
                tell(None, message)
        done, self._queue = len(self._queue), []
        return done

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self._queue)
