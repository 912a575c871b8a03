"""``DataType``: the type of a column as Arrow, numpy or Python has it."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ray.data.datatype import DataType, TypeCategory

# a type: what it is said to be
KINDS = [
    (DataType.int32(), "arrow integer numerical"),
    (DataType.uint64(), "arrow integer numerical uint64"),
    (DataType.float64(), "arrow floating numerical"),
    (DataType.from_arrow(pa.decimal128(5, 2)), "arrow numerical"),
    (DataType.bool(), "arrow boolean"),
    (DataType.string(), "arrow string"),
    (DataType.from_arrow(pa.large_string()), "arrow string"),
    (DataType.binary(), "arrow binary"),
    (DataType.from_arrow(pa.null()), "arrow null"),
    (DataType.list(DataType.int64()), "arrow list nested"),
    (DataType.large_list(DataType.int8()), "arrow list nested"),
    (DataType.fixed_size_list(DataType.float32(), 3), "arrow list nested"),
    (DataType.struct([("a", DataType.int64())]), "arrow nested struct"),
    (DataType.map(DataType.string(), DataType.from_numpy("int8")), "arrow map nested"),
    (DataType.tensor((2, 3), DataType.float32()), "arrow tensor"),
    (DataType.variable_shaped_tensor(DataType.float32(), 2), "arrow tensor"),
    (DataType.temporal("timestamp", unit="us", tz="UTC"), "arrow temporal"),
    (DataType.temporal("date32"), "arrow temporal"),
    (DataType.temporal("duration"), "arrow temporal"),
    (DataType.from_numpy("int16"), "integer numerical numpy"),
    (DataType.from_numpy("uint64"), "integer numerical numpy uint64"),
    (DataType.from_numpy("U5"), "numpy string"),
    (DataType.from_numpy("bool"), "boolean numpy"),
    (DataType.from_numpy(np.dtype("datetime64[ns]")), "numpy temporal"),
    (DataType(int), "integer numerical python"),
    (DataType(str), "python string"),
    (DataType(list), "python"),
]


@pytest.mark.contract("F10.10")
@pytest.mark.parametrize(("dtype", "said"), KINDS, ids=repr)
def test_what_a_type_is(dtype: DataType, said: str) -> None:
    asked = [name for name in dir(dtype) if name.startswith("is_") and name != "is_of"]
    found = [name[3:-5] for name in asked if getattr(dtype, name)()]
    assert " ".join(sorted(found)) == said
    of = {category.value for category in TypeCategory if dtype.is_of(category)}
    expected = {word for word in said.split() if word in {c.value for c in TypeCategory}}
    if dtype == DataType.large_list(DataType.int8()):
        expected.add("large_list")
    assert of == expected
    assert not dtype.is_of("anything")


def test_types_become_others() -> None:
    assert DataType.int32().to_arrow_dtype() == pa.int32()
    assert DataType.from_numpy("int16").to_arrow_dtype() == pa.int16()
    assert DataType(int).to_arrow_dtype([1, 2]) == pa.int64()
    assert DataType.float32().to_numpy_dtype() == np.dtype(np.float32)
    assert DataType.list(DataType.int8()).to_numpy_dtype() == np.dtype(object)
    assert DataType(dict).to_python_type() is dict
    assert [repr(DataType.infer_dtype(one)) for one in (1, "a", [1], np.float32(1), object())] == [
        "DataType(arrow:int64)",
        "DataType(arrow:string)",
        "DataType(arrow:list<item: int64>)",
        "DataType(numpy:float32)",
        "DataType(python:object)",
    ]
    assert DataType.from_dtype("int8") == DataType.from_numpy("int8") != DataType.int8()
    assert DataType.from_dtype("unknown") is DataType.from_dtype(None) is None
    assert DataType.int32() == DataType.from_arrow(pa.int32()) != pa.int32()
    assert len({DataType.int32(), DataType.from_arrow(pa.int32())}) == 1


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: DataType("int"), TypeError, "not 'int'"),
        (lambda: DataType.from_arrow(None), TypeError, "not None"),
        (lambda: DataType.temporal("time"), ValueError, "one of timestamp, date32"),
        (lambda: DataType.temporal("time32", unit="us"), ValueError, "'s' or 'ms', not 'us'"),
        (lambda: DataType(int).to_arrow_dtype(), ValueError, "DataType.int64()"),
        (lambda: DataType.list(DataType(int)), TypeError, "DataType.int64()"),
        (lambda: DataType.int8().to_python_type(), ValueError, "is not a Python class"),
    ],
)
def test_what_is_not_a_type_is_refused(make: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        make()


def test_expressions_take_them(rd: Any) -> None:
    from ray.data.expressions import col, udf

    @udf(return_dtype=DataType(int))
    def twice(values: Any) -> list[int]:
        return [2 * one.as_py() for one in values]

    made = rd.range(3).with_column("text", col("id").cast(DataType.string()))
    made = made.with_column("small", col("id").cast(DataType.from_numpy("int8")))
    made = made.with_column("twice", twice(col("id")))
    assert made.take_all()[2] == {"id": 2, "text": "2", "small": 2, "twice": 4}
    assert made.schema().types == [pa.int64(), pa.string(), pa.int8(), pa.int64()]
    with pytest.raises(TypeError, match="several types of Arrow"):
        col("id").cast(DataType(int))


@pytest.mark.contract("F10.23")
def test_the_figures_of_executions_are_listed(rd: Any) -> None:
    context = rd.DataContext.get_current()
    before = len(rd.list_stats_summaries())
    rd.range(5).map(lambda row: row).materialize()
    context.enable_stats_summary_collection = True
    try:
        rd.range(10).map(lambda row: row).materialize()
        rd.range(20).map(lambda row: row).materialize()
    finally:
        context.enable_stats_summary_collection = False
    found = rd.list_stats_summaries()[before:]
    assert [one.operators_stats[-1].output_num_rows.sum for one in found] == [10, 20]
