"""Consumers: every way to get at a dataset's rows, and how their result is checked."""

from __future__ import annotations

import random
from typing import Any

from .batches import rows_of, sizes_are, without_opaque
from .check import expect, rows_are, same
from .groups import (
    METHODS,
    aggregated,
    aggregation_text,
    check_aggregation,
    draw_aggregation,
    result_name,
)
from .known import Known, need
from .operator import Args
from .values import freeze

FORMATS = ("numpy", "pandas", "pyarrow")


class Consumer:
    """One way to consume a dataset."""

    weight = 1.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        """Random arguments; raises Inapplicable if there are none."""
        return {}

    def lines(self, args: Args) -> list[str]:
        """Statements of a function that returns what was found in ``ds``."""
        raise NotImplementedError

    def check(self, args: Args, found: Any, known: Known) -> None:
        """Raise Mismatch unless it is the answer."""
        rows_are(found, known)

    def valid(self, args: Args, known: Known) -> None:
        """Raise Inapplicable where it does not fit the dataset."""


CONSUMERS: dict[str, Consumer] = {}


def consumer(name: str) -> Any:
    """Register a class as the consumer of that name."""

    def add(kind: type[Consumer]) -> type[Consumer]:
        CONSUMERS[name] = kind()
        return kind

    return add


@consumer("take_all")
class TakeAll(Consumer):
    """All rows as a list."""

    weight = 5.0

    def lines(self, args: Args) -> list[str]:
        return ["return ds.take_all()"]


@consumer("iter_rows")
class IterRows(Consumer):
    """Rows one by one, twice."""

    def lines(self, args: Args) -> list[str]:
        return ["rows = ds.iter_rows()", "return [list(rows), list(rows)]"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        for rows in found:
            rows_are(rows, known.unordered())
        rows_are(found[0], known)


@consumer("take")
class Take(Consumer):
    """The first rows."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(not known.some, "some rows only")
        ends = [i for i in range(1, len(known)) if known.ranks[i - 1] != known.ranks[i]]
        return {"count": rng.choice([len(known) + 1, *ends])}

    def valid(self, args: Args, known: Known) -> None:
        known.first(args["count"])

    def lines(self, args: Args) -> list[str]:
        return [f"return ds.take({args['count']})"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        rows_are(found, known.first(args["count"]))


@consumer("take_batch")
class TakeBatch(Take):
    """The first rows as one batch."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(len(known) and known.columns, "no rows")
        return {**super().draw(rng, known), "format": rng.choice(FORMATS)}

    def valid(self, args: Args, known: Known) -> None:
        super().valid(args, known)
        need(len(known) and known.columns, "no rows")

    def lines(self, args: Args) -> list[str]:
        return [f'return ds.take_batch({args["count"]}, batch_format="{args["format"]}")']

    def check(self, args: Args, found: Any, known: Known) -> None:
        known = known.first(args["count"])
        table = args["format"] == "pyarrow"
        rows_are(rows_of(found, known), without_opaque(known) if table else known, loose=not table)


@consumer("iter_batches")
class IterBatches(Consumer):
    """Batches of each format and size."""

    weight = 5.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        return {
            "format": rng.choice(FORMATS),
            "size": rng.choice([None, 1, 3, 7, 256]),
            "drop_last": rng.random() < 0.15,
            "prefetch": rng.choice([0, 1, 4]),
            "shuffle": rng.choice([None, None, None, 5]),
            "iterator": rng.random() < 0.3,
        }

    def valid(self, args: Args, known: Known) -> None:
        need(known.columns, "no columns")

    def lines(self, args: Args) -> list[str]:
        size = args["size"]
        if args["shuffle"] and size is None:
            size = 2
        given = [f'batch_format="{args["format"]}"', f"batch_size={size}"]
        if args["drop_last"]:
            given.append("drop_last=True")
        if args["shuffle"]:
            given.append("local_shuffle_buffer_size=5, local_shuffle_seed=1")
        given.append(f"prefetch_batches={args['prefetch']}")
        maker = "ds.iterator()" if args["iterator"] else "ds"
        return [f"return list({maker}.iter_batches({', '.join(given)}))"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        size = 2 if args["shuffle"] and args["size"] is None else args["size"]
        rows = [row for batch in found for row in rows_of(batch, known)]
        if not known.some:
            sizes_are(found, size, len(known), args["drop_last"])
        table = args["format"] == "pyarrow"
        wanted = without_opaque(known) if table else known
        if args["shuffle"]:
            wanted = wanted.unordered()
        if args["drop_last"] and size and not known.some and len(known) % size:
            ordered = wanted.total_order
            kept = len(known) // size * size
            wanted = (
                wanted.first(kept) if ordered else Known(wanted.columns, wanted.rows, some=True)
            )
        rows_are(rows, wanted, loose=not table)


@consumer("iter_torch_batches")
class IterTorchBatches(Consumer):
    """Tensors of the columns that have numbers."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        names = [n for n in known.names("int", "float", "bool", "tensor") if self.fits(known, n)]
        need(names, "no column for tensors")
        return {"names": names[:5], "size": rng.choice([None, 1, 3, 256])}

    def valid(self, args: Args, known: Known) -> None:
        for name in args["names"]:
            known.column(name, "int", "float", "bool", "tensor")
            need(self.fits(known, name), "missing values")

    def fits(self, known: Known, name: str) -> bool:
        """Whether torch has tensors for the column."""
        column = known.columns[name]
        return not known.missing(name) and (column.kind != "tensor" or column.exact)

    def lines(self, args: Args) -> list[str]:
        return [
            f"ds = ds.select_columns({args['names']!r})",
            (
                "return [{k: v.numpy() for k, v in b.items()} "
                f"for b in ds.iter_torch_batches(batch_size={args['size']})]"
            ),
        ]

    def check(self, args: Args, found: Any, known: Known) -> None:
        names = args["names"]
        rows = [{n: row[n] for n in names} for row in known.rows]
        wanted = known.derive(rows, {n: known.columns[n] for n in names})
        rows_are([row for batch in found for row in rows_of(batch)], wanted, loose=True)
        if not known.some:
            sizes_are(found, args["size"], len(known), False)


@consumer("to_pandas")
class ToPandas(Consumer):
    """One DataFrame."""

    weight = 3.0

    def lines(self, args: Args) -> list[str]:
        return ["return ds.to_pandas()"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        if len(found):
            rows_are(rows_of(found), known, loose=True)
        else:
            expect(known.some or not len(known), f"no rows, expected {len(known)}")


@consumer("refs")
class Refs(Consumer):
    """References to blocks in each format."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        return {"method": rng.choice(["to_arrow_refs", "to_pandas_refs", "to_numpy_refs"])}

    def lines(self, args: Args) -> list[str]:
        return [f"return ray.get(ds.{args['method']}())"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        table = args["method"] == "to_arrow_refs"
        rows = [row for batch in found for row in rows_of(batch, known)]
        rows_are(rows, without_opaque(known) if table else known, loose=not table)


@consumer("count")
class Count(Consumer):
    """The number of rows, asked for before and after execution."""

    weight = 2.0

    def lines(self, args: Args) -> list[str]:
        return ["return [ds.count(), ds.materialize().count()]"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        if not known.some:
            same(found, [len(known)] * 2, what="count")


TYPES = {"int": "int64", "float": "double", "str": "string", "bool": "bool", "bytes": "binary"}


@consumer("schema")
class SchemaNames(Consumer):
    """Names of the columns, and types of those that have values."""

    weight = 2.0

    def lines(self, args: Args) -> list[str]:
        return [
            "schema = ds.schema()",
            "return [schema and schema.names, schema and schema.types, ds.columns()]",
        ]

    def check(self, args: Args, found: Any, known: Known) -> None:
        names, types, columns = found
        if not known.rows or known.some:
            return
        same(list(names), list(known.columns), what="names of the schema")
        same(list(columns), list(known.columns), what="columns()")
        for name, kind in zip(names, types, strict=True):
            column = known.columns[name]
            present = all(row.get(name) is not None for row in known.rows)
            if column.exact and present and column.kind in TYPES:
                text = str(kind).removeprefix("DataType(").removesuffix(")").removeprefix("large_")
                wanted = TYPES[column.kind]
                expect(text in (wanted, "int32"), f"type of {name}: expected {wanted}, got {kind}")


@consumer("materialize")
class MaterializeTwice(Consumer):
    """Blocks that are read several times."""

    def lines(self, args: Args) -> list[str]:
        return [
            "ds = ds.materialize()",
            (
                "return [ds.take_all(), ds.count(), ds.num_blocks() > 0 or ds.count() == 0, "
                "ds.size_bytes() >= 0, repr(ds)]"
            ),
        ]

    def check(self, args: Args, found: Any, known: Known) -> None:
        rows, count, blocks, size, _ = found
        rows_are(rows, known)
        same([count, blocks, size], [len(rows), True, True], what="count, blocks, size")


@consumer("aggregate")
class AggregateAll(Consumer):
    """Aggregations of all rows."""

    weight = 3.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns and not known.some, "some rows only")
        made = draw_aggregation(rng, known, [])
        if made[0] in METHODS and rng.random() < 0.7:
            return {"made": [made], "method": True}
        more = [draw_aggregation(rng, known, []) for _ in range(rng.choice([0, 0, 1, 2]))]
        return {"made": list({result_name(a): a for a in [made, *more]}.values()), "method": False}

    def valid(self, args: Args, known: Known) -> None:
        need(known.columns and not known.some, "some rows only")
        for made in args["made"]:
            check_aggregation(made, known)
            need(made[0] != "AsList" or known.total_order, "order of the list is not certain")

    def lines(self, args: Args) -> list[str]:
        if args["method"]:
            name, column, ignore = args["made"][0]
            return [f"return ds.{METHODS[name]}({column!r}, ignore_nulls={ignore})"]
        return [f"return ds.aggregate({', '.join(map(aggregation_text, args['made']))})"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        wanted = {result_name(a): aggregated(a, known.rows) for a in args["made"]}
        if args["method"]:
            name, (value,) = args["made"][0][0], wanted.values()
            same(found, value, exact=False, what=name)
            return
        expect(isinstance(found, dict), f"no dict: {found}")
        if known.rows:
            same(found, wanted, exact=False, what="aggregate")


@consumer("unique")
class Unique(Consumer):
    """The different values of a column."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        names = known.certain_names("int", "big", "float", "str", "bool")
        need(names and not known.some, "no column")
        return {"column": rng.choice(names), "ignore": rng.random() < 0.4}

    def valid(self, args: Args, known: Known) -> None:
        known.column(args["column"], "int", "big", "float", "str", "bool")
        need(known.certain(args["column"]) and not known.some, "values are not certain")

    def lines(self, args: Args) -> list[str]:
        return [f"return ds.unique({args['column']!r}, ignore_nulls={args['ignore']})"]

    def check(self, args: Args, found: Any, known: Known) -> None:
        values = [row[args["column"]] for row in known.rows]
        if args["ignore"]:
            values = [v for v in values if v is not None]
        wanted = {freeze(v): v for v in values}
        expect(
            sorted(map(str, map(freeze, found))) == sorted(map(str, wanted)),
            f"unique: expected {list(wanted.values())}, got {found}",
        )
