"""Consumers that split a dataset, send it elsewhere, or write it and read it back."""

from __future__ import annotations

import random
from typing import Any

from .check import expect, rows_are, same
from .consumers import Consumer, consumer
from .known import Column, Known, Row, need
from .operator import Args
from .values import is_missing

ADDED_KEY = "folder key"
PARTS = "return [part.take_all() for part in parts]"


def _joined(found: list[list[Row]]) -> list[Row]:
    return [row for part in found for row in part]


@consumer("split")
class Split(Consumer):
    """Parts by blocks, or equal ones whose rest is left out."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        return {"parts": rng.randint(1, 4), "equal": rng.random() < 0.5}

    def lines(self, args: Args) -> list[str]:
        return [f"parts = ds.split({args['parts']}, equal={args['equal']})", PARTS]

    def check(self, args: Args, found: Any, known: Known) -> None:
        parts, rows = args["parts"], _joined(found)
        same(len(found), parts, what="parts")
        if not args["equal"]:
            rows_are(rows, known.unordered())
            return
        rows_are(rows, Known(known.columns, known.rows, some=True))
        if not known.some:
            same([len(p) for p in found], [len(known) // parts] * parts, what="rows of the parts")


@consumer("streaming_split")
class StreamingSplit(Split):
    """Parts that are consumed at the same time, in two epochs."""

    weight = 0.7

    def lines(self, args: Args) -> list[str]:
        return [
            f"parts = ds.streaming_split({args['parts']}, equal={args['equal']})",
            "def rows_of(part): return [row for _ in range(2) for row in [list(part.iter_rows())]]",
            f"with concurrent.futures.ThreadPoolExecutor({args['parts']}) as threads:",
            "    return list(threads.map(rows_of, parts))",
        ]

    def check(self, args: Args, found: Any, known: Known) -> None:
        for epoch in range(2):
            super().check(args, [part[epoch] for part in found], known)


@consumer("split_at_indices")
class SplitAtIndices(Consumer):
    """Parts that end at given rows."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(not known.some, "some rows only")
        count = rng.randint(1, 3)
        return {"ends": sorted(rng.randint(0, len(known) + 2) for _ in range(count))}

    def valid(self, args: Args, known: Known) -> None:
        need(not known.some, "some rows only")

    def call(self, args: Args) -> str:
        """The text of the call."""
        return f"split_at_indices({args['ends']})"

    def ends(self, args: Args, known: Known) -> list[int]:
        """Where parts end."""
        return [*(min(e, len(known)) for e in args["ends"]), len(known)]

    def lines(self, args: Args) -> list[str]:
        return [f"parts = ds.{self.call(args)}", PARTS]

    def check(self, args: Args, found: Any, known: Known) -> None:
        ends = self.ends(args, known)
        wanted = [b - a for a, b in zip([0, *ends], ends, strict=False)]
        same([len(p) for p in found], wanted, what="rows of the parts")
        rows_are(_joined(found), known)


@consumer("split_proportionately")
class SplitProportionately(SplitAtIndices):
    """Parts by fractions."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(len(known) >= 4 and not known.some, "few rows")
        return {"fractions": rng.choice([[0.5], [0.25, 0.25], [0.25, 0.5], [0.5, 0.1]])}

    def valid(self, args: Args, known: Known) -> None:
        need(len(known) >= 4 and not known.some, "few rows")

    def call(self, args: Args) -> str:
        return f"split_proportionately({args['fractions']})"

    def ends(self, args: Args, known: Known) -> list[int]:
        total, ends = 0.0, []
        for fraction in args["fractions"]:
            total += fraction
            ends.append(int(len(known) * total))
        for i in reversed(range(len(ends) - 1)):  # no part is empty
            ends[i] = min(ends[i], ends[i + 1] - 1)
        return [*ends, len(known)]


@consumer("train_test_split")
class TrainTestSplit(SplitAtIndices):
    """Two parts, shuffled or not."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(len(known) >= 2 and not known.some, "few rows")
        return {"size": rng.choice([0.25, 0.5, 1]), "shuffle": rng.random() < 0.4}

    def valid(self, args: Args, known: Known) -> None:
        need(len(known) >= 2 and not known.some, "few rows")

    def call(self, args: Args) -> str:
        return f"train_test_split({args['size']}, shuffle={args['shuffle']}, seed=1)"

    def ends(self, args: Args, known: Known) -> list[int]:
        size, count = args["size"], len(known)
        return [count - size if isinstance(size, int) else int(count * (1 - size)), count]

    def check(self, args: Args, found: Any, known: Known) -> None:
        super().check(args, found, known.unordered() if args["shuffle"] else known)


@consumer("in a task")
class InATask(Consumer):
    """The dataset is an argument of a task that consumes it."""

    weight = 0.7

    def lines(self, args: Args) -> list[str]:
        return ["return ray.get(ray.remote(lambda d: d.take_all()).options(num_cpus=0).remote(ds))"]


@consumer("iterator in a task")
class IteratorInATask(Consumer):
    """An iterator of the dataset is an argument of a task."""

    weight = 0.5

    def lines(self, args: Args) -> list[str]:
        return [
            "read = ray.remote(lambda it: list(it.iter_rows())).options(num_cpus=0)",
            "return ray.get(read.remote(ds.iterator()))",
        ]


@consumer("texts")
class Texts(Consumer):
    """repr, stats, explain and show fail for nothing."""

    def lines(self, args: Args) -> list[str]:
        return [
            "with contextlib.redirect_stdout(io.StringIO()) as out:",
            "    before, _ = repr(ds), ds.explain()",
            "    ds.show(3)",
            "done = ds.materialize()",
            "return [before, repr(done), done.stats(), out.getvalue()]",
        ]

    def check(self, args: Args, found: Any, known: Known) -> None:
        expect(all(isinstance(text, str) for text in found), f"no texts: {found}")
        if known.rows and known.columns and not known.some and len(known.columns) < 8:
            expect(next(iter(known.columns)) in found[1], f"columns are missing in {found[1]}")


# --- writing -----------------------------------------------------------------------------------------


class Write(Consumer):
    """Files that are read back by another library."""

    kinds: tuple[str, ...] = ()
    no_missing: tuple[str, ...] = ()
    min_rows = 1

    def draw(self, rng: random.Random, known: Known) -> Args:
        args = {"file_rows": rng.choice([None, None, 3]), "again": rng.random() < 0.5}
        names = [n for n in known.certain_names(*self.kinds) if self.holds(known, n)]
        need(names and len(names) < 20, "no columns for the format")
        args["names"] = names
        self.valid(args, known)
        return args

    def holds(self, known: Known, name: str) -> bool:
        """Whether the format keeps the column's values."""
        return known.columns[name].kind not in self.no_missing or not known.missing(name)

    def valid(self, args: Args, known: Known) -> None:
        need(len(known) >= self.min_rows and not known.some, "no rows")
        for name in args["names"]:
            known.column(name, *self.kinds)
            need(known.certain(name) and self.holds(known, name), "values change in the format")

    def selected(self, args: Args, known: Known) -> Known:
        """The answer with the columns that are written; files are read in any order."""
        rows = [{n: row[n] for n in args["names"]} for row in known.rows]
        return known.derive(rows, {n: known.columns[n] for n in args["names"]}).unordered()

    def lines(self, args: Args) -> list[str]:
        more = f", min_rows_per_file={args['file_rows']}" if args["file_rows"] else ""
        made = [
            f"ds = ds.select_columns({args['names']!r})",
            f"ds.{self.call(args)}{more})",
        ]
        if args["again"]:
            return [*made, f"return ray.data.{self.reader}(folder + '/out').take_all()"]
        return [*made, "paths = sorted(glob.glob(folder + '/out/*'))", f"return {self.read}"]

    reader = read = ""

    def call(self, args: Args) -> str:
        """The call that writes, without its last parenthesis."""
        raise NotImplementedError


@consumer("write_parquet")
class WriteParquet(Write):
    """Parquet keeps every type."""

    weight = 1.5
    kinds = (
        "int",
        "big",
        "float",
        "str",
        "bool",
        "ts",
        "date",
        "bytes",
        "list",
        "struct",
        "deep",
        "decimal",
    )
    reader = "read_parquet"
    read = "[row for p in paths for row in pq.read_table(p).to_pylist()]"

    def call(self, args: Args) -> str:
        return "write_parquet(folder + '/out'"

    def check(self, args: Args, found: Any, known: Known) -> None:
        rows_are(found, self.selected(args, known))


@consumer("write_parquet (partitioned)")
class WritePartitioned(WriteParquet):
    """A folder for each value of a column, which is added where no column can name folders."""

    weight = 0.7
    kinds = ("int", "float", "str", "bool", "ts")

    def draw(self, rng: random.Random, known: Known) -> Args:
        args = super().draw(rng, known)
        need(ADDED_KEY not in known.columns, "the name of the key")
        keys = [n for n in args["names"] if self.is_key(known, n)] if len(args["names"]) > 1 else []
        return {**args, "key": rng.choice(keys) if keys else ADDED_KEY, "again": True}

    def is_key(self, known: Known, name: str) -> bool:
        """Whether the values can be names of folders, and come back as texts."""
        return known.columns[name].kind == "str" and all(
            isinstance(r[name], str) and r[name].isalpha() and r[name].isascii() for r in known.rows
        )

    def valid(self, args: Args, known: Known) -> None:
        super().valid(args, known)
        key = args.get("key", ADDED_KEY)
        need(key == ADDED_KEY or self.is_key(known, key), "no key")

    def selected(self, args: Args, known: Known) -> Known:
        known = super().selected(args, known)
        if args["key"] != ADDED_KEY:
            return known
        rows = [{**row, ADDED_KEY: "p"} for row in known.rows]
        return known.derive(rows, {**known.columns, ADDED_KEY: Column("str")})

    def lines(self, args: Args) -> list[str]:
        if args["key"] != ADDED_KEY:
            return super().lines(args)
        select, *rest = super().lines(args)
        return [select, f'ds = ds.with_column("{ADDED_KEY}", lit("p"))', *rest]

    def call(self, args: Args) -> str:
        return f"write_parquet(folder + '/out', partition_cols=[{args['key']!r}]"


@consumer("write_csv")
class WriteCsv(Write):
    """CSV: numbers and truth values."""

    kinds = ("int", "float", "bool")
    no_missing = ("bool",)
    reader = "read_csv"
    read = "[row for p in paths for row in pd.read_csv(p).to_dict('records')]"

    def holds(self, known: Known, name: str) -> bool:
        return super().holds(known, name) and any(r[name] is not None for r in known.rows)

    def valid(self, args: Args, known: Known) -> None:
        super().valid(args, known)
        alone = len(args["names"]) == 1 and known.missing(args["names"][0])
        need(not alone, "a missing value of an only column is an empty line, which readers skip")

    def call(self, args: Args) -> str:
        return "write_csv(folder + '/out'"

    def check(self, args: Args, found: Any, known: Known) -> None:
        rows_are(found, self.selected(args, known), texts=True)


@consumer("write_json")
class WriteJson(Write):
    """JSON lines."""

    kinds = ("int", "str", "bool", "float")
    no_missing = ("int", "bool")
    reader = "read_json"
    read = "[json.loads(line) for p in paths for line in open(p)]"

    def holds(self, known: Known, name: str) -> bool:
        infinite = any(r[name] in (float("inf"), float("-inf")) for r in known.rows)
        return super().holds(known, name) and not infinite

    def call(self, args: Args) -> str:
        return "write_json(folder + '/out'"

    def check(self, args: Args, found: Any, known: Known) -> None:
        rows_are(found, self.selected(args, known), texts=True)


@consumer("write_numpy")
class WriteNumpy(Write):
    """Files of arrays of one column."""

    kinds = ("int", "big", "float", "bool", "tensor")
    reader = "read_numpy"
    read = "[{'data': v} for p in paths for v in np.load(p)]"

    def holds(self, known: Known, name: str) -> bool:
        return not any(is_missing(r[name]) for r in known.rows)

    def draw(self, rng: random.Random, known: Known) -> Args:
        args = super().draw(rng, known)
        return {**args, "names": [rng.choice(args["names"])]}

    def call(self, args: Args) -> str:
        return f"write_numpy(folder + '/out', column={args['names'][0]!r}"

    def check(self, args: Args, found: Any, known: Known) -> None:
        name = args["names"][0]
        rows = [{"data": row[name]} for row in known.rows]
        rows_are(found, known.derive(rows, {"data": known.columns[name]}).unordered(), loose=True)
