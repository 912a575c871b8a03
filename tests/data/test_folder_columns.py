"""Columns that stand in the names of folders: which of them a dataset has, and what conflicts (F7.05)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="files are read with pyarrow")

import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.dataset as pads  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import ray.data  # noqa: E402
from ray.data.datasource import Partitioning, PathPartitionParser  # noqa: E402
from ray.data.expressions import col  # noqa: E402


@pytest.fixture
def hive(tmp_path: Path) -> str:
    """``year=1/c=x1/f.parquet`` and ``year=2/c=x2/f.parquet`` with the columns a, b and z."""
    for n in (1, 2):
        folder = tmp_path / "hive" / f"year={n}" / f"c=x{n}"
        folder.mkdir(parents=True)
        pq.write_table(
            pa.table({"a": [n, n], "b": [10 * n, 11 * n], "z": ["s", "t"]}), folder / "f.parquet"
        )
    return str(tmp_path / "hive")


def row(n: int, second: bool) -> dict[str, Any]:
    own = {"a": n, "b": (11 if second else 10) * n, "z": "t" if second else "s"}
    return {**own, "year": str(n), "c": f"x{n}"}


ROWS = [row(n, second) for n in (1, 2) for second in (False, True)]
NAMES = ["a", "b", "year", "c"]


@pytest.mark.parametrize(
    "columns",
    [list(some) for size in (1, 2, 4) for some in itertools.permutations(NAMES, size)],
)
def test_a_dataset_has_exactly_the_columns_that_are_asked_for(
    ray_start: Any, hive: str, columns: list[str]
) -> None:
    ds = ray.data.read_parquet(hive, columns=columns)
    assert ds.columns() == columns
    assert ds.schema().names == columns
    rows = ds.take_all()
    assert [list(one) for one in rows] == [columns] * 4
    expected = [{name: one[name] for name in columns} for one in ROWS]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert ds.count() == 4


@pytest.mark.parametrize(
    "more",
    [
        {"filter": pads.field("b") > 10},
        {"override_num_blocks": 4},
        {"shuffle": "files"},
        {"batch_size": 1},
    ],
)
@pytest.mark.parametrize("columns", [["year"], ["b", "a"], ["c", "b"]])
def test_columns_with_other_options(
    ray_start: Any, hive: str, columns: list[str], more: dict[str, Any]
) -> None:
    ds = ray.data.read_parquet(hive, columns=columns, **more)
    left = [one for one in ROWS if one["b"] > 10] if "filter" in more else ROWS
    expected = [{name: one[name] for name in columns} for one in left]
    rows = ds.take_all()
    assert [list(one) for one in rows] == [columns] * len(left)
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_what_follows_sees_the_same_columns(ray_start: Any, hive: str) -> None:
    ds = ray.data.read_parquet(hive, columns=["b", "year"])
    assert list(ds.to_pandas().columns) == ["b", "year"]
    assert ds.filter(expr=col("year") == "2").sort("b").take_all() == [
        {"b": 20, "year": "2"},
        {"b": 22, "year": "2"},
    ]
    assert ds.groupby("year").sum("b").take_all() == [
        {"year": "1", "sum(b)": 21},
        {"year": "2", "sum(b)": 42},
    ]
    assert ds.select_columns("year").columns() == ["year"]
    assert ds.limit(1).columns() == ["b", "year"]
    assert ray.data.read_parquet(hive, columns="b").columns() == ["b"]
    assert ray.data.read_parquet(hive, columns=("b", "a")).columns() == ["b", "a"]


def test_paths_are_columns_too(ray_start: Any, hive: str) -> None:
    ds = ray.data.read_parquet(hive, columns=["b"], include_paths=True)
    assert ds.columns() == ["b", "path"]
    ds = ray.data.read_parquet(hive, columns=["path", "b"], include_paths=True)
    assert ds.columns() == ["path", "b"]
    assert all(one["path"].endswith("f.parquet") for one in ds.take_all())


def test_without_partitioning_folders_say_nothing(ray_start: Any, hive: str) -> None:
    assert ray.data.read_parquet(hive, columns=["b"], partitioning=None).columns() == ["b"]


@pytest.mark.heliostat_only("Ray passes over columns that are not there")
def test_columns_that_are_not_there_or_twice(hive: str) -> None:
    with pytest.raises(ValueError, match=r"no column 'yaer' \(did you mean 'year'\?\)"):
        ray.data.read_parquet(hive, columns=["b", "yaer"])
    with pytest.raises(ValueError, match="'a' twice"):
        ray.data.read_parquet(hive, columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="no column 'year'"):
        ray.data.read_parquet(hive, columns=["year"], partitioning=None)


# --- columns that files and folders both have ---


def write(folder: Path, form: str, table: Any) -> None:
    folder.mkdir(parents=True)
    if form == "parquet":
        pq.write_table(table, folder / "f.parquet")
    elif form == "csv":
        pacsv.write_csv(table, folder / "f.csv")
    else:
        lines = [str(one).replace("'", '"') for one in table.to_pylist()]
        (folder / "f.json").write_text("\n".join(lines))


def read(form: str, path: Path, **more: Any) -> Any:
    more.setdefault("partitioning", Partitioning("hive"))
    return getattr(ray.data, f"read_{form}")(str(path), **more)


def test_the_folder_counts_for_parquet(ray_start: Any, tmp_path: Path) -> None:
    """With the type that the files have; the column comes behind those of the files."""
    write(tmp_path / "a=9", "parquet", pa.table({"a": [1, 1], "b": [2, 3]}))
    write(tmp_path / "a=7", "parquet", pa.table({"a": [1], "b": [4]}))
    ds = read("parquet", tmp_path)
    assert ds.columns() == ["b", "a"]
    assert ds.schema().types == [pa.int64(), pa.int64()]
    assert ds.sort("b").take_all() == [{"b": 2, "a": 9}, {"b": 3, "a": 9}, {"b": 4, "a": 7}]
    assert read("parquet", tmp_path).filter(expr=col("a") == 7).take_all() == [{"b": 4, "a": 7}]
    assert read("parquet", tmp_path).filter(expr=col("a") == 1).take_all() == []
    assert read("parquet", tmp_path, columns=["a"]).sort("a").take_all() == [
        {"a": 7},
        {"a": 9},
        {"a": 9},
    ]
    assert read("parquet", tmp_path, columns=["b"]).columns() == ["b"]
    assert read("parquet", tmp_path, partitioning=None).columns() == ["a", "b"]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_conflict_is_an_error_in_other_forms(ray_start: Any, tmp_path: Path, form: str) -> None:
    write(tmp_path / "a=9", form, pa.table({"a": [1], "b": [2]}))
    with pytest.raises(ValueError, match=r"a=9.*own column"):
        read(form, tmp_path).take_all()
    assert read(form, tmp_path, partitioning=None).take_all() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("values", [[1], [1, 1]])
def test_the_same_value_is_no_conflict(
    ray_start: Any, tmp_path: Path, form: str, values: list[int]
) -> None:
    write(tmp_path / "a=1", form, pa.table({"a": values, "b": values}))
    assert read(form, tmp_path).take_all() == [{"a": 1, "b": 1}] * len(values)


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("value", ["x", "2"])
def test_a_value_of_another_type_is_a_conflict(
    ray_start: Any, tmp_path: Path, form: str, value: str
) -> None:
    write(tmp_path / f"a={value}", form, pa.table({"a": [1], "b": [2]}))
    with pytest.raises(ValueError, match="own column 'a'"):
        read(form, tmp_path).take_all()


# --- folders of values alone ---


@pytest.fixture
def placed(tmp_path: Path) -> Any:
    """``placed(form)``: ``1/x/f`` and ``2/x/f``, each with the column b."""

    def placed(form: str) -> Path:
        for n in (1, 2):
            write(tmp_path / form / str(n) / "x", form, pa.table({"b": [n]}))
        return tmp_path / form

    return placed


def of_folders(path: Path, names: list[str | None], **types: Any) -> Partitioning:
    return Partitioning("dir", base_dir=str(path), field_names=names, field_types=types)


FORMS = ["parquet", "csv", "json"]


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_without_a_name_is_passed_over(ray_start: Any, placed: Any, form: str) -> None:
    path = placed(form)
    for names, expected in (
        (["y", "c"], [{"b": n, "y": str(n), "c": "x"} for n in (1, 2)]),
        ([None, "c"], [{"b": n, "c": "x"} for n in (1, 2)]),
        (["y", None], [{"b": n, "y": str(n)} for n in (1, 2)]),
        ([None, None], [{"b": n} for n in (1, 2)]),
    ):
        ds = read(form, path, partitioning=of_folders(path, names))
        assert ds.sort("b").take_all() == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [["y"], ["y", "c", "q"]])
def test_folders_that_are_fewer_or_more_than_names(
    ray_start: Any, placed: Any, form: str, names: list[str | None]
) -> None:
    path = placed(form)
    with pytest.raises(ValueError, match=f"Expected {len(names)} partition value"):
        read(form, path, partitioning=of_folders(path, names)).take_all()


@pytest.mark.parametrize("form", FORMS)
def test_types_of_folders(ray_start: Any, placed: Any, form: str) -> None:
    path = placed(form)
    ds = read(form, path, partitioning=of_folders(path, ["y", "c"], y=int))
    assert ds.sort("y").take_all() == [{"b": n, "y": n, "c": "x"} for n in (1, 2)]
    with pytest.raises(ValueError, match="invalid literal for int"):
        read(form, path, partitioning=of_folders(path, ["y", "c"], c=int)).take_all()
    with pytest.raises(KeyError, match="nope"):
        read(form, path, partitioning=of_folders(path, ["y", "c"], nope=int)).take_all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [["month"], ["year", "month"], ["month", "year"]])
def test_names_that_the_folders_do_not_have(
    ray_start: Any, tmp_path: Path, form: str, names: list[str]
) -> None:
    write(tmp_path / "year=1", form, pa.table({"b": [1]}))
    hive = Partitioning("hive", base_dir=str(tmp_path), field_names=names)
    with pytest.raises(ValueError, match="partition"):
        read(form, tmp_path, partitioning=hive).take_all()
    right = Partitioning("hive", base_dir=str(tmp_path), field_names=["year"])
    assert read(form, tmp_path, partitioning=right).take_all() == [{"b": 1, "year": "1"}]


def test_paths_are_parsed_as_ray_parses_them() -> None:
    def parse(path: str, *args: Any, **options: Any) -> dict[str, Any]:
        return PathPartitionParser(Partitioning(*args, **options))(path)

    assert parse("/x/y=1/z=2/f.csv", "hive") == {"y": "1", "z": "2"}
    assert parse("/x/y/f.csv", "hive") == {}
    assert parse("/w/y=1/f.csv", "hive", base_dir="/x") == {}
    assert parse("/x/y=1=2/f.csv", "hive") == {}
    assert parse("/x/y=/f.csv", "hive") == {"y": ""}
    assert parse("/x/y=a%20b/f.csv", "hive") == {"y": "a b"}
    assert parse("/x/1/2/f.csv", "dir", base_dir="/x", field_names=["a", "b"]) == {
        "a": "1",
        "b": "2",
    }
    assert parse("/x/1/2/f.csv", "dir", base_dir="/x", field_names=["a", None]) == {"a": "1"}
    assert parse("/w/1/2/f.csv", "dir", base_dir="/x", field_names=["a", "b"]) == {}
    assert parse("/x/f.csv", "dir", base_dir="/x", field_names=["a"], field_types={"a": int}) == {}
