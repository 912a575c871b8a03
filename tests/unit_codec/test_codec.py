"""The codec: what a value's bytes are, and that it comes back as it was."""

from __future__ import annotations

import copy
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pytest
import samples
from heliostat import _heliostat
from heliostat._heliostat import ObjectRef, deserialize, serialize
from heliostat.core.serialize import deregister_serializer, register_serializer

pytestmark = pytest.mark.heliostat_only("the codec is Heliostat's own")

PICKLE, PICKLE_BUFFERS, NDARRAY, WITH_REFS = 7, 8, 9, 11
SYSTEM_ERROR, THROUGH = 0xE0, 0xE1


def back(value: Any) -> Any:
    return deserialize(serialize(value))


@dataclass
class Point:
    x: Any
    y: Any = None


class Text(str):
    """Not exactly a string: its class has to survive."""


PLAIN = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**200),
    0.0,
    -1.5,
    float("inf"),
    "",
    "text",
    "\u2600 \U0001f600",
    "lone \ud800 surrogate",
    b"",
    b"bytes",
    b"x" * 200_000,
    "y" * 200_000,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:20])
def test_plain_values_come_back_with_their_type(value: Any) -> None:
    found = back(value)
    assert found == value
    assert type(found) is type(value)


def test_small_plain_values_have_short_forms() -> None:
    assert serialize(None) == b"\x00"
    assert serialize(True) == b"\x02"
    assert serialize(1) == b"\x03" + (1).to_bytes(8, "little")
    assert serialize("ab") == b"\x05" + (2).to_bytes(8, "little") + b"ab"


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1, [2, (3, {4: {5}})]],
        OrderedDict(a=1),
        Point(1, Point(2)),
        Text("kept"),
        True + 0j,
        bytearray(b"mutable"),
        range(3),
        Ellipsis,
        int,
        len,
        np.float32(1.5),
    ],
    ids=repr,
)
def test_everything_else_is_pickled(value: Any) -> None:
    data = serialize(value)
    assert data[0] in (PICKLE, PICKLE_BUFFERS)
    found = deserialize(data)
    assert found == value
    assert type(found) is type(value)


def test_no_document_looks_like_an_error_of_the_system() -> None:
    for value in [*PLAIN, [], np.zeros(3), [np.zeros(3)], Point(1)]:
        assert serialize(value)[0] not in (SYSTEM_ERROR, THROUGH)


ARRAYS = [
    np.arange(10),
    np.arange(12.0).reshape(3, 4),
    np.arange(12.0).reshape(3, 4).T,
    np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    np.array(3.0),
    np.zeros((0, 3)),
    np.zeros((3, 0), dtype=np.uint8),
    *(np.ones(5, dtype=code) for code in "?bBhHiIlLqQefdFD"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_are_read_only_views_without_pickle(array: Any) -> None:
    data = serialize(array)
    assert data[0] == NDARRAY
    found = deserialize(data)
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.strides == array.strides or array.size == 0
    assert np.array_equal(found, array)
    assert not found.flags.writeable
    assert not found.flags.owndata
    assert found.flags.aligned
    with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
        found.flags.writeable = True


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "bcd"]),
        np.array([1, None], dtype=object),
        np.datetime64("2020-01-01") + np.arange(3),
        np.arange(4, dtype=">i4"),
        np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")]),
        np.arange(16.0).reshape(4, 4)[::2, ::2],
        np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
        np.arange(3).view(np.recarray),
        np.longdouble([1, 2]),
    ],
    ids=lambda a: f"{type(a).__name__}-{a.dtype}",
)
def test_unusual_arrays_are_pickled(array: Any) -> None:
    data = serialize(array)
    assert data[0] in (PICKLE, PICKLE_BUFFERS)
    found = deserialize(data)
    assert (type(found), found.dtype, found.shape) == (type(array), array.dtype, array.shape)
    assert (found == array).all()


def test_arrays_inside_values_are_buffers_beside_the_pickle() -> None:
    value = {"a": np.arange(1000), "b": [np.ones((50, 50)), b"small"], "c": np.arange(3)}
    data = serialize(value)
    assert data[0] == PICKLE_BUFFERS
    found = deserialize(data)
    assert np.array_equal(found["a"], value["a"])
    assert np.array_equal(found["b"][0], value["b"][0])
    assert not found["a"].flags.writeable
    assert not found["c"].flags.writeable
    assert found["a"].ctypes.data % 64 == 0


def test_a_view_keeps_its_bytes() -> None:
    found = back([np.arange(100_000)])[0][10:20]
    assert found.tolist() == list(range(10, 20))


def test_what_the_script_defines_goes_by_value() -> None:
    local = lambda x: x + 1  # noqa: E731
    assert back(local)(1) == 2

    class Local:
        def __init__(self, n: int) -> None:
            self.n = n

    assert back(Local(3)).n == 3
    # A pickle that names the script's module, though the C pickler would write it.
    module = type(Point)("Named", (), {"__module__": "__main__"})
    assert back(module).__name__ == "Named"


def test_modules_registered_to_go_by_value() -> None:
    by_name = serialize(samples.SampleError)
    cloudpickle.register_pickle_by_value(samples)
    try:
        by_value = serialize(samples.SampleError)
    finally:
        cloudpickle.unregister_pickle_by_value(samples)
    assert len(by_value) > 2 * len(by_name)
    assert serialize(samples.SampleError) == by_name


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(TypeError) as raised:
        serialize({"fine": 1, "culprit": threading.Lock()})
    assert "culprit" in str(raised.value)
    assert "_thread.lock" in str(raised.value)


class Grumpy:
    def __reduce__(self) -> Any:
        raise LookupError("not today")


def test_errors_of_the_values_own_code_are_its_own() -> None:
    with pytest.raises(LookupError, match="not today"):
        serialize(Grumpy())


class Handmade:
    def __init__(self, secret: Any) -> None:
        self.secret = secret


def test_registered_serializers_act_for_the_runtime_only() -> None:
    register_serializer(
        Handmade, serializer=lambda h: f"<{h.secret}>", deserializer=lambda text: Handmade(text)
    )
    try:
        assert back([Handmade("s")])[0].secret == "<s>"
        assert pickle.loads(pickle.dumps(Handmade("s"))).secret == "s"
        assert copy.copy(Handmade("s")).secret == "s"
    finally:
        deregister_serializer(Handmade)
    assert back(Handmade("s")).secret == "s"


def test_a_serializer_for_arrays_takes_precedence() -> None:
    register_serializer(np.ndarray, serializer=lambda a: a.tolist(), deserializer=tuple)
    try:
        assert back(np.arange(3)) == (0, 1, 2)
    finally:
        deregister_serializer(np.ndarray)
    assert type(back(np.arange(3))) is np.ndarray


def test_references_inside_values_are_found_wherever_they_are() -> None:
    refs = [ObjectRef.from_random() for _ in range(100)]
    value = {"list": refs, "again": refs[0], "deep": Point((refs[1], {"k": refs[2]}))}
    data = serialize(value)
    assert data[0] == WITH_REFS
    found = deserialize(data)
    assert found["list"] == refs
    assert found["again"] is found["list"][0]
    assert found["deep"].x[1]["k"] == refs[2]


def test_references_are_found_by_cloudpickle_too() -> None:
    ref = ObjectRef.from_random()
    assert back([ref, lambda: ref])[1]() == ref


def test_a_value_that_serializes_another_on_its_way() -> None:
    inner, outer = ObjectRef.from_random(), ObjectRef.from_random()

    class Nested:
        def __reduce__(self) -> Any:
            return deserialize, (serialize([inner]),)

    assert back([outer, Nested(), outer]) == [outer, [inner], outer]


def test_references_pickled_by_somebody_else() -> None:
    ref = ObjectRef.from_random()
    assert pickle.loads(pickle.dumps(ref)) == ref
    assert copy.deepcopy([ref])[0] is ref


def test_damaged_bytes_are_refused() -> None:
    values = [1, "text", b"bytes", [1, 2], np.arange(100), [np.arange(100)], [ObjectRef.nil()]]
    for data in map(serialize, values):
        for n in range(min(len(data), 300)):
            with pytest.raises(Exception):  # noqa: B017 - the unpickler's own errors among them
                deserialize(data[:n])
    with pytest.raises(ValueError, match="damaged"):
        deserialize(b"\x7f")
    with pytest.raises(ValueError, match="damaged"):
        deserialize(bytes([NDARRAY]) + b"C\x03<f8\x01" + b"\xff" * 8)


def test_ids_are_values() -> None:
    for kind in (_heliostat.JobID, _heliostat.ActorID, _heliostat.NodeID, _heliostat.TaskID):
        some = kind.from_random()
        assert back(some) == some
        assert kind.from_hex(some.hex()) == some
        assert {some: 1}[kind(some.binary())] == 1
        assert kind.nil().is_nil()
        assert repr(some) == f"{kind.__name__}({some.hex()})"
    with pytest.raises(ValueError, match="length 4"):
        _heliostat.JobID(b"12345")


def test_tensors_come_back_writable_and_equal() -> None:
    torch = pytest.importorskip("torch")
    for tensor in [
        torch.arange(10),
        torch.ones(3, 4, dtype=torch.bfloat16),
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.arange(12).reshape(3, 4).t(),
        torch.ones(2, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
    ]:
        found = back([tensor])[0]
        assert torch.equal(found, tensor)
        assert (found.dtype, found.requires_grad) == (tensor.dtype, tensor.requires_grad)
        assert type(found) is type(tensor)
    large = back({"w": torch.ones(100_000)})["w"]
    large += 1
    assert float(large.sum()) == 200_000
    # Elsewhere tensors are pickled as ever.
    assert torch.equal(pickle.loads(pickle.dumps(torch.ones(3))), torch.ones(3))
