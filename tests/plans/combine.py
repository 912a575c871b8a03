"""Operators of two datasets: union, zip, join."""

from __future__ import annotations

import random
from dataclasses import replace

from . import sources, values
from .known import Known, Row, need
from .operator import Args, Operator, operator
from .sources import Source
from .values import sort_key

IN_MEMORY = ("from_items", "from_arrow", "from_pandas")


def other_source(
    rng: random.Random, kinds: dict[str, str], rows: int, name: str | None = None
) -> Source:
    """A second source with those columns."""
    allowed = [n for n in IN_MEMORY if set(kinds.values()) <= set(sources.MAKERS[n].allowed)]
    name = name or rng.choice(allowed or ["from_items"])
    layout = sources.random_layout(rng, rows, 3)
    maker = sources.MAKERS[name]
    table = sources.random_table(rng, kinds, layout, maker.fix, maker.no_nulls)
    return Source(name, kinds, table, layout, maker.options(rng, kinds))


class Combine(Operator):
    """An operator of ``ds`` and another dataset, or ``ds`` itself."""

    def other(self, args: Args, known: Known) -> Known:
        """What is known of the second dataset."""
        found: Known = known if args["other"] is None else args["other"].known()
        return found

    def other_lines(self, args: Args, number: int) -> tuple[list[str], str]:
        """Statements that make the second dataset, and its name."""
        if args["other"] is None:
            return [], "ds"
        return args["other"].lines(f"other{number}"), f"other{number}"

    def simpler(self, args: Args) -> list[Args]:
        if args["other"] is None:
            return []
        return [{**args, "other": source} for source in args["other"].smaller()]


@operator("union")
class Union(Combine):
    """The rows of one, then those of the other."""

    weight = 3.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(not known.some, "some rows only")
        if rng.random() < 0.3:
            return {"other": None}
        kinds = {n: c.kind for n, c in known.columns.items()}
        need(len(kinds) < 20 and kinds, "too many columns")
        return {"other": other_source(rng, kinds, sources.random_size(rng))}

    def lines(self, args: Args, number: int) -> list[str]:
        made, name = self.other_lines(args, number)
        return [*made, f"ds = ds.union({name})"]

    def apply(self, args: Args, known: Known) -> Known:
        other = self.other(args, known)
        need(not known.some, "some rows only")
        need(
            {n: c.kind for n, c in other.columns.items()}
            == {n: c.kind for n, c in known.columns.items()},
            "other columns",
        )
        columns = {
            n: replace(c, exact=c.exact and other.columns[n].exact)
            for n, c in known.columns.items()
        }
        ranks = [(0, r) for r in known.ranks] + [(1, r) for r in other.ranks]
        numbers = {rank: i for i, rank in enumerate(dict.fromkeys(ranks))}
        return known.derive(known.rows + other.rows, columns, [numbers[r] for r in ranks])


@operator("zip")
class Zip(Combine):
    """Rows side by side; a name that both have gets _1."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.total_order and known.columns and not known.some, "order is not certain")
        if rng.random() < 0.3:
            return {"other": None}
        kinds = sources.random_kinds(rng, values.KINDS)
        need(len(kinds) < 20, "too many columns")
        source = other_source(rng, kinds, len(known), "from_items")
        return {
            "other": replace(source, kinds={n: "int" if k == "id" else k for n, k in kinds.items()})
        }

    def lines(self, args: Args, number: int) -> list[str]:
        made, name = self.other_lines(args, number)
        return [*made, f"ds = ds.zip({name})"]

    def apply(self, args: Args, known: Known) -> Known:
        other = self.other(args, known)
        need(known.total_order and other.total_order and not known.some, "order is not certain")
        need(len(known) == len(other), "rows of another number")
        need(known.columns and other.columns, "no columns")
        names: dict[str, str] = {}
        for name in other.columns:
            new, number = name, 0
            while new in known.columns or new in names.values():
                number += 1
                new = f"{name}_{number}"
            names[name] = new
        rows: list[Row] = [
            {**a, **{names[n]: v for n, v in b.items()}}
            for a, b in zip(known.rows, other.rows, strict=True)
        ]
        columns = {**known.columns, **{names[n]: c for n, c in other.columns.items()}}
        return known.derive(rows, columns)


JOINS = [
    "inner",
    "left_outer",
    "right_outer",
    "full_outer",
    "left_semi",
    "right_semi",
    "left_anti",
    "right_anti",
]


KEYS = ("int", "big", "str", "bool", "ts", "date", "float", "decimal")
RIGHT = (
    "int",
    "str",
    "float",
    "list",
    "struct",
    "bool",
    "ts",
    "bytes",
    "date",
    "big",
    "deep",
    "decimal",
)


@operator("join")
class Join(Combine):
    """Rows whose keys are equal, of each type of join; a null key equals no other.

    Columns that both sides have, besides the keys, get suffixes.
    """

    weight = 3.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(not known.some, "some rows only")
        keys = [n for n in known.certain_names(*KEYS) if len(known.columns) < 12]
        keys = [n for n in keys if not known.has_nan(n)]
        need(keys, "no key")
        left = rng.sample(keys, min(len(keys), rng.choice([1, 1, 2])))
        args: Args = {"how": rng.choice(JOINS), "left": left, "parts": rng.choice([None, 1, 2, 3])}
        if rng.random() < 0.15:
            return {
                **args,
                "other": None,
                "right": left,
                "suffixes": ["_l", rng.choice([None, "_r"])],
            }
        right = [n if rng.random() < 0.6 else f"k_{n}" for n in left]
        need(not {r for r in right if r not in left} & set(known.columns), "names")
        kinds = {r: known.columns[n].kind for n, r in zip(left, right, strict=True)}
        shared = [n for n in known.columns if n not in (*left, *right)]
        name = rng.choice(shared) if shared and rng.random() < 0.3 else "right value"
        kinds[name] = rng.choice(RIGHT)
        need(name in shared or name not in known.columns, "a join before")
        source = other_source(rng, kinds, sources.random_size(rng), "from_items")
        for row in source.rows:  # values that are in the dataset, too
            for own, key in zip(left, right, strict=True):
                if known.rows and rng.random() < 0.7:
                    row[key] = rng.choice(known.rows)[own]
        suffixes = [None, "_r"] if rng.random() < 0.5 else ["_l", None]
        return {**args, "other": source, "right": right, "suffixes": suffixes}

    def lines(self, args: Args, number: int) -> list[str]:
        made, name = self.other_lines(args, number)
        given = f"on={tuple(args['left'])!r}"
        if args["left"] != args["right"]:
            given += f", right_on={tuple(args['right'])!r}"
        for side, suffix in zip(("left", "right"), args["suffixes"], strict=True):
            given += f", {side}_suffix={suffix!r}" if suffix else ""
        if args["parts"]:
            given += f", num_partitions={args['parts']}"
        return [*made, f'ds = ds.join({name}, "{args["how"]}", {given})']

    def apply(self, args: Args, known: Known) -> Known:
        other = self.other(args, known)
        need(not known.some and known.columns, "some rows only")
        left, right, how = args["left"], args["right"], args["how"]
        for name, key in zip(left, right, strict=True):
            need(known.column(name, *KEYS).kind == other.column(key).kind, "kinds of keys")
            need(known.certain(name) and other.certain(key), "keys are not certain")
            need(not known.has_nan(name) and not other.has_nan(key), "NaN among the keys")
        need(not {r for r in right if r not in left} & set(known.columns), "names of both")
        pairs = _pairs(known, other, left, right)
        matched_left, matched_right = {i for i, _ in pairs}, {j for _, j in pairs}
        if how.endswith(("semi", "anti")):
            side, matched = (known, matched_left) if how[0] == "l" else (other, matched_right)
            wanted = how.endswith("semi")
            return side.pick([i for i in range(len(side)) if (i in matched) == wanted]).unordered()
        need(how in ("inner", "left_outer") or len(known), "columns of no rows may be unknown")
        ours, theirs = self._renamed(args, known, other)
        if set(other.columns) - set(right) != set(theirs.columns) - set(right):
            need(len(known) and len(other), "names of no rows may be unknown")
        return self._joined(args, ours, theirs, pairs)

    def _renamed(self, args: Args, known: Known, other: Known) -> tuple[Known, Known]:
        """Both sides with suffixes on the columns that both have."""
        left, right = args["left"], args["right"]
        both = (set(known.columns) - set(left)) & (set(other.columns) - set(right))
        sides = []
        for side, suffix in zip((known, other), args["suffixes"], strict=True):
            names = {n: n + (suffix or "") if n in both else n for n in side.columns}
            rows = [{names[n]: v for n, v in row.items()} for row in side.rows]
            columns = {names[n]: c for n, c in side.columns.items()}
            need(len(columns) == len(names), "a name twice")
            sides.append(side.derive(rows, columns))
        need(not (set(sides[1].columns) - set(right)) & set(sides[0].columns), "names of both")
        return sides[0], sides[1]

    def _joined(
        self, args: Args, known: Known, other: Known, pairs: list[tuple[int, int]]
    ) -> Known:
        left, right, how = args["left"], args["right"], args["how"]
        matched_left, matched_right = {i for i, _ in pairs}, {j for _, j in pairs}
        rest = {n: c for n, c in other.columns.items() if n not in right}
        rows = [{**known.rows[i], **{n: other.rows[j][n] for n in rest}} for i, j in pairs]
        if how in ("left_outer", "full_outer"):
            lonely = [r for i, r in enumerate(known.rows) if i not in matched_left]
            rows += [{**row, **dict.fromkeys(rest)} for row in lonely]
        if how in ("right_outer", "full_outer"):
            for j, row in enumerate(other.rows):
                if j not in matched_right:
                    keys = {n: row[k] for n, k in zip(left, right, strict=True)}
                    rows.append(
                        {**dict.fromkeys(known.columns), **{n: row[n] for n in rest}, **keys}
                    )
        columns = {**known.columns, **rest}
        if how == "right_outer":  # the keys have the right side's names
            names = dict(zip(left, right, strict=True))
            rows = [{names.get(n, n): v for n, v in row.items()} for row in rows]
            columns = {names.get(n, n): c for n, c in columns.items()}
            # They stand where the right side has them, behind the left side's other columns.
            ours = [n for n in known.columns if n not in left]
            columns = {n: columns[n] for n in (*ours, *other.columns)}
        return known.derive(rows, columns, [0] * len(rows))

    def simpler(self, args: Args) -> list[Args]:
        return [{**args, "parts": 1}, *super().simpler(args)]


def _pairs(known: Known, other: Known, left: list[str], right: list[str]) -> list[tuple[int, int]]:
    places: dict[object, list[int]] = {}
    for j, row in enumerate(other.rows):
        places.setdefault(tuple(sort_key(row[k]) for k in right), []).append(j)
    return [
        (i, j)
        for i, row in enumerate(known.rows)
        if all(row[n] is not None for n in left)
        for j in places.get(tuple(sort_key(row[n]) for n in left), [])
    ]
