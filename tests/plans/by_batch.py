"""map_batches, in each format, with functions, generators and classes."""

from __future__ import annotations

import random

from .by_row import CONDITIONS, POOLS, evaluated
from .known import Column, Known, need, new_name
from .operator import Args, Operator, operator

# (kind, text for a row's value v, for an array, for a Series, for a pyarrow column, kind of the result)
VECTORS: list[tuple[str, str, str, str, str, str]] = [
    ("int", "v * 2 + 1", "c * 2 + 1", "c * 2 + 1", "pc.add(pc.multiply(c, 2), 1)", "int"),
    ("int", "v / 2", "c / 2", "c / 2", "pc.divide(pc.cast(c, pa.float64()), 2.0)", "float"),
    ("int", "v > 2", "c > 2", "c > 2", "pc.greater(c, 2)", "bool"),
    ("float", "v * 2", "c * 2", "c * 2", "pc.multiply(c, 2.0)", "float"),
    ("float", "v + 1", "c + 1", "c + 1", "pc.add(c, 1.0)", "float"),
    ("str", "v + '!'", "c + '!'", "c + '!'", "pc.binary_join_element_wise(c, '!', '')", "str"),
    ("str", "len(v)", "np.array([len(v) for v in c], int)", "c.str.len()", "pc.utf8_length(c)", "int"),
    ("bool", "not v", "~c", "~c", "pc.invert(c)", "bool"),
    ("tensor", "v * 2", "c * 2", "", "", "tensor"),
    ("ts", "v.year", "np.array([t.astype(object).year for t in c.astype('M8[us]')], int)",
     "c.dt.year", "pc.year(c)", "int"),
]  # fmt: skip
FORMATS = ("numpy", "pandas", "pyarrow")
ADDED = {
    "numpy": "{{**b, {new!r}: (lambda c: {text})(b[{name!r}])}}",
    "pandas": "b.assign(**{{{new!r}: (lambda c: {text})(b[{name!r}])}})",
    "pyarrow": "b.append_column({new!r}, (lambda c: {text})(b[{name!r}]))",
}
NOTHING = {
    "numpy": "{k: v[:0] for k, v in b.items()}",
    "pandas": "b.iloc[:0]",
    "pyarrow": "b.slice(0, 0)",
}
TWICE = {
    "numpy": "{k: np.concatenate([v, v]) for k, v in b.items()}",
    "pandas": "pd.concat([b, b])",
    "pyarrow": "pa.concat_tables([b, b])",
}
CHOSEN = {
    "numpy": "{{k: v[np.array([bool(f(x)) for x in b[{name!r}]], bool)] for k, v in b.items()}}",
    "pandas": "b[[bool(f(x)) for x in b[{name!r}]]]",
    "pyarrow": "b.filter(pa.array([bool(f(x)) for x in b[{name!r}].to_pylist()], pa.bool_()))",
}
# Kinds whose values in every format answer a condition the same way.
CHOOSABLE = ("int", "big", "float", "str", "bool")


@operator("map_batches")
class MapBatches(Operator):
    """A function of a batch."""

    weight = 6.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        batch_format = rng.choice(FORMATS)
        args: Args = {
            "format": batch_format,
            "size": rng.choice(["", "None", "1", "2", "3", "7", "64"]),
            "way": rng.choices(["plain", "generator", "arguments", "class"], [12, 4, 2, 1])[0],
        }
        form = rng.choice(["same", "add", "add", "choose", "twice", "nothing", "lists"])
        if form == "add":
            usable = [
                (v, n)
                for v in VECTORS
                for n in known.names(v[0])
                if not known.missing(n) and v[2 + FORMATS.index(batch_format)]
            ]
            need(usable, "no column for a function of arrays")
            vector, name = rng.choice(usable)
            args |= {"vector": vector, "column": name, "new": new_name(known, "v")}
        if form == "choose":
            names = [n for n in known.names(*CHOOSABLE) if not known.missing(n)]
            need(names, "no column to choose by")
            args["column"] = rng.choice(names)
            args["own"] = known.columns[args["column"]].kind
        if form == "lists":
            need(known.columns, "no columns")
            args["format"] = "numpy"
        return {**args, "form": form}

    def _made(self, args: Args) -> str:
        form, batch_format = args["form"], args["format"]
        if form == "same":
            return "b"
        if form == "nothing":
            return NOTHING[batch_format]
        if form == "twice":
            return TWICE[batch_format]
        if form == "lists":
            return "{k: list(v) for k, v in b.items()}"
        if form == "choose":
            condition = f"lambda v: {CONDITIONS[args['own']]}"
            return f"(lambda f: {CHOSEN[batch_format].format(name=args['column'])})({condition})"
        text = args["vector"][2 + FORMATS.index(batch_format)]
        return ADDED[batch_format].format(new=args["new"], name=args["column"], text=text)

    def lines(self, args: Args, number: int) -> list[str]:
        made, way = self._made(args), args["way"]
        options = f'batch_format="{args["format"]}"'
        if args["size"]:
            options += f", batch_size={args['size']}"
        if way == "generator":
            function = [f"def f{number}(b):", f"    yield {made}"]
        elif way == "arguments":
            function = [f"def f{number}(b, one, *, two): return {made}"]
            options += ", fn_args=[1], fn_kwargs={'two': 2}"
        elif way == "class":
            function = [f"class f{number}:", f"    def __call__(self, b): return {made}"]
            options += f", {POOLS[number % len(POOLS)]}, num_cpus=0.1"
        else:
            function = [f"def f{number}(b): return {made}"]
        return [*function, f"ds = ds.map_batches(f{number}, {options})"]

    def apply(self, args: Args, known: Known) -> Known:
        form = args["form"]
        need(known.columns, "no columns")
        columns = known.columns if args["format"] == "pyarrow" else known.loosened()
        if args["format"] != "pyarrow":
            big = [n for n in known.names("big") if known.missing(n)]
            need(not big, "floats do not hold these integers")
        if form == "nothing":
            return known.derive(columns=columns).pick([])
        if form == "twice":
            return self._twice(args, known.derive(columns=columns))
        if form in ("same", "lists"):
            return known.derive(columns=columns)
        kind = args["own"] if form == "choose" else args["vector"][0]
        known.column(args["column"], kind)
        need(not known.missing(args["column"]), "missing values")
        if form == "choose":
            function = evaluated(f"lambda v: {CONDITIONS[kind]}")
            kept = [i for i, row in enumerate(known.rows) if function(row[args["column"]])]
            return known.derive(columns=columns).pick(kept)
        function = evaluated(f"lambda v: {args['vector'][1]}")
        rows = [{**row, args["new"]: function(row[args["column"]])} for row in known.rows]
        exact = args["vector"][5] not in ("tensor",)
        return known.derive(rows, {**columns, args["new"]: Column(args["vector"][5], exact)})

    def _twice(self, args: Args, known: Known) -> Known:
        """Each row comes twice; in what order depends on where batches begin."""
        rows = [row for row in known.rows for _ in range(2)]
        ranks = [rank for rank in known.ranks for _ in range(2)]
        if args["size"] == "1":
            return known.derive(rows, ranks=ranks)
        return known.derive(rows, ranks=[0] * len(rows))

    def simpler(self, args: Args) -> list[Args]:
        found = []
        if args["way"] != "plain":
            found.append({**args, "way": "plain"})
        if args["size"]:
            found.append({**args, "size": ""})
        if args["form"] not in ("same",):
            found.append({**args, "form": "same"})
        return found
