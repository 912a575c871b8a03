"""Sources that are files: the plan writes them with other libraries and reads them as datasets."""

from __future__ import annotations

import random
from typing import Any

from .known import Column, Known, Row
from .sources import ARROW_TYPES, MAKERS, Maker, Source, _arrow_types, array_text, arrow_table
from .values import is_missing, literal


def _paths(source: Source, name: str) -> str:
    """What is read: the folder, or the list of its files."""
    if source.options.get("list"):
        return f"sorted(glob.glob(folder + '/{name}/*'))"
    return f"folder + '/{name}'"


class Files(Maker):
    """A folder of files, one a part of the layout."""

    min_rows = 1
    empty_parts = False
    reader = ""

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        return {"list": rng.random() < 0.3, "blocks": rng.choice([None, None, 1, 7])}

    def lines(self, source: Source, target: str) -> list[str]:
        name = f"{target}_in"
        made = [f"os.makedirs(folder + '/{name}')"]
        for number, part in enumerate(source.parts):
            made += self.file(source, part, f"folder + '/{name}/{number:03}{self.ending}'")
        blocks = source.options.get("blocks")
        more = f", override_num_blocks={blocks}" if blocks else ""
        return [*made, f"{target} = ray.data.{self.reader}({_paths(source, name)}{more})"]

    ending = ""

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        """The statements that write one file."""
        raise NotImplementedError


class ReadParquet(Files):
    """Parquet, also in folders named for the values of a column."""

    weight = 4
    allowed = tuple(ARROW_TYPES)
    reader, ending = "read_parquet", ".parquet"
    empty_parts = True

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        return {
            **super().options(rng, kinds),
            "types": _arrow_types(rng, kinds),
            "groups": rng.choice([None, None, 1, 3]),
        }

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        groups = source.options.get("groups")
        more = f", row_group_size={groups}" if groups and rows else ""
        return [f"pq.write_table({arrow_table(source, rows)}, {path}{more})"]


class ReadPartitioned(Maker):
    """Parquet files in folders such as ``part=x``; the column comes last, in the folders' order."""

    weight = 1
    allowed = ("int", "float", "str", "ts", "list")
    min_rows = 1

    def draw(self, name: str, rng: random.Random) -> Source:
        source = super().draw(name, rng)
        source.kinds["part"] = "str"
        for row in source.rows:
            row["part"] = rng.choice(["x", "y", "zz"])
        return source

    def known(self, source: Source) -> Known:
        rows = sorted(source.rows, key=lambda row: str(row["part"]))
        return Known({n: Column(k) for n, k in source.kinds.items()}, rows)

    def lines(self, source: Source, target: str) -> list[str]:
        made = []
        for part in sorted({row["part"] for row in source.rows}):
            rows = [row for row in source.rows if row["part"] == part]
            folder = f"folder + '/{target}_in/part={part}'"
            made.append(f"os.makedirs({folder})")
            made.append(
                f"pq.write_table({arrow_table(source, rows, 'part')}, {folder} + '/0.parquet')"
            )
        return [*made, f"{target} = ray.data.read_parquet(folder + '/{target}_in')"]


class ReadCsv(Files):
    """CSV: types are found by looking at the text."""

    weight = 2
    allowed = ("int", "float", "str", "bool", "ts")
    no_nulls = ("str",)
    reader, ending = "read_csv", ".csv"

    def fix(self, kind: str, value: Any) -> Any:
        if kind == "str":
            return "s" + str(value).replace("\n", " ")
        if kind == "ts" and value is not None:
            return value.replace(microsecond=0)
        return None if is_missing(value) else value

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        text = {True: "true", False: "false", None: ""}
        lines = [
            [text[v] if v is None or isinstance(v, bool) else str(v) for v in row.values()]
            for row in rows
        ]
        table = literal([list(source.kinds), *lines])
        return [f"with open({path}, 'w', newline='') as out: csv.writer(out).writerows({table})"]


class ReadJson(Files):
    """JSON lines."""

    weight = 2
    allowed = ("int", "float", "str", "bool", "list", "struct")
    reader, ending = "read_json", ".jsonl"

    def fix(self, kind: str, value: Any) -> Any:
        if kind == "float" and (is_missing(value) or abs(value) == float("inf")):
            return None
        return value

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        return [
            (
                f"with open({path}, 'w') as out: "
                f"out.writelines(json.dumps(r) + '\\n' for r in {literal(rows)})"
            )
        ]


class ReadText(Files):
    """Lines of text; empty ones are left out."""

    weight = 1
    allowed = ("str",)
    no_nulls = ("str",)
    fixed_columns = {"text": "str"}  # noqa: RUF012
    reader, ending = "read_text", ".txt"

    def fix(self, kind: str, value: Any) -> Any:
        return str(value).replace("\n", " ")

    def known(self, source: Source) -> Known:
        return Known({"text": Column("str")}, [row for row in source.rows if row["text"]])

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        lines = [row["text"] + "\n" for row in rows]
        return [f"with open({path}, 'w') as out: out.writelines({literal(lines)})"]


class ReadBinary(Files):
    """Whole files as bytes."""

    weight = 1
    allowed = ("bytes",)
    no_nulls = ("bytes",)
    fixed_columns = {"bytes": "bytes"}  # noqa: RUF012
    reader, ending = "read_binary_files", ".bin"

    def draw(self, name: str, rng: random.Random) -> Source:
        source = super().draw(name, rng)
        rows = source.rows[:6]
        return Source(name, source.kinds, rows, [1] * len(rows), source.options)

    def lines(self, source: Source, target: str) -> list[str]:
        one_a_file = Source(
            source.name, source.kinds, source.rows, [1] * len(source.rows), source.options
        )
        return super().lines(one_a_file, target)

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        return [f"with open({path}, 'wb') as out: out.write({rows[0]['bytes']!r})"]


class ReadNumpy(Files):
    """Files of arrays: the column "data"."""

    weight = 1
    allowed = ("int", "big", "float", "bool", "tensor")
    no_nulls = allowed
    fixed_columns = {"data": ""}  # noqa: RUF012
    reader, ending = "read_numpy", ".npy"

    def file(self, source: Source, rows: list[Row], path: str) -> list[str]:
        return [f"np.save({path}, {array_text(source.kinds['data'], rows)})"]


class ReadSql(Maker):
    """A query of a database."""

    weight = 1
    allowed = ("int", "float", "str")
    min_rows = 1

    def fix(self, kind: str, value: Any) -> Any:
        return None if is_missing(value) else value

    def lines(self, source: Source, target: str) -> list[str]:
        names = ", ".join(f'"{n}"' for n in source.kinds)
        marks = ", ".join("?" for _ in source.kinds)
        rows = [tuple(row.values()) for row in source.rows]
        return [
            f"base = sqlite3.connect(folder + '/{target}.db')",
            f"base.execute('create table t ({names})')",
            f"base.executemany('insert into t values ({marks})', {literal(rows)})",
            "base.commit()",
            (
                f"{target} = ray.data.read_sql('select * from t order by rowid', "
                f"functools.partial(sqlite3.connect, folder + '/{target}.db'))"
            ),
        ]


MAKERS.update(
    {
        "read_parquet": ReadParquet(),
        "read_parquet (partitioned)": ReadPartitioned(),
        "read_csv": ReadCsv(),
        "read_json": ReadJson(),
        "read_text": ReadText(),
        "read_binary_files": ReadBinary(),
        "read_numpy": ReadNumpy(),
        "read_sql": ReadSql(),
    }
)
