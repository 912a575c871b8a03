"""Messages of Kafka's topics, up to an end, by the package ``confluent-kafka``."""

from __future__ import annotations

import datetime
import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import missing
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    import confluent_kafka

    from heliostat.data.aliases import Row, Value
    from heliostat.data.context import DataContext


logger = logging.getLogger("heliostat.data")

WHO = "Topics of Kafka"
ASKED_S = (
    10.0  # how long a broker may take to answer what topics there are, and from where to where
)
CONSUMED_S = 10.0  # how long one waits for messages at a time
ROWS_AT_ONCE = 1000
SILENCE_MS = 60_000  # of all brokers, if the configuration says nothing else: librdkafka's default

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("headers", pa.map_(pa.string(), pa.binary())),
    ]
)

Offset = int | str | datetime.datetime
Offsets = Offset | dict[str, dict[int, Offset]]


@dataclass
class KafkaAuthConfig:
    """Deprecated: who one is to Kafka, in the names of kafka-python. Pass ``consumer_config`` instead.

    Args:
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        sasl_mechanism: "PLAIN", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-256" or "SCRAM-SHA-512".
        sasl_plain_username: For PLAIN and SCRAM.
        sasl_plain_password: For PLAIN and SCRAM.
        sasl_kerberos_name: The principal, for GSSAPI.
        sasl_kerberos_service_name: For GSSAPI.
        sasl_kerberos_domain_name: Without effect, with a warning.
        sasl_oauth_token_provider: Without effect, with a warning.
        ssl_context: Without effect, with a warning.
        ssl_check_hostname: False is without effect, with a warning.
        ssl_cafile: A file of authorities' certificates.
        ssl_certfile: A file of the client's certificate.
        ssl_keyfile: A file of the client's key.
        ssl_password: Of that file.
        ssl_ciphers: OpenSSL's names of the ciphers.
        ssl_crlfile: A file of withdrawn certificates.

    Examples:
        >>> import ray
        >>> from ray.data import KafkaAuthConfig
        >>> auth = KafkaAuthConfig(
        ...     security_protocol="SASL_SSL",
        ...     sasl_mechanism="SCRAM-SHA-256",
        ...     sasl_plain_username="me",
        ...     sasl_plain_password="secret",
        ... )
        >>> "secret" in repr(auth)
        False

        ``read_kafka(..., kafka_auth_config=auth)`` is what it is for.
    """

    security_protocol: str | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = field(default=None, repr=False)
    sasl_kerberos_name: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: object = None
    ssl_context: ssl.SSLContext | None = None
    ssl_check_hostname: bool | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_ciphers: str | None = None
    ssl_crlfile: str | None = None

    def settings(self) -> dict[str, object]:
        """The settings in librdkafka's names, with a warning for what it has no name for."""
        without = [
            name
            for name in ("sasl_kerberos_domain_name", "sasl_oauth_token_provider", "ssl_context")
            if getattr(self, name) is not None
        ]
        if self.ssl_check_hostname is False:
            without.append("ssl_check_hostname")
        for name in without:
            logger.warning(
                "KafkaAuthConfig: %s has no effect here; consumer_config takes librdkafka's settings.",
                name,
            )
        given = {theirs: getattr(self, ours) for ours, theirs in _AUTH.items()}
        return {name: value for name, value in given.items() if value is not None}


_AUTH = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
    "sasl_kerberos_name": "sasl.kerberos.principal",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_crlfile": "ssl.crl.location",
}


@spelled
@shows(OF_TASKS)
def read_kafka(
    topics: str | list[str],
    *,
    bootstrap_servers: str | list[str],
    trigger: Literal["once"] = "once",
    start_offset: Offsets = "earliest",
    end_offset: Offsets = "latest",
    kafka_auth_config: KafkaAuthConfig | None = None,
    consumer_config: dict[str, object] | None = None,
    timeout_ms: int | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of the messages of topics of Kafka, from a start to an end.

    Each partition is read in a task. The columns are "offset", "key", "value" (bytes), "topic", "partition",
    "timestamp" (ms), "timestamp_type" (0 none, 1 of the producer, 2 of the broker) and "headers".

    Args:
        topics: Their names.
        bootstrap_servers: Brokers as "host:port".
        trigger: "once": what is there between start and end.
        start_offset: "earliest", an offset, a time (UTC where it has no zone): the first message at or after
            it; or one for each partition, as ``{topic: {partition: offset}}``.
        end_offset: "latest" (as of when a partition is begun), an offset or a time, before which it ends; or
            one for each partition.
        kafka_auth_config: Deprecated: pass ``consumer_config``.
        consumer_config: Settings of librdkafka, such as ``{"security.protocol": "SSL"}``.
        timeout_ms: How long each partition may take; what was read until then is the result. Default: for
            ever, as long as a broker can be reached (see ``socket.timeout.ms`` of librdkafka, 60 s).
        **options: Those of :func:`read_datasource`; each partition is a task, whatever
            ``override_num_blocks`` says.

    Raises:
        ImportError: confluent-kafka is not installed.
        ValueError: There is no topic or broker, or an offset is none. While executing: there is no such topic
            or partition, or it starts after its end.
        ConnectionError: While executing: no broker could be reached for so long.

    Examples:
        >>> import datetime
        >>> import ray
        >>> def messages():
        ...     return ray.data.read_kafka(
        ...         "clicks",
        ...         bootstrap_servers=["kafka-1:9092", "kafka-2:9092"],
        ...         start_offset=datetime.datetime(2026, 1, 1),
        ...         end_offset="latest",
        ...     )
    """
    required("confluent_kafka", WHO)
    names = [topics] if isinstance(topics, str) else list(topics)
    servers = [bootstrap_servers] if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    if not names or not all(names):
        raise ValueError("topics cannot be empty")
    if not servers:
        raise ValueError("bootstrap_servers cannot be empty")
    for server in servers:
        if ":" not in str(server):
            raise ValueError(f"Invalid bootstrap_servers format: {server!r}. Each is 'host:port'.")
    if trigger != "once":
        raise ValueError(f"trigger is {trigger!r}; there is 'once' only.")
    if timeout_ms is not None and timeout_ms <= 0:
        raise ValueError("timeout_ms must be positive")
    if kafka_auth_config is not None and consumer_config is not None:
        raise ValueError(
            "Provide only one of kafka_auth_config (deprecated) or consumer_config, not both."
        )
    _check("start_offset", start_offset, "latest")
    _check("end_offset", end_offset, "earliest")
    if _is_after(start_offset, end_offset):
        raise ValueError("start_offset must be less than end_offset")
    settings = dict(consumer_config or {})
    if kafka_auth_config is not None:
        warnings.warn(
            "kafka_auth_config is deprecated: pass librdkafka's settings as consumer_config.",
            DeprecationWarning,
            stacklevel=3,
        )
        settings = kafka_auth_config.settings()
    source = _Kafka(names, servers, start_offset, end_offset, settings, timeout_ms)
    return dataset_of(source, "read_kafka", options, _NAMES)


_NAMES = (
    "topics",
    "bootstrap_servers",
    "trigger",
    "start_offset",
    "end_offset",
    "kafka_auth_config",
    "consumer_config",
    "timeout_ms",
)


def _check(what: str, offset: object, wrong: str) -> None:
    """Raise ``ValueError`` for what is not an offset."""
    each: list[tuple[str, object]] = [(what, offset)]
    if isinstance(offset, dict):
        each = []
        for topic, of_topic in offset.items():
            if not isinstance(of_topic, dict):
                raise ValueError(f"{what}[{topic!r}] has to be a dict of offsets by partition.")
            for partition, one in of_topic.items():
                if not isinstance(partition, int):
                    raise ValueError(
                        f"{what}[{topic!r}] keys must be integers (partitions), not {partition!r}."
                    )
                each.append((f"{what}[{topic!r}][{partition}]", one))
    right = "earliest" if wrong == "latest" else "latest"
    for name, one in each:
        if one == wrong:
            raise ValueError(f"{name} cannot be {wrong!r}")
        is_number = isinstance(one, int) and not isinstance(one, bool) and one >= 0
        if not (one == right or is_number or isinstance(one, datetime.datetime)):
            raise ValueError(
                f"{name} is {one!r}: it is {right!r}, an offset from 0 on, or a datetime."
            )


def _is_after(start: object, end: object) -> bool:
    if isinstance(start, datetime.datetime) and isinstance(end, datetime.datetime):
        return _ms(start) > _ms(end)
    return isinstance(start, int) and isinstance(end, int) and start > end


def _ms(when: datetime.datetime) -> int:
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return int(when.timestamp() * 1000)


def configured(
    servers: list[str], settings: dict[str, object], **more: object
) -> dict[str, object]:
    """Librdkafka's settings: ours, then the program's. Where the brokers are, the argument says."""
    other = settings.get("bootstrap.servers")
    where = ",".join(servers)
    if other not in (None, where):
        logger.warning(
            "'bootstrap.servers' of the settings is ignored: bootstrap_servers says where."
        )
    return {**more, **settings, "bootstrap.servers": where}


@dataclass(frozen=True)
class _Kafka(Datasource):
    topics: list[str]
    servers: list[str]
    start: Offsets
    end: Offsets
    settings: dict[str, Value] = field(repr=False)
    timeout_ms: int | None

    def get_name(self) -> str:
        return "Kafka"

    def consumer(self, **more: object) -> confluent_kafka.Consumer:
        """A consumer that leaves no trace in Kafka."""
        given = configured(
            self.servers,
            self.settings,
            **{"enable.auto.commit": False, "group.id": "ray-data-kafka-reader", **more},
        )
        return required("confluent_kafka", WHO).Consumer(given)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        there = self._partitions()
        for what, given in (("start_offset", self.start), ("end_offset", self.end)):
            for topic, of_topic in given.items() if isinstance(given, dict) else ():
                for partition in of_topic:
                    if (topic, partition) not in there:
                        raise ValueError(
                            f"{what} references partition {partition} in topic {topic!r}, but that "
                            f"partition does not exist; there are {there}."
                        )
        return [
            ReadTask(
                _Partition(self, topic, partition),
                BlockMetadata(None, None, None, [f"kafka://{topic}/{partition}"]),
                SCHEMA,
                per_task_row_limit,
            )
            for topic, partition in there
        ]

    def _partitions(self) -> list[tuple[str, int]]:
        consumer = self.consumer()
        try:
            found = consumer.list_topics(timeout=ASKED_S).topics
        finally:
            consumer.close()
        there = []
        for topic in self.topics:
            partitions = found[topic].partitions if topic in found else ()
            if not partitions:
                near = missing.nearest([topic], sorted(found))
                hint = f" (did you mean {near}?)" if near else ""
                raise ValueError(
                    f"Topic {topic} has no partitions or doesn't exist{hint}; there are {sorted(found)}."
                )
            there += [(topic, number) for number in sorted(partitions)]
        return there

    def bound(self, offsets: Offsets, topic: str, partition: int, default: str) -> Offset:
        """Return the offset that was given for a partition."""
        if isinstance(offsets, dict):
            return offsets.get(topic, {}).get(partition, default)
        return offsets


class _Partition:
    """Reads the messages of a partition in a task."""

    def __init__(self, source: _Kafka, topic: str, partition: int) -> None:
        self._source, self._topic, self._partition = source, topic, partition

    def __call__(self) -> Iterator[pa.Table]:
        package = required("confluent_kafka", WHO)
        silent: list[float] = []  # since when no broker can be reached

        def tell(error: confluent_kafka.KafkaError) -> None:
            if error.code() == package.KafkaError._ALL_BROKERS_DOWN and not silent:
                silent.append(time.monotonic())

        # An end is told, so that one need not wait for messages that were compacted away or are a
        # transaction's.
        consumer = self._source.consumer(**{"enable.partition.eof": True, "error_cb": tell})
        try:
            yield from self._read(package, consumer, silent)
        finally:
            consumer.close()

    def _read(
        self, package: ModuleType, consumer: confluent_kafka.Consumer, silent: list[float]
    ) -> Iterator[pa.Table]:
        source = self._source
        start, end = self._span(package, consumer)
        if start >= end:
            yield SCHEMA.empty_table()
            return
        consumer.assign([package.TopicPartition(self._topic, self._partition, start)])
        limit = None if source.timeout_ms is None else source.timeout_ms / 1000
        patience = float(source.settings.get("socket.timeout.ms", SILENCE_MS)) / 1000
        began = time.monotonic()
        rows: list[Row] = []
        at = start
        while at < end:
            passed = time.monotonic() - began
            if limit is not None and passed >= limit:
                logger.warning(
                    "%s: timeout_ms=%d passed at offset %d, before the end %d; what was read is the result.",
                    self,
                    source.timeout_ms,
                    at,
                    end,
                )
                break
            wait = CONSUMED_S if limit is None else min(limit - passed, CONSUMED_S)
            wait = min(wait, patience)
            given = consumer.consume(num_messages=min(end - at, ROWS_AT_ONCE), timeout=wait)
            if given:
                silent.clear()
            elif silent and time.monotonic() - silent[0] >= patience:
                raise ConnectionError(
                    f"{self}: no broker of {source.servers} could be reached for {patience:g} s; "
                    f"offset {at} of {end} was reached."
                )
            for message in given:
                at = self._next(package, message, at, end, rows)
                if at >= end:
                    break
            if len(rows) >= ROWS_AT_ONCE:
                yield pa.Table.from_pylist(rows, SCHEMA)
                rows = []
        if rows:
            yield pa.Table.from_pylist(rows, SCHEMA)

    def _next(
        self,
        package: ModuleType,
        message: confluent_kafka.Message,
        at: int,
        end: int,
        rows: list[Row],
    ) -> int:
        """The offset that comes after a message, which becomes a row if it is before the end."""
        error = message.error()
        if error is not None:
            if error.code() == package.KafkaError._PARTITION_EOF:
                return max(at, int(message.offset()))
            raise package.KafkaException(error)
        offset = int(message.offset())
        if offset < end:
            kind, when = message.timestamp()
            rows.append(
                {
                    "offset": offset,
                    "key": message.key(),
                    "value": message.value(),
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "timestamp": when,
                    "timestamp_type": kind,
                    "headers": list(message.headers() or ()),
                }
            )
        return offset + 1

    def _span(self, package: ModuleType, consumer: confluent_kafka.Consumer) -> tuple[int, int]:
        """From where to where: offsets, the end exclusive.

        Raises:
            ValueError: It starts after its end.
        """
        source, name = self._source, (self._topic, self._partition)
        place = package.TopicPartition(*name)
        first, last = consumer.get_watermark_offsets(place, timeout=ASKED_S)
        asked = source.bound(source.start, *name, "earliest")
        until = source.bound(source.end, *name, "latest")
        start = first if asked == "earliest" else self._offset(package, consumer, asked, last)
        end = last if until == "latest" else self._offset(package, consumer, until, last)
        end = min(end, last)
        if start < first:
            logger.warning(
                "%s: offset %d is gone, as Kafka keeps messages so long only; it starts at %d.",
                self,
                start,
                first,
            )
            start = first
        if start > end:
            raise ValueError(
                f"start_offset ({asked}) > end_offset ({until}) for partition {self._partition} in topic "
                f"{self._topic}: they are {start} and {end}."
            )
        return start, end

    def _offset(
        self, package: ModuleType, consumer: confluent_kafka.Consumer, asked: Offset, last: int
    ) -> int:
        if not isinstance(asked, datetime.datetime):
            return int(asked)
        place = package.TopicPartition(self._topic, self._partition, _ms(asked))
        found = consumer.offsets_for_times([place], timeout=ASKED_S)
        offset = int(found[0].offset) if found else -1
        return offset if offset >= 0 else last

    def __repr__(self) -> str:
        return f"Kafka's topic {self._topic}, partition {self._partition}"
