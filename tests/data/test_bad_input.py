"""Bad files, functions that fail and columns that are not there: one sentence each, naming the place."""

from __future__ import annotations

import gzip
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ray.data.datatype import DataType
from ray.data.expressions import col, udf

CLUSTER = {"num_cpus": 4}


def sentence(run: Callable[[], Any]) -> str:
    """The last line of what was raised: the one that a reader sees first."""
    with pytest.raises(Exception) as caught:  # its text is what is tested
        run()
    return str(caught.value).rstrip().splitlines()[-1]


def files(folder: Path, count: int = 4) -> list[Path]:
    paths = [folder / f"{i}.parquet" for i in range(count)]
    for i, path in enumerate(paths):
        table = pa.table({"id": np.arange(i * 100, i * 100 + 100), "amount": np.arange(100) / 2})
        pq.write_table(table, path)
    return paths


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray does not name the file")
@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_parquet_file_that_is_cut_off_is_named(rd: Any, tmp_path: Path, kept: float) -> None:
    broken = files(tmp_path)[2]
    data = broken.read_bytes()
    broken.write_bytes(data[: int(len(data) * kept)])
    for use in (lambda d: d.count(), lambda d: d.take_all()):
        assert f"cannot read {broken}: " in sentence(lambda use=use: use(rd.read_parquet(tmp_path)))


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray does not name the file")
def test_pages_that_are_rubbish_name_their_file(rd: Any, tmp_path: Path) -> None:
    broken = files(tmp_path)[2]
    data = bytearray(broken.read_bytes())
    data[4:200] = b"\xff" * 196
    broken.write_bytes(data)
    assert f"cannot read {broken}: " in sentence(rd.read_parquet(tmp_path).take_all)


def broken_text(path: Path) -> None:
    path.write_bytes(b"ok\n\xff\xfe\n")


def broken_numpy(path: Path) -> None:
    np.save(path, np.arange(100))
    path.write_bytes(path.read_bytes()[:200])


def broken_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(os.urandom(10_000))[:5_000])


@pytest.mark.contract("F10.03", "F10.04")
@pytest.mark.heliostat_only("Ray does not name the file")
@pytest.mark.parametrize(
    ("read", "name", "write", "kind"),
    [
        ("text", "a.txt", broken_text, UnicodeError),
        ("numpy", "a.npy", broken_numpy, ValueError),
        ("csv", "a.csv.gz", broken_gzip, OSError),
        ("webdataset", "a.tar", broken_text, Exception),
    ],
)
def test_files_that_cannot_be_read_are_named(
    rd: Any, tmp_path: Path, read: str, name: str, write: Callable[[Path], None], kind: Any
) -> None:
    path = tmp_path / name
    write(path)
    dataset = getattr(rd, f"read_{read}")(str(path))
    with pytest.raises(kind):
        dataset.take_all()
    assert f"cannot read {path}: " in sentence(dataset.take_all)


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray does not name the line")
def test_a_line_that_is_no_json_is_named(rd: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}\n{"a": 2\n{"a": 3}\n')
    said = sentence(rd.read_json(str(path), lines=True).take_all)
    assert f"cannot read {path}: line 2 is not JSON" in said


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray says no more than the path")
def test_a_path_that_is_missing_is_said_to_be(rd: Any, tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    with pytest.raises(FileNotFoundError, match=f"no file or folder {path}"):
        rd.read_parquet(str(path))


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray says no more than the path")
def test_a_file_that_vanished_after_planning_is_told(rd: Any, tmp_path: Path) -> None:
    gone = files(tmp_path)[2]
    dataset = rd.read_parquet(tmp_path)
    gone.unlink()
    said = sentence(dataset.take_all)
    assert (
        f"{gone} is not there any more: it was when the files of the dataset were listed." in said
    )


# --- functions -------------------------------------------------------------------------------------


def fail_at(bad: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def check(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == bad:
            raise ValueError("no such thing")
        return row

    return check


@pytest.mark.contract("F10.06")
@pytest.mark.heliostat_only("Ray does not say which row")
@pytest.mark.parametrize(
    "use",
    [
        lambda d, fn: d.map(fn),
        lambda d, fn: d.flat_map(lambda row: [fn(row)]),
        lambda d, fn: d.filter(fn),
        lambda d, fn: d.flat_map(lambda row: (fn(r) for r in [row])),
    ],
)
def test_the_row_on_which_a_function_fails_is_named(rd: Any, tmp_path: Path, use: Any) -> None:
    broken = files(tmp_path)[2]
    # The rows that come to the function are counted, of which a step before may leave out some.
    dataset = use(rd.read_parquet(tmp_path).filter(lambda row: row["id"] % 2), fail_at(237))
    said = sentence(dataset.materialize)
    assert re.search(rf"failed on row 18 of task 2 \(of {broken}\)", said), said
    assert said.endswith("ValueError: no such thing")


@pytest.mark.contract("F10.06", "F10.07")
@pytest.mark.heliostat_only("Ray does not say which column is near")
@pytest.mark.parametrize("batch_format", ["rows", "numpy", "pandas"])
def test_a_key_that_a_row_lacks_is_told_with_the_nearest_column(rd: Any, batch_format: str) -> None:
    def use(given: Any) -> Any:
        return {"x": given["prise"]}

    dataset = rd.from_items([{"price": 1, "amount": 2}])
    by_row = batch_format == "rows"
    made = dataset.map(use) if by_row else dataset.map_batches(use, batch_format=batch_format)
    assert sentence(made.take_all).endswith("KeyError: 'prise' (did you mean the column 'price'?)")
    own = {"euro": 1}
    with pytest.raises(KeyError) as failure:
        dataset.map(lambda row: {"x": own["franc"]}).take_all()
    assert "did you mean" not in str(failure.value)


@pytest.mark.contract("F10.18")
@pytest.mark.heliostat_only("Ray does not name the column")
def test_a_column_that_no_tensor_can_hold_is_named(rd: Any) -> None:
    dataset = rd.from_items([{"price": 1, "name": "a"}])
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^column 'name': can't convert np\.ndarray"):
        list(dataset.iter_torch_batches())


@pytest.mark.contract("F10.06")
@pytest.mark.heliostat_only("Ray does not say which row")
def test_rows_beyond_the_first_thousands_and_async_functions_count_too(rd: Any) -> None:
    async def later(row: dict[str, Any]) -> dict[str, Any]:
        return fail_at(7_777)(row)

    for fn in (fail_at(7_777), later):
        said = sentence(rd.range(10_000, override_num_blocks=1).map(fn).materialize)
        assert "failed on row 7777 of task 0" in said


@pytest.mark.contract("F10.07")
@pytest.mark.heliostat_only("Ray does not say which rows")
def test_the_batch_and_the_group_on_which_a_function_fails_are_named(rd: Any) -> None:
    def check(batch: dict[str, Any]) -> dict[str, Any]:
        assert 537 not in batch["id"]
        return batch

    dataset = rd.range(1000, override_num_blocks=4)
    said = sentence(dataset.map_batches(check, batch_size=10).materialize)
    assert "check failed on rows 30 to 39 of task 2" in said
    keyed = dataset.map_batches(lambda b: {"id": b["id"], "k": b["id"] % 5})
    said = sentence(keyed.groupby("k").map_groups(check).materialize)
    assert "check failed on the group {'k': 2}" in said


@pytest.mark.contract("F10.27")
@pytest.mark.heliostat_only("Ray does not say which row")
def test_a_block_that_is_left_out_is_told_with_its_row(
    rd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = rd.range(400, override_num_blocks=4).map(fail_at(237))
    dataset.context.max_errored_blocks = 1
    with caplog.at_level(logging.WARNING, logger="heliostat.data"):
        assert [r["id"] for r in dataset.take_all()] == [*range(200), *range(300, 400)]
    (line,) = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert "row 37 of task 2" in line
    assert "\n" not in line


@pytest.mark.contract("F10.06", "F10.07")
@pytest.mark.heliostat_only("Ray takes what changes the number of rows")
def test_results_of_the_wrong_length_or_type_are_told_with_their_place(rd: Any) -> None:
    dataset = rd.range(40, override_num_blocks=4)

    @udf(return_dtype=DataType.int64())
    def five(ids: Any) -> Any:
        return 5

    wrong = {
        "returned <class 'int'> for row 3 of task 1": dataset.map(
            lambda r: 1 if r["id"] == 13 else r
        ),
        "in it for row 3 of task 1": dataset.flat_map(lambda r: [1 if r["id"] == 13 else r]),
        "returned 3 rows for rows 0 to 4 of task 0": dataset.map_batches(
            lambda b: {"id": b["id"][: 3 if 0 in b["id"] else 5]},
            batch_size=5,
            udf_modifying_row_count=False,
        ),
        "returned 2 values for 10 rows": dataset.add_column("x", lambda b: b["id"][:2]),
        "five returned <class 'int'> for 10 rows": dataset.with_column("x", five(col("id"))),
    }
    for said, given in wrong.items():
        assert said in sentence(given.materialize)


@pytest.mark.contract("F10.07")
def test_functions_that_keep_their_rows_may_say_so(rd: Any) -> None:
    def twice(batch: dict[str, Any]) -> Any:
        for part in np.array_split(batch["id"], 2):
            yield {"id": part * 2}

    dataset = rd.range(9, override_num_blocks=2)
    made = dataset.map_batches(twice, batch_size=3, udf_modifying_row_count=False)
    assert [r["id"] for r in made.take_all()] == [2 * i for i in range(9)]


@pytest.mark.contract("F10.12", "F10.11")
@pytest.mark.heliostat_only("Ray gives pyarrow's own text")
def test_what_a_type_does_not_have_names_the_column(rd: Any) -> None:
    words = rd.from_items([{"k": 1, "word": "a"}, {"k": 2, "word": "b"}])
    assert "sum(word) cannot be computed of column 'word'" in sentence(lambda: words.sum("word"))
    said = sentence(words.groupby("k").sum("word").materialize)
    assert "cannot be computed of columns k (int64), word (string)" in said
    odd = rd.from_items([{"a": 1}]).union(rd.from_items([{"a": "x"}]))
    said = sentence(odd.sort("a").materialize)
    assert "rows cannot be sorted by a (" in said
    assert "'a' has values of int, str" in said


# --- columns ---------------------------------------------------------------------------------------


@pytest.mark.contract("F10.03", "F10.08", "F10.12", "F10.24")
@pytest.mark.heliostat_only("Ray names the columns that there are, not the nearest ones")
@pytest.mark.parametrize(
    "use",
    [
        lambda d, _: d.select_columns(["amout"]).materialize(),
        lambda d, _: d.sum("amout"),
        lambda d, _: d.groupby("id").mean("amout").materialize(),
        lambda d, _: d.filter(expr=col("amout") > 1).count(),
        lambda d, f: d.write_parquet(f, partition_cols=["amout"]),
        lambda d, f: d.write_images(f, column="amout"),
    ],
)
def test_a_column_that_no_file_has_is_named_with_the_nearest(
    rd: Any, tmp_path: Path, use: Any
) -> None:
    (tmp_path / "in").mkdir()
    files(tmp_path / "in")
    with pytest.raises(Exception, match=r"no column 'amout' \(did you mean 'amount'\?\)"):
        use(rd.read_parquet(tmp_path / "in"), str(tmp_path / "out"))


# --- files whose columns differ --------------------------------------------------------------------


def evolved(folder: Path) -> list[dict[str, Any]]:
    """Files of which one has a column more, one fewer, and one narrower numbers; returns their rows."""
    tables = [
        pa.table({"id": pa.array([0, 1], pa.int32()), "x": [1.5, 2.5]}),
        pa.table({"id": [2, 3], "x": [3, 4], "word": ["a", None]}),
        pa.table({"id": [4, 5], "word": pa.array(["b", "c"]).dictionary_encode()}),
    ]
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"{i}.parquet")
    whole = [row for table in tables for row in table.to_pylist()]
    return [{"id": row["id"], "x": row.get("x"), "word": row.get("word")} for row in whole]


@pytest.mark.contract("F10.03")
def test_columns_that_a_file_lacks_are_null(rd: Any, tmp_path: Path) -> None:
    rows = evolved(tmp_path)
    dataset = rd.read_parquet(str(tmp_path))
    assert dataset.columns() == ["id", "x", "word"]
    assert sorted(dataset.take_all(), key=lambda row: row["id"]) == rows
    assert dataset.count() == 6


@pytest.mark.contract("F10.03", "F10.08", "F10.12")
@pytest.mark.heliostat_only("Ray fails on some of these")
def test_what_is_pushed_into_files_whose_columns_differ(rd: Any, tmp_path: Path) -> None:
    rows = evolved(tmp_path)

    def dataset() -> Any:
        return rd.read_parquet(str(tmp_path))

    found = dataset().filter(expr=col("word") == "b").select_columns(["id"]).take_all()
    assert found == [{"id": 4}]
    assert dataset().filter(expr=col("x") > 2).count() == 3
    assert dataset().filter(expr=col("word").is_null()).take_all() == [
        row for row in rows if row["word"] is None
    ]
    assert dataset().select_columns(["word"]).take_all() == [{"word": row["word"]} for row in rows]
    assert dataset().sum("x") == 11.0
    assert dataset().limit(5).take_all() == rows[:5]
    assert dataset().schema().types == [pa.int64(), pa.float64(), pa.string()]
    few = rd.read_parquet(str(tmp_path), columns=["word"])
    assert few.take_all() == [{"word": row["word"]} for row in rows]


@pytest.mark.contract("F10.03")
def test_columns_of_types_that_do_not_fit_are_refused(rd: Any, tmp_path: Path) -> None:
    for i, ids in enumerate(([1, 2], ["a", "b"])):
        pq.write_table(pa.table({"id": ids, "n": [1, 2]}), tmp_path / f"{i}.parquet")
    with pytest.raises(pa.ArrowTypeError, match=r"(?s)id.*int64.*string"):
        rd.read_parquet(str(tmp_path)).take_all()
    assert len(rd.read_parquet(str(tmp_path), columns=["n"]).take_all()) == 4


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("Ray does not name the files")
def test_files_whose_types_do_not_fit_are_named(rd: Any, tmp_path: Path) -> None:
    for i, ids in enumerate(([1, 2], ["a", "b"])):
        pq.write_table(pa.table({"id": ids}), tmp_path / f"{i}.parquet")
    said = sentence(lambda: rd.read_parquet(str(tmp_path)))
    assert f"'id' is of type int64 in {tmp_path / '0.parquet'}" in said
    assert f"of type string in {tmp_path / '1.parquet'}: no type holds both" in said


@pytest.mark.contract("F10.04")
@pytest.mark.heliostat_only("Ray fails at an attribute of its own")
def test_what_is_no_dataset_aggregation_or_list_is_told_at_the_call(rd: Any) -> None:
    dataset = rd.range(3)
    for wrong, said in (
        (
            lambda: dataset.union([dataset]),
            r"union() takes datasets, got list. Write union(*datasets)",
        ),
        (lambda: dataset.mix(1), "mix() takes datasets, got int."),
        (lambda: dataset.aggregate("sum"), "aggregate() takes aggregations of ray.data.aggregate"),
        (
            lambda: dataset.groupby("id").aggregate([1]),
            "Write aggregate(*aggregations) for a list.",
        ),
        (lambda: rd.from_items(5), "from_items() takes a list of rows, got int."),
        (lambda: dataset.map_batches(len, batch_sise=3), "'batch_size'"),
    ):
        assert said in sentence(wrong)


# --- what is no source or picture ------------------------------------------------------------------


@pytest.mark.heliostat_only("Ray says that a str has no such attribute")
def test_what_is_no_datasource_is_refused_at_the_call(ray_start: Any) -> None:
    import ray.data

    with pytest.raises(TypeError, match=r"read_datasource takes a ray\.data\.Datasource.* got 'x'"):
        ray.data.read_datasource("x")  # type: ignore[arg-type] # that is what is tested


@pytest.mark.heliostat_only("Ray's error is Pillow's")
def test_a_value_that_is_no_picture_says_what_it_is(ray_start: Any, tmp_path: Path) -> None:
    import ray.data

    pytest.importorskip("PIL", reason="pictures are encoded by Pillow")
    said = sentence(lambda: ray.data.range(2).write_images(str(tmp_path), column="id"))
    assert "write_images: a value of column 'id' is not a picture, but of type int" in said


def test_arguments_of_the_wrong_type_are_told_at_the_call(rd: Any, tmp_path: Path) -> None:
    ds = rd.range(4)
    lock = threading.Lock()
    file = tmp_path / "rows.csv"
    file.write_text("x\n1\n")
    wrong: dict[str, Callable[[], object]] = {
        "`limit` must be an integer, got '5'": lambda: ds.limit("5"),
        "`limit` must be an integer, got 2.5": lambda: ds.take(2.5),
        "limit must not be negative, got -2": lambda: ds.take(-2),
        "`num_blocks` must be an integer, got '4'": lambda: ds.repartition("4"),
        "`n` must be an integer, got '2'": lambda: ds.split("2"),
        "`n` must be an integer, got 1.5": lambda: ds.streaming_split(1.5),
        "`indices` must be an integer, got 'a'": lambda: ds.split_at_indices(["a"]),
        "`proportions` must be a number": lambda: ds.split_proportionately(["a"]),
        "must be an integer, None or 'auto', got 2.5": lambda: ds.map_batches(str, batch_size=2.5),
        "`batch_size` must be an integer, got 2.5": lambda: ds.iterator().iter_batches(
            batch_size=2.5
        ),
        "`override_num_blocks` must be an integer": lambda: rd.range(4, override_num_blocks="2"),
        "`override_num_blocks` must be an integer, got 'x'": lambda: rd.read_csv(
            str(file), override_num_blocks="x"
        ),
        "`fraction` must be a number, got '1'": lambda: ds.random_sample("1"),
        "must be between 0 and 1, got 2": lambda: ds.random_sample(2),
        "`descending` must be a bool or a list of bools": lambda: ds.sort("id", descending="x"),
        "`cols` must be a column's name or a list of names, got 3": lambda: ds.drop_columns(3),
        "`on` must be a column's name or a list of names, got 3": lambda: ds.min(3),
        "`columns` must be a column's name": lambda: rd.read_parquet(str(tmp_path), columns=3),
        "`fn_args` must be a list of arguments, got 3": lambda: ds.map(str, fn_args=3),
        "`fn_kwargs` must be a dict of keyword arguments": lambda: ds.map(str, fn_kwargs=[1]),
        "min_size must be <= max_size, got 4 and 2": lambda: ds.map(Keep, concurrency=(4, 2)),
        "join() takes datasets, got list": lambda: ds.join([1], "inner", 2),
        "Did you mean 'inner'": lambda: ds.join(ds, "innner", 2),
        "zip() takes datasets, got list": lambda: ds.zip([1]),
        "got the class Sum": lambda: ds.aggregate(rd.aggregate.Sum),
        "functions are for `map_batches`": lambda: ds.with_column("y", lambda row: row),
        "`n` must be an integer, got '4'": lambda: rd.range("4"),
        "`n` must be an integer, got 4.5": lambda: rd.range(4.5),
        "`shape` must be a tuple of integers": lambda: rd.range_tensor(4, shape=2),
        "got a list with 1": lambda: rd.from_numpy([1, 2]),
        "Columns are from_numpy's": lambda: rd.from_items({"x": [1]}),
        "Did you mean 'append'": lambda: ds.write_csv(str(tmp_path / "o"), mode="apend"),
        "is a file": lambda: ds.write_csv(str(file)),
        "partition_cols: there is no column 'idd' (did you mean 'id'?)": lambda: ds.write_parquet(
            str(tmp_path / "o"), partition_cols=["idd"]
        ),
        "there are files with .csv": lambda: rd.read_parquet(str(file)),
        "lock (<unlocked": lambda: ds.map(lambda row: {"x": lock.locked()}).take(1),
        "`fn_args` of keep cannot be sent": lambda: ds.map(keep, fn_args=(lock,)).take(1),
    }
    for said, use in wrong.items():
        with pytest.raises((TypeError, ValueError, NotADirectoryError), match=re.escape(said)):
            use()
    assert rd.range(4.0).limit(np.int64(2)).count() == 2


def test_a_function_of_map_that_gives_several_rows_is_sent_to_flat_map(rd: Any) -> None:
    def several(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield row

    with pytest.raises(ValueError, match="For several rows of one, use `flat_map`"):
        rd.range(2).map(several).take_all()


def keep(row: dict[str, Any], other: object = None) -> dict[str, Any]:
    return row


class Keep:
    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return row
