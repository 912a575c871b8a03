"""Blocks: pyarrow tables, what goes in and out of them, and the few operations the rest needs.

Batches and rows are what users see of a block: a dict of arrays, a DataFrame, a table, or dicts.
"""

from __future__ import annotations

import contextlib
import copyreg
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from heliostat.data import frames, missing, tensors
from heliostat.data.context import DataContext

if TYPE_CHECKING:
    from heliostat.data.aliases import Batch, Function, Row, Value


FORMATS = ("pandas", "pyarrow", "numpy", None)
ITEM = "item"  # the column of values that are not dicts
DATA = "data"  # the column of arrays
ROWS_AT_ONCE = 4096  # rows that are collected into a table


_OF_ACCESSOR = (
    "AggType",
    "BatchColumn",
    "BatchFormat",
    "Block",
    "BlockAccessor",
    "BlockColumn",
    "BlockColumnAccessor",
    "BlockType",
    "CallableClass",
    "DataBatch",
    "DataBatchColumn",
    "KeyType",
    "Schema",
    "T",
    "U",
    "UserDefinedFunction",
)


def __getattr__(name: str) -> object:
    """Names that programs import from here, of a module that builds on this one."""
    if name not in _OF_ACCESSOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from heliostat.data import accessor

    return getattr(accessor, name)


@dataclass
class BlockMetadata:
    """The facts about a block that are known without reading it. Times are of the task that made
    it, in seconds.

    Attributes:
        num_rows: Rows; of a read that is yet to come: ``None`` if unknown.
        size_bytes: Bytes in memory, likewise.
        schema: Its ``pyarrow.Schema``.
        input_files: The files that it was read from.
        exec_stats: What ``get_metadata`` was given.
        wall_s: How long it took.
        cpu_s: CPU time.
        udf_s: In functions of the program.
        prep_s: Of ``wall_s``, until its inputs were there.
        held_s: Until the block before it was stored and wanted.
        own_bytes: Memory of the process that it shares with nobody.
        node: Where it was made.

    Examples:
        >>> from ray.data.block import BlockMetadata
        >>> known = BlockMetadata(num_rows=10, size_bytes=80, input_files=["a.csv"])
        >>> known.num_rows
        10
    """

    num_rows: Any  # of a read that is yet to come: None if unknown
    size_bytes: Any
    schema: pa.Schema | None = None
    input_files: list[str] | None = None
    exec_stats: object = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    udf_s: float = 0.0
    prep_s: float = 0.0  # of `wall_s`, until its inputs were there
    held_s: float = 0.0  # until the block before it was stored and wanted
    own_bytes: int = 0  # memory of the process that it shares with nobody
    node: str = ""


def metadata(table: pa.Table) -> BlockMetadata:
    """Rows, bytes and schema of a table."""
    return BlockMetadata(table.num_rows, table.nbytes, table.schema)


# --- making blocks ---------------------------------------------------------------------------------


def from_batch(batch: Batch | Mapping[str, Value], source: str = "the function") -> pa.Table:
    """A table of what a function returned for a batch.

    Raises:
        ValueError: It is not a batch, or its columns differ in length.
    """
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, Mapping):
        return _from_columns(batch, source)
    if type(batch).__name__ == "DataFrame" and hasattr(batch, "dtypes"):
        return frames.from_pandas(batch)
    raise ValueError(
        f"{source} returned {type(batch)} for a batch; it must return a dict of arrays, a "
        "pandas.DataFrame or a pyarrow.Table."
    )


def check_names(names: Iterable[object]) -> None:
    """Refuse columns whose names are not text.

    Raises:
        ValueError: There is one.
    """
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise ValueError(
            f"the names of columns must be strings, not {wrong[:5]!r}: rename them, such as with "
            "`frame.columns = frame.columns.map(str)`."
        )


def _from_columns(batch: Mapping[str, Value], source: str) -> pa.Table:
    check_names(batch)
    columns = {name: _column(name, values, source) for name, values in batch.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{source} returned columns of different lengths: {lengths}.")
    return pa.table(columns)


def _column(name: str, values: Value, source: str) -> pa.Array:
    if isinstance(values, np.ndarray):
        if values.ndim:
            return tensors.from_numpy(values)
    elif isinstance(values, list | tuple):
        return tensors.from_list(list(values))
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    elif hasattr(values, "detach") and hasattr(values, "numpy"):  # a torch tensor
        return tensors.from_numpy(np.asarray(values.detach().cpu()))
    elif hasattr(values, "__array__") and not isinstance(values, str | bytes | np.generic):
        return tensors.from_numpy(np.asarray(values))
    raise ValueError(
        f"{source} returned {type(values)} as column {name!r}; a column is an array or a list with "
        "one value per row."
    )


def from_rows(rows: list[Value]) -> pa.Table:
    """A table of dicts; a key that a row lacks is null there. Other values are the column "item"."""
    if not rows:
        return pa.table({})
    if are_dicts(rows):
        return _from_dicts(rows)
    return pa.table({ITEM: tensors.from_list(rows)})


def _from_dicts(rows: list[Row]) -> pa.Table:
    names, columns = list(rows[0]), None
    check_names(names)
    if len(set(map(len, rows))) == 1:
        with contextlib.suppress(KeyError):  # as many keys, but others
            columns = {name: list(map(itemgetter(name), rows)) for name in names}
    if columns is None:
        names = list(dict.fromkeys(name for row in rows for name in row))
        check_names(names)
        columns = {name: [row.get(name) for row in rows] for name in names}
    made = {name: tensors.from_list(values) for name, values in columns.items()}
    return pa.table(made) if made else no_columns(len(rows))


class Filled:
    """Rows as a list of values for each name, which are filled and become a table."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.lists: list[list[Value]] = [[] for _ in names]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.lists[0]) if self.lists else 0

    def table(self) -> pa.Table:
        """Their table; the lists are empty then."""
        named = zip(self.names, self.lists, strict=True)
        made = pa.table({name: tensors.from_list(values) for name, values in named})
        for values in self.lists:
            values.clear()
        return made


def names_of_all(rows: list[Row]) -> tuple[str, ...]:
    """The keys that all rows have, if they are dicts and none has others; else nothing."""
    names = tuple(rows[0])
    is_same = set(map(type, rows)) == {dict} and all(row.keys() == rows[0].keys() for row in rows)
    return names if is_same else ()


def are_dicts(rows: list[Value]) -> bool:
    """Whether all rows are dicts, or other mappings."""
    return set(map(type, rows)) == {dict} or all(isinstance(row, Mapping) for row in rows)


def tables_of(rows: Iterable[Value]) -> Iterator[pa.Table]:
    """Tables of rows, a few thousand each."""
    left = iter(rows)
    while held := list(islice(left, ROWS_AT_ONCE)):
        yield from_rows(held)


def tables_of_dicts(lists: Iterable[list[Row]]) -> Iterator[pa.Table]:
    """Tables of a few thousand dicts or more, given in lists of any length."""
    held: list[Row] = []
    for some in lists:
        held = held + some if held else some
        if len(held) >= ROWS_AT_ONCE:
            yield _from_dicts(held)
            held = []
    if held:
        yield _from_dicts(held)


def no_columns(rows: int) -> pa.Table:
    """A table of rows without columns, which only pyarrow's slicing and selecting can make."""
    return pa.table({"_": pa.nulls(rows)}).select([])


def _reduced(table: pa.Table) -> tuple[Function, tuple[object, ...]]:
    # pyarrow's own way forgets how many rows a table without columns has.
    return table.__reduce__() if table.num_columns else (no_columns, (table.num_rows,))


copyreg.pickle(pa.Table, _reduced)


# --- reading blocks --------------------------------------------------------------------------------


def check_format(batch_format: str | None) -> None:
    """Raise ``ValueError`` for a name that is not a batch format."""
    if batch_format not in ("default", "torch", *FORMATS):
        raise ValueError(
            f"The given batch format {batch_format} isn't allowed (must be one of {list(FORMATS)})."
        )


def to_batch(
    table: pa.Table, batch_format: str | None, context: DataContext | None = None
) -> Batch:
    """The table as users want it: "numpy" (and "default"), "pandas", "pyarrow" (and None).

    The settings are those of the dataset. Default: those of this process.
    """
    if batch_format in ("default", "numpy"):
        return to_numpy(table)
    if batch_format == "pandas":
        return frames.to_pandas(table, context)
    return frames.without_marks(table)


def to_numpy(table: pa.Table) -> dict[str, np.ndarray]:
    """Columns as arrays."""
    return {n: tensors.to_numpy(c) for n, c in zip(table.column_names, table.columns, strict=True)}


def has_arrays(table: pa.Table) -> bool:
    """Whether :func:`to_numpy` gives its own memory: numbers, or tensors of them, without nulls."""
    return all(tensors.is_array(c.type) and not c.null_count for c in table.columns)


def named(columns: Mapping[str, Value], name: str) -> pa.ChunkedArray:
    """Return the column of that name.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in columns:
        raise ValueError(missing.no_columns([name], list(columns)))
    return columns[name]


def rows(table: pa.Table) -> Iterator[Row]:
    """Yield a dict of Python values for each row."""
    for some in rows_at_once(table):
        yield from some


def rows_at_once(table: pa.Table) -> Iterator[list[Row]]:
    """Lists of some thousand rows: all of a block's at the same time would keep Python's garbage
    collector busy.
    """
    for names, columns, count in columns_at_once(table):
        if len(names) == 1:
            name = names[0]
            yield [{name: value} for value in columns[0]]
        elif names:
            yield [dict(zip(names, values)) for values in zip(*columns)]  # noqa: B905 # as long
        else:
            yield [{} for _ in range(count)]


def columns_at_once(
    table: pa.Table,
) -> Iterator[tuple[tuple[str, ...], list[list[Value]], int]]:
    """Names, columns as lists, and the number of rows, some thousand rows at a time."""
    names = tuple(table.column_names)
    columns = [tensors.lists(column, ROWS_AT_ONCE) for column in table.columns]
    for at in range(0, table.num_rows, ROWS_AT_ONCE):
        yield names, [next(some) for some in columns], min(ROWS_AT_ONCE, table.num_rows - at)


# --- joining and cutting ---------------------------------------------------------------------------


def concat(tables: list[pa.Table]) -> pa.Table:
    """Join tables into one; columns that a table lacks are null, types are widened."""
    if len(tables) == 1:
        return tables[0]
    full = [t for t in tables if t.num_columns or t.num_rows]
    if not full:
        return tables[0] if tables else pa.table({})
    first = full[0].schema
    if all(t.schema.equals(first) for t in full):
        return pa.concat_tables(full)
    return pa.concat_tables(_alike(full), promote_options="permissive")


def _alike(several: list[pa.Table]) -> list[pa.Table]:
    """The tables, with columns whose types only we know how to join changed to a common one."""
    kinds: dict[str, set[pa.DataType]] = {}
    for table in several:
        for f in table.schema:
            kinds.setdefault(f.name, set()).add(f.type)
    for name, types in kinds.items():
        types.discard(pa.null())
        if len(types) < 2:
            continue
        if all(tensors.is_tensor(t) for t in types):
            change = tensors.to_common(types)
        elif _fits(types):
            continue
        elif _fits({_decoded_type(t) for t in types}):
            change = decoded
        else:
            change = lambda column: tensors.from_objects(tensors.to_list(column))  # noqa: E731 - beside two functions with names
        several = [_replaced(table, name, change) for table in several]
    return several


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column's values themselves, if they are numbers of a dictionary, as pandas' categories are."""
    return (
        column.cast(_decoded_type(column.type)) if pa.types.is_dictionary(column.type) else column
    )


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decoded_table(table: pa.Table) -> pa.Table:
    """The table without dictionaries, which most of pyarrow's functions do not take as keys."""
    if not any(map(pa.types.is_dictionary, table.schema.types)):
        return table
    return pa.table([decoded(c) for c in table.columns], names=table.column_names)


def _fits(types: set[pa.DataType]) -> bool:
    try:
        pa.unify_schemas([pa.schema([("c", t)]) for t in types], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def _replaced(table: pa.Table, name: str, change: Callable[[pa.Array], pa.Array]) -> pa.Table:
    index = table.schema.get_field_index(name)
    if index < 0 or pa.types.is_null(table.schema.field(index).type):
        return table
    column = table.column(index)
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return table.set_column(index, name, change(whole))


def unify(schemas: list[pa.Schema]) -> pa.Schema | None:
    """The schema of a concatenation; None of none."""
    known = [s for s in schemas if s is not None and len(s)]
    if not known:
        return schemas[0] if schemas else None
    if all(s.equals(known[0]) for s in known):
        return known[0]
    return concat([s.empty_table() for s in known]).schema


def compact(table: pa.Table) -> pa.Table:
    """The table, in memory of its own if it shows only a part of its buffers.

    Serializing a slice would otherwise carry everything that it was cut from, and a column in pieces of the
    same buffer, such as pyarrow's groups and joins give, would carry it once for each piece.
    """
    most = table.nbytes * 1.1 + 4096
    if _serialized_bytes(table) <= most:
        return table
    table = joined(table)
    if _serialized_bytes(table) <= most:
        return table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _serialized_bytes(table: pa.Table) -> int:
    """Bytes of the buffers of all pieces; one that several have is counted for each."""
    return sum(chunk.get_total_buffer_size() for c in table.columns for chunk in c.chunks)


def joined(table: pa.Table) -> pa.Table:
    """The table with each column in one piece, so that arrays of it need no copy."""
    if all(c.num_chunks <= 1 for c in table.columns):
        return table
    return table.combine_chunks()


def take(table: pa.Table, indices: pa.Array) -> pa.Table:
    """The rows at ``indices``, an array of integers, in that order."""
    table = joined(table)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if isinstance(column.type, pa.FixedShapeTensorType) and not column.null_count:
            # numpy copies rows as a whole, pyarrow element by element
            places = np.asarray(indices, np.intp)  # unsigned ones not every release of numpy takes
            columns[name] = tensors.from_numpy(tensors.to_numpy(column).take(places, axis=0))
        elif isinstance(column.type, pa.BaseExtensionType):
            stored = pa.chunked_array([c.storage for c in column.chunks], column.type.storage_type)
            picked = stored.take(pa.array(indices))
            whole = picked.combine_chunks()
            columns[name] = pa.ExtensionArray.from_storage(column.type, whole)
        else:
            columns[name] = column.take(pa.array(indices))
    return pa.table(columns) if columns else table.slice(0, len(indices))


def take_or_null(column: pa.ChunkedArray, indices: pa.Array) -> pa.Array:
    """The column's rows at ``indices``, a pyarrow array; null where the index is."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column.take(indices)
    if not indices.null_count:
        return take(pa.table({"": column}), indices.to_numpy()).column(0)
    values = tensors.to_list(column)
    return tensors.from_list([None if i is None else values[i] for i in indices.to_pylist()])


def with_columns(table: pa.Table, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
    """The table with columns added or replaced."""
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, column) if at >= 0 else table.append_column(name, column)
    return table
