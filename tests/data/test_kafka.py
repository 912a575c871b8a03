"""Topics of Kafka, read and written through a stand-in for its client, see tests/clients."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
import ray

from tests import clients

CLUSTER = clients.cluster()
pytestmark = pytest.mark.heliostat_only("the stand-in knows what this library asks of the package")
PLACE = {"bootstrap_servers": "host:9092"}


def message(offset: int, topic: str = "numbers", partition: int = 0) -> dict[str, Any]:
    return {
        "offset": offset,
        "value": str(offset).encode(),
        "timestamp": offset * 1000,
        "topic": topic,
        "partition": partition,
    }


@pytest.fixture
def kafka(service: Any) -> Any:
    def part(first: int, last: int, number: int, *gone: int) -> dict[str, Any]:
        there = [message(i, partition=number) for i in range(first, last) if i not in gone]
        return {"first": first, "last": last, "messages": there}

    service.store(
        "kafka",
        {
            # The second has lost its first messages to time, and its last two to a compaction.
            "numbers": {0: part(0, 10, 0), 1: part(5, 12, 1, 7, 10, 11)},
            "empty": {0: part(0, 0, 0)},
            "none": {},
        },
    )
    return service


def offsets(dataset: Any) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in dataset.take_all())


ALL = [(0, i) for i in range(10)] + [(1, i) for i in (5, 6, 8, 9)]


@pytest.mark.contract("F10.04")
def test_each_partition_is_read_from_its_start_to_its_end(rd: Any, kafka: Any) -> None:
    read = rd.read_kafka("numbers", **PLACE)
    assert offsets(read) == ALL
    row = read.filter(lambda row: row["partition"] == 0 and row["offset"] == 3).take_all()
    assert row == [
        {
            "offset": 3,
            "key": None,
            "value": b"3",
            "topic": "numbers",
            "partition": 0,
            "timestamp": 3000,
            "timestamp_type": 1,
            "headers": [],
        }
    ]
    assert rd.read_kafka(["numbers", "empty"], **PLACE).count() == len(ALL)
    none = rd.read_kafka("empty", **PLACE)
    assert (none.count(), none.columns()[:3]) == (0, ["offset", "key", "value"])


@pytest.mark.contract("F10.04")
@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (8, 10, [(0, 8), (0, 9), (1, 8), (1, 9)]),
        (0, 6, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 5)]),
        ({"numbers": {0: 9}}, {"numbers": {1: 6}}, [(0, 9), (1, 5)]),
        (
            datetime.datetime(1970, 1, 1, 0, 0, 7),
            datetime.datetime(1970, 1, 1, 0, 0, 9, tzinfo=datetime.timezone.utc),
            [(0, 7), (0, 8), (1, 8)],
        ),
        (datetime.datetime(2000, 1, 1), "latest", []),
    ],
)
def test_where_it_starts_and_ends(
    rd: Any, kafka: Any, start: Any, end: Any, wanted: list[Any]
) -> None:
    read = rd.read_kafka("numbers", **PLACE, start_offset=start, end_offset=end)
    assert offsets(read) == wanted


@pytest.mark.contract("F10.04")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": []}, "topics cannot be empty"),
        ({"bootstrap_servers": []}, "bootstrap_servers cannot be empty"),
        ({"bootstrap_servers": "host"}, "Invalid bootstrap_servers format"),
        ({"timeout_ms": 0}, "timeout_ms must be positive"),
        ({"start_offset": 5, "end_offset": 3}, "start_offset must be less than end_offset"),
        ({"start_offset": "latest"}, "start_offset cannot be 'latest'"),
        ({"start_offset": "erliest"}, "it is 'earliest', an offset"),
        ({"end_offset": {"numbers": {0: "earliest"}}}, "cannot be 'earliest'"),
        ({"start_offset": {"numbers": 3}}, "has to be a dict"),
        ({"start_offset": {"numbers": {"0": 3}}}, "keys must be integers"),
        ({"trigger": "always"}, "'once' only"),
    ],
)
def test_what_is_refused_at_the_call(rd: Any, kafka: Any, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rd.read_kafka(**{"topics": "numbers", **PLACE, **options})


@pytest.mark.contract("F10.04")
def test_what_is_not_there(rd: Any, kafka: Any) -> None:
    for topic in ("number", "none"):
        with pytest.raises(ValueError, match=f"Topic {topic} has no partitions or doesn't exist"):
            rd.read_kafka(topic, **PLACE).take_all()
    with pytest.raises(ValueError, match="partition 7 in topic 'numbers', but that partition does"):
        rd.read_kafka("numbers", **PLACE, start_offset={"numbers": {7: 0}}).take_all()
    with pytest.raises(ValueError, match=r"start_offset .11. > end_offset .latest."):
        rd.read_kafka("numbers", **PLACE, start_offset={"numbers": {0: 11}}).take_all()


@pytest.mark.contract("F10.04")
def test_brokers_that_cannot_be_reached(rd: Any, kafka: Any) -> None:
    kafka.store("kafka-down", True)
    settings = {"socket.timeout.ms": 100}
    with pytest.raises(ConnectionError, match=r"no broker of .'host:9092'. could be reached"):
        rd.read_kafka("numbers", **PLACE, consumer_config=settings).take_all()
    assert rd.read_kafka("numbers", **PLACE, timeout_ms=200).take_all() == []
    kafka.store("kafka-down", False)
    kafka.fault("kafka-read", times=2)
    with pytest.raises(Exception, match="KafkaError -1"):
        rd.read_kafka("numbers", **PLACE).take_all()


@pytest.mark.contract("F10.04", "F10.32")
def test_who_one_is_to_kafka(rd: Any, kafka: Any, caplog: pytest.LogCaptureFixture) -> None:
    who = rd.KafkaAuthConfig(
        security_protocol="SASL_SSL", sasl_plain_password="secret", ssl_check_hostname=False
    )
    assert "secret" not in repr(who)
    with pytest.warns(DeprecationWarning, match="kafka_auth_config"):
        read = rd.read_kafka("empty", **PLACE, kafka_auth_config=who)
    assert read.count() == 0
    assert "ssl_check_hostname has no effect" in caplog.text
    used = kafka.load("kafka-settings", [])[0]
    assert (used["security.protocol"], used["sasl.password"]) == ("SASL_SSL", "secret")
    settings = {"bootstrap.servers": "other:1", "group.id": "mine"}
    with pytest.raises(ValueError, match="only one of"):
        rd.read_kafka("empty", **PLACE, kafka_auth_config=who, consumer_config=settings)
    assert rd.read_kafka("empty", **PLACE, consumer_config=settings).count() == 0
    used = kafka.load("kafka-settings", [])[-1]
    assert (used["bootstrap.servers"], used["group.id"]) == ("host:9092", "mine")


@pytest.mark.contract("F10.25")
def test_rows_become_messages(rd: Any, kafka: Any) -> None:
    when = datetime.datetime(2020, 1, 2)
    rows = [{"k": i % 3, "v": np.array([i]), "t": when} for i in range(9)]
    rd.from_items(rows, override_num_blocks=2).write_kafka("empty", "host:9092", key_field="k")
    read = rd.read_kafka("empty", **PLACE).take_all()
    assert sorted(json.loads(row["value"])["v"][0] for row in read) == list(range(9))
    assert {row["key"] for row in read} == {b"0", b"1", b"2"}
    assert json.loads(read[0]["value"])["t"] == "2020-01-02T00:00:00"
    rd.from_items([{"k": b"\xff"}]).write_kafka(
        "empty", "host:9092", "k", key_serializer="bytes", value_serializer="string"
    )
    last = rd.read_kafka("empty", **PLACE, start_offset=9).take_all()
    assert [(row["key"], row["value"]) for row in last] == [(b"\xff", rb"{'k': b'\xff'}")]


@pytest.mark.contract("F10.25")
def test_messages_that_are_not_delivered(rd: Any, kafka: Any) -> None:
    with pytest.raises(ValueError, match="value_serializer must be one of"):
        rd.range(1).write_kafka("empty", "host:9092", value_serializer="avro")
    kafka.store("kafka-refuses", b'{"id": 2}')
    with pytest.raises(ray.exceptions.RayTaskError, match="Failed to write 1 out of 5 messages"):
        rd.range(5, override_num_blocks=1).write_kafka("empty", "host:9092")
    kafka.store("kafka-refuses", b"")
    full = {"queue.buffering.max.messages": 2}
    rd.range(5).write_kafka("empty", "host:9092", producer_config=full)
    kafka.store("kafka-down", True)
    with pytest.raises(ray.exceptions.RayTaskError, match="queue is still full"):
        rd.range(5, override_num_blocks=1).write_kafka("empty", "host:9092", producer_config=full)
    with pytest.raises(
        ray.exceptions.RayTaskError, match="5 out of 5 messages were still in-flight"
    ):
        rd.range(5, override_num_blocks=1).write_kafka("empty", "host:9092")
    with pytest.raises(ray.exceptions.RayTaskError, match="is not JSON"):
        rd.from_items([{"x": 1j}]).write_kafka("empty", "host:9092")
