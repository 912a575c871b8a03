"""The codec: what a value's bytes are, and that it comes back as it was."""

from __future__ import annotations

import copy
import copyreg
import functools
import io
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from random import Random
from typing import Any

import cloudpickle
import numpy as np
import pytest
from heliostat import _heliostat
from heliostat._heliostat import ObjectRef, deserialize, serialize
from heliostat.core.serialize import deregister_serializer, register_serializer

from tests.helpers import samples

pytestmark = pytest.mark.heliostat_only("the codec is Heliostat's own")

PICKLE, PICKLE_BUFFERS, NDARRAY, WITH_REFS, TREE = 7, 8, 9, 11, 13
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
        {1},
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


def random_tree(random: Random, depth: int = 0) -> Any:
    texts = ["", "key", "é", "\u2600" * 90, "x" * 300]
    leaves = [
        *(
            None,
            True,
            False,
            0,
            255,
            256,
            -1,
            2**31,
            -(2**31) - 1,
            2**63 - 1,
            0.5,
            b"",
            b"b" * 9000,
        ),
        *texts,
        "".join(random.choices("abc", k=random.randrange(5))),
    ]
    kind = random.randrange(10) if depth < 6 else 9
    if kind > 5:
        return random.choice(leaves)
    items = [random_tree(random, depth + 1) for _ in range(random.randrange(8))]
    if kind > 3:
        return {random.choice([*texts, n, (n, "x"), n * 0.5]): item for n, item in enumerate(items)}
    return tuple(items) if kind > 1 else items


def same(found: Any, value: Any) -> bool:
    """Equal, and of the same types all the way down, and dictionaries in the same order."""
    if type(found) is not type(value) or found != value:
        return False
    if isinstance(value, dict):
        found, value = [*found.items()], [*value.items()]
    return not isinstance(value, list | tuple) or all(map(same, found, value))


@pytest.mark.parametrize("seed", range(200))
def test_containers_of_plain_values_come_back_as_they_were(seed: int) -> None:
    value = [random_tree(Random(seed))]
    data = serialize(value)
    assert data[0] == TREE
    assert same(deserialize(data), value)


def test_a_text_that_comes_again_is_written_once() -> None:
    # More texts than there are places for: some push others out.
    texts = [f"label {n}" for n in range(2000)]
    value = [{"a long key of a row": n, "label": texts[n % 2000]} for n in range(6000)]
    data = serialize(value)
    found = deserialize(data)
    assert found == value
    # A key loses its place to one label in 256, by their addresses: some 25 times each, not 6,000.
    assert data.count(b"a long key of a row") < 300
    assert len({id(key) for row in found for key in row}) < 600


def test_containers_that_come_again_stay_one() -> None:
    shared: list[Any] = [1]
    row = (1, [2])
    for value in ([shared, shared], {"a": shared, "b": (shared,)}, [row, row]):
        assert serialize(value)[0] == PICKLE
    found = back([shared, shared])
    assert found[0] is found[1]
    shared.append(shared)
    found = back(shared)
    assert found[1] is found
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    assert back(itself)["itself"]["itself"]["itself"] is not None
    assert serialize([(), (), []])[0] == TREE  # there is one empty tuple for all


@pytest.mark.parametrize(
    "value",
    [[2**63], ["lone \ud800 surrogate"], [Text("kept")], {Text("k"): 1}, [[True, {1}]], [1, 2j]],
    ids=repr,
)
def test_containers_with_anything_else_are_pickled(value: Any) -> None:
    assert serialize(value)[0] == PICKLE
    assert same(back(value), value)


def test_containers_are_read_as_deep_as_they_are_written() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value]
    assert back(value) == value
    deepest = bytes([TREE]) + b"\x0c\x01\x00\x00\x00" * 100_000
    with pytest.raises(ValueError, match="damaged"):
        deserialize(deepest)


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
    tree = [1, -1, 2**40, 0.5, "a", "b" * 300, b"c", {"k": "k", (1,): None}, ["k", True]]
    values = [
        1,
        "text",
        b"bytes",
        tree,
        [1, 2],
        [Point(1)],
        np.arange(100),
        [np.arange(100)],
        [ObjectRef.nil()],
    ]
    for data in map(serialize, values):
        for n in range(min(len(data), 300)):
            with pytest.raises(Exception):  # noqa: B017 - the unpickler's own errors among them
                deserialize(data[:n])
    with pytest.raises(ValueError, match="damaged"):
        deserialize(b"\x7f")
    for kind in range(256):
        with pytest.raises((ValueError, TypeError)):  # a list cannot be a key
            deserialize(bytes([TREE, 14, 9, 0, 0, 0, kind]) + b"\xff" * 9)
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


def test_tensors_begin_at_multiples_of_64_bytes_and_can_grow() -> None:
    torch = pytest.importorskip("torch")
    sizes = [1, 3, 5, 77, 1000, 100_001]
    kinds = [torch.float32, torch.int8, torch.bfloat16, torch.bool]
    tensors = [torch.ones(size, dtype=kind) for kind in kinds for size in sizes]
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
    found = back({"list": tensors, "deep": [("text", tensors[1]), {"a": tensors[-1][3:]}]})
    flat = [*found["list"], found["deep"][0][1], found["deep"][1]["a"]]
    flat += back(dict(model.state_dict())).values()
    flat += back(model).parameters()
    assert {tensor.data_ptr() % 64 for tensor in flat} == {0}
    grown = back(torch.ones(3))
    grown.resize_(1000)
    assert grown[:3].tolist() == [1, 1, 1]


class _Nested:
    """A value that pickles another one while it is pickled itself."""

    def __init__(self, value: Any, save: Callable[[Any], bytes]) -> None:
        self.value = value
        self.save = save

    def __reduce__(self) -> Any:
        return bytes, (self.save(self.value),)


def _torch_save(value: Any) -> bytes:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _torch_load(data: bytes) -> Any:
    return pytest.importorskip("torch").load(io.BytesIO(data))


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize(
    ("save", "load"),
    [
        *((functools.partial(pickle.dumps, protocol=n), pickle.loads) for n in range(6)),
        (cloudpickle.dumps, cloudpickle.loads),
        (lambda value: bytes(ForkingPickler.dumps(value)), ForkingPickler.loads),
        (lambda value: pickle.dumps(copy.deepcopy(value)), pickle.loads),
        (_torch_save, _torch_load),
    ],
)
def test_picklers_of_others_never_meet_the_reducer_of_tensors(
    save: Callable[[Any], bytes], load: Callable[[bytes], Any], size: int
) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(size)
    back(tensor)  # registers the reducer
    assert torch.equal(load(save(tensor)), tensor)
    found = back({"outer": tensor, "inner": _Nested(tensor, save)})
    assert torch.equal(found["outer"], tensor)
    assert torch.equal(load(found["inner"]), tensor)
    assert torch.Tensor not in copyreg.dispatch_table


def test_reducers_of_copyreg_act_beside_registered_serializers() -> None:
    register_serializer(Handmade, serializer=lambda h: h.secret, deserializer=Handmade)
    copyreg.pickle(Grumpy, lambda _: (Handmade, ("kept",)))
    try:
        assert back([Grumpy(), Handmade("s")])[0].secret == "kept"
        assert back([Grumpy(), lambda: 7])[1]() == 7
    finally:
        deregister_serializer(Handmade)
        del copyreg.dispatch_table[Grumpy]


def test_serializers_reach_values_that_only_cloudpickle_can_pickle() -> None:
    register_serializer(
        Handmade, serializer=lambda h: f"<{h.secret}>", deserializer=lambda text: Handmade(text)
    )
    try:
        handmade, function = back([Handmade("s"), lambda: 7])
        assert (handmade.secret, function()) == ("<s>", 7)
    finally:
        deregister_serializer(Handmade)
