"""TFRecord files: frames of bytes with checksums, each a ``tf.train.Example``, without TensorFlow."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import tensors

if TYPE_CHECKING:
    import google
    import tensorflow_metadata
    from google.protobuf.message import Message

    from heliostat.data.aliases import Value


PURPOSE = "TFRecord files"
MASK_DELTA = 0xA282EAD8  # of the format: stored checksums are rotated and moved by it
KINDS = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64()}
SCHEMA_KINDS = {1: "bytes_list", 2: "int64_list", 3: "float_list"}  # of tensorflow-metadata


@functools.cache
def example_class() -> Message:
    """The message ``tf.train.Example``, from its schema as the format's documentation has it."""
    descriptor = required("google.protobuf.descriptor_pb2", PURPOSE)
    pool = required("google.protobuf.descriptor_pool", PURPOSE)
    factory = required("google.protobuf.message_factory", PURPOSE)
    field = descriptor.FieldDescriptorProto
    file = descriptor.FileDescriptorProto(name="example.proto", package="tf", syntax="proto3")

    def add(
        name: str, *fields: dict[str, object]
    ) -> google.protobuf.descriptor_pb2.DescriptorProto:
        message = file.message_type.add(name=name)
        for number, one in enumerate(fields, 1):
            message.field.add(number=number, **{"label": field.LABEL_OPTIONAL, **one})
        return message

    for name, kind in (("Bytes", "BYTES"), ("Float", "FLOAT"), ("Int64", "INT64")):
        values = {"type": getattr(field, f"TYPE_{kind}"), "label": field.LABEL_REPEATED}
        add(f"{name}List", {"name": "value", **values})
    lists = {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}
    message = {"type": field.TYPE_MESSAGE}
    choices = [
        {"name": name, "type_name": f".tf.{kind}", "oneof_index": 0, **message}
        for name, kind in lists.items()
    ]
    add("Feature", *choices).oneof_decl.add(name="kind")
    entries = {
        "name": "feature",
        "type_name": ".tf.Features.FeatureEntry",
        "label": field.LABEL_REPEATED,
    }
    entry = add("Features", {**entries, **message}).nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(
        name="value", number=2, type_name=".tf.Feature", label=field.LABEL_OPTIONAL, **message
    )
    add("Example", {"name": "features", "type_name": ".tf.Features", **message})
    types = pool.DescriptorPool()
    types.Add(file)
    return factory.GetMessageClass(types.FindMessageTypeByName("tf.Example"))


# --- frames ----------------------------------------------------------------------------------------


def records(stream: pa.NativeFile, path: str) -> Iterator[bytes]:
    """The records of a file.

    Raises:
        RuntimeError: It is cut off, or a checksum is wrong.
    """
    count = 0
    while head := stream.read(12):
        size = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else -1
        if size < 0 or head[8:] != _checksum(head[:8]):
            raise RuntimeError(_broken(path, count))
        body = stream.read(size + 4)
        if len(body) != size + 4 or body[size:] != _checksum(body[:size]):
            raise RuntimeError(_broken(path, count))
        yield body[:size]
        count += 1


def _broken(path: str, count: int) -> str:
    return (
        f"Failed to read TFRecord file {path} after {count} records: it is cut off or no TFRecord file. "
        'A packed file whose name does not say so needs arrow_open_stream_args={"compression": "gzip"}.'
    )


def framed(record: bytes) -> bytes:
    """A record as files have it."""
    size = struct.pack("<Q", len(record))
    return b"".join((size, _checksum(size), record, _checksum(record)))


def _checksum(data: bytes) -> bytes:
    crc = required("google_crc32c", PURPOSE).value(bytes(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF)


# --- tables ----------------------------------------------------------------------------------------


def kinds_of(
    tf_schema: tensorflow_metadata.proto.v0.schema_pb2.Schema | None,
) -> dict[str, str] | None:
    """The kinds of lists by feature that a schema of tensorflow-metadata names."""
    if tf_schema is None:
        return None
    return {feature.name: SCHEMA_KINDS.get(feature.type, "") for feature in tf_schema.feature}


def to_table(examples: list[bytes], kinds: dict[str, str] | None, path: str) -> pa.Table:
    """The features of some records as columns.

    Values are numbers or bytes where each record has one, lists otherwise and with a schema.

    Raises:
        ValueError: A record is not an example, or does not agree with the schema.
    """
    decode = required("google.protobuf.message", PURPOSE).DecodeError
    message = example_class()
    columns: dict[str, list[Value]] = {name: [] for name in kinds or ()}
    found: dict[str, set[str]] = {name: set() for name in kinds or ()}
    for number, data in enumerate(examples):
        try:
            example = message.FromString(data)
        except decode as error:
            raise ValueError(f"a record of {path} is not a tf.train.Example: {error}") from error
        for name, feature in example.features.feature.items():
            kind = feature.WhichOneof("kind")
            if kinds is not None and name not in kinds:
                raise ValueError(f"Found extra unexpected feature {name}, which the schema lacks.")
            if kinds is not None and kind not in (None, kinds[name]):
                raise ValueError(f"the feature {name} is a {kind}, in the schema {kinds[name]}.")
            values = columns.setdefault(name, [])
            values.extend([None] * (number - len(values)))
            values.append(list(getattr(feature, kind).value) if kind else [])
            found.setdefault(name, set()).update({kind} - {None})
        for values in columns.values():
            values.extend([None] * (number + 1 - len(values)))
    return pa.table(
        {name: _column(v, found[name], kinds, name, path) for name, v in columns.items()}
    )


def _column(
    values: list[Value], found: set[str], kinds: dict[str, str] | None, name: str, path: str
) -> pa.Array:
    if len(found) > 1:
        raise ValueError(f"the feature {name} of {path} has values of several types: {found}.")
    kind = kinds[name] if kinds is not None else next(iter(found), "")
    inner = KINDS.get(kind, pa.null())
    if kinds is None and all(v is None or len(v) == 1 for v in values):
        return pa.array([None if v is None else v[0] for v in values], inner)
    return pa.array(values, pa.list_(inner))


def encode(table: pa.Table, kinds: dict[str, str] | None) -> Iterator[bytes]:
    """The rows of a table as examples.

    Raises:
        ValueError: A column is not of numbers, text, bytes or lists of them, or not in the schema.
    """
    chosen = {f.name: _kind(f, kinds) for f in table.schema}
    columns = [tensors.to_list(column) for column in table.columns]
    message = example_class()
    for row in zip(*columns, strict=True):
        example = message()
        for name, value in zip(chosen, row, strict=True):
            feature = example.features.feature[name]
            values = [] if value is None else value if isinstance(value, list) else [value]
            encoded = [v.encode() if isinstance(v, str) else v for v in values]
            getattr(feature, chosen[name]).value.extend(encoded)
        yield example.SerializeToString()


def _kind(field: pa.Field, kinds: dict[str, str] | None) -> str:
    is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    inner = field.type.value_type if is_list else field.type
    checks = {
        "int64_list": (pa.types.is_integer,),
        "float_list": (pa.types.is_floating,),
        "bytes_list": (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_string,
            pa.types.is_large_string,
        ),
    }
    own = next((kind for kind, several in checks.items() if any(c(inner) for c in several)), None)
    if kinds is not None and field.name not in kinds:
        raise ValueError(f"Found extra unexpected feature {field.name}, which the schema lacks.")
    wanted = (kinds or {}).get(field.name)
    if wanted is not None and (own == wanted or pa.types.is_null(inner)):
        return wanted
    if wanted is not None or own is None:
        raise ValueError(
            f"the column {field.name!r} of {field.type} cannot be written as {wanted or 'a feature'}: "
            "features are numbers, text, bytes and lists of them."
        )
    return own
