"""Files of one dataset whose columns differ: the columns of all, null where a file has none."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def merged(files: Iterable[tuple[str, pa.Schema]]) -> pa.Schema | None:
    """Join the schemas of files, each (path, schema); None where all have the same, or ours alone differ.

    Raises:
        pyarrow.ArrowTypeError: A column has types that have none in common.
    """
    several = list(files)
    if all(schema.equals(several[0][1]) for _, schema in several):
        return None
    found: dict[str, tuple[pa.DataType, str]] = {}
    for path, schema in several:
        for field in schema:
            kind, before = found.get(field.name, (field.type, path))
            if kind != field.type and any(
                isinstance(t, pa.BaseExtensionType) for t in (kind, field.type)
            ):
                return None  # tensors and objects: blocks join these where they meet
            found[field.name] = (_common(field.name, kind, before, field.type, path), before)
    return pa.schema([(name, kind) for name, (kind, _) in found.items()])


def _common(
    name: str, kind: pa.DataType, before: str, other: pa.DataType, path: str
) -> pa.DataType:
    if kind == other:
        return kind
    both = [t.value_type if pa.types.is_dictionary(t) else t for t in (kind, other)]
    try:
        made = pa.unify_schemas(
            [pa.schema([(name, t)]) for t in both], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise pa.ArrowTypeError(
            f"column {name!r} is of type {kind} in {before} and of type {other} in {path}: no type "
            "holds both. Read such files apart and change the column of some before a union."
        ) from error
    return made.field(0).type


def conformed(table: pa.Table, schema: pa.Schema, names: Iterable[str]) -> pa.Table:
    """The table with the columns ``names`` of a merged schema, in its types; others stay as they are."""
    wanted = set(names)
    for field in schema:
        if field.name not in wanted:
            continue
        at = table.schema.get_field_index(field.name)
        if at < 0:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        elif table.schema.field(at).type != field.type:
            table = table.set_column(at, field, table.column(at).cast(field.type))
    return table
