"""Files of records: Avro, TFRecord, WebDataset; databases; other libraries' DataFrames."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import sys
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

CLUSTER = {"num_cpus": 4}


def rows_of(dataset: Any, key: str = "i") -> list[Any]:
    return sorted(dataset.take_all(), key=lambda row: row[key])


# --- Avro ------------------------------------------------------------------------------------------


@pytest.mark.contract("F10.04")
def test_avro(rd: Any, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro", reason="reads Avro")
    kinds = {"i": "long", "s": ["null", "string"], "l": {"type": "array", "items": "double"}}
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": n, "type": k} for n, k in kinds.items()],
    }
    rows = [{"i": i, "s": None if i % 2 else f"s{i}", "l": [0.5] * i} for i in range(5)]
    for codec in ("null", "deflate"):
        with open(tmp_path / f"{codec}.avro", "wb") as file:
            fastavro.writer(file, schema, rows, codec=codec)
        assert rows_of(rd.read_avro(str(tmp_path / f"{codec}.avro"))) == rows
    both = rd.read_avro(str(tmp_path), include_paths=True)
    assert sorted({Path(row["path"]).name for row in both.take_all()}) == [
        "deflate.avro",
        "null.avro",
    ]
    assert both.count() == 10
    (tmp_path / "broken.avro").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="avro"):
        rd.read_avro(str(tmp_path / "broken.avro")).take_all()


# --- TFRecord --------------------------------------------------------------------------------------

# Two examples as the format's description has them, byte by byte: {"a": [1]}, packed and not.
EXAMPLES = [
    bytes.fromhex("0a0c 0a0a 0a0161 1205 1a03 0a0101"),
    bytes.fromhex("0a0b 0a09 0a0161 1204 1a02 0801"),
]


@pytest.fixture
def crc() -> Any:
    pytest.importorskip("google.protobuf", reason="decodes examples")
    return pytest.importorskip("google_crc32c", reason="makes checksums")


@pytest.mark.contract("F10.04")
def test_examples_of_other_programs(rd: Any, tmp_path: Path, crc: Any) -> None:
    def checksum(data: bytes) -> bytes:
        value = crc.value(data)
        turned = (value >> 15) | (value << 17) & 0xFFFFFFFF
        return struct.pack("<I", (turned + 0xA282EAD8) & 0xFFFFFFFF)

    assert crc.value(b"123456789") == 0xE3069283
    data = b""
    for record in EXAMPLES:
        size = struct.pack("<Q", len(record))
        data += size + checksum(size) + record + checksum(record)
    path = tmp_path / "x.tfrecords"
    path.write_bytes(data)
    assert rd.read_tfrecords(str(path)).take_all() == [{"a": 1}, {"a": 1}]
    for broken in (data[:-1], data[:5], b"x" * 40, data[:20] + b"x" + data[21:]):
        path.write_bytes(broken)
        with pytest.raises(RuntimeError, match=r"x\.tfrecords"):
            rd.read_tfrecords(str(path)).take_all()


class Feature:
    """As tensorflow-metadata has it: 1 bytes, 2 integers, 3 floats."""

    def __init__(self, name: str, kind: int) -> None:
        self.name, self.type = name, kind


class TfSchema:
    def __init__(self, **kinds: int) -> None:
        self.feature = [Feature(name, kind) for name, kind in kinds.items()]


@pytest.mark.contract("F10.04", "F10.25")
def test_tfrecords_there_and_back(rd: Any, tmp_path: Path, crc: Any) -> None:
    rows = [
        {"i": i, "f": 0.5 * i, "s": f"s{i}", "b": bytes([i]), "l": [i] * (i % 3), "n": [1.5, 2.5]}
        for i in range(7)
    ]
    dataset = rd.from_items(rows, override_num_blocks=2)
    dataset.write_tfrecords(str(tmp_path / "plain"))
    found = rows_of(rd.read_tfrecords(str(tmp_path / "plain")))
    assert found == [{**row, "s": row["s"].encode()} for row in rows]
    # Packed files are read by their name or as told.
    dataset.write_tfrecords(
        str(tmp_path / "packed"), arrow_open_stream_args={"compression": "gzip"}
    )
    unpacked = rd.read_tfrecords(
        str(tmp_path / "packed"), arrow_open_stream_args={"compression": "gzip"}
    )
    assert rows_of(unpacked) == found
    # With a schema every column is of lists.
    typed = TfSchema(i=2, f=3, s=1, b=1, l=2, n=3)
    lists = rd.read_tfrecords(str(tmp_path / "plain"), tf_schema=typed)
    assert sorted(row["i"] for row in lists.take_all()) == [[i] for i in range(7)]
    for wrong in (TfSchema(i=3, f=3, s=1, b=1, l=2, n=3), TfSchema(i=2)):
        with pytest.raises(ValueError, match="schema"):
            rd.read_tfrecords(str(tmp_path / "plain"), tf_schema=wrong).take_all()


@pytest.mark.contract("F10.04", "F10.25")
def test_missing_features(rd: Any, tmp_path: Path, crc: Any) -> None:
    rows = [{"i": 1, "x": None, "l": [1, 2]}, {"i": 2, "x": 5, "l": None}]
    dataset = rd.from_items(rows, override_num_blocks=1)
    dataset.write_tfrecords(str(tmp_path / "a"))
    assert rows_of(rd.read_tfrecords(str(tmp_path / "a"))) == [
        {"i": 1, "x": [], "l": [1, 2]},
        {"i": 2, "x": [5], "l": []},
    ]
    with pytest.raises(ValueError, match="'t'"):
        rd.from_items([{"t": True}]).write_tfrecords(str(tmp_path / "b"))
    with pytest.raises(ValueError, match="'t'"):
        rd.from_items([{"t": np.zeros((2, 2))}]).write_tfrecords(str(tmp_path / "c"))


# --- WebDataset ------------------------------------------------------------------------------------


def tar_of(path: Path, files: dict[str, bytes]) -> str:
    with tarfile.open(path, "w") as made:
        for name, data in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            made.addfile(about, io.BytesIO(data))
    return str(path)


def npy(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


@pytest.mark.contract("F10.04")
def test_archives_of_rows(rd: Any, tmp_path: Path) -> None:
    files = {}
    for i in range(3):
        files[f"d/{i}.cls"] = str(i).encode()
        files[f"d/{i}.seg.txt"] = f"t{i}".encode()
        files[f"d/{i}.json"] = json.dumps({"k": i, "m": [1, 2]}).encode()
        files[f"d/{i}.npy"] = npy(np.full(2, i))
        files[f"d/{i}.bin"] = bytes([i])
    path = tar_of(tmp_path / "x.tar", {**files, "README": b"no row"})

    def read(**options: Any) -> list[Any]:
        return rows_of(rd.read_webdataset(path, **options), "__key__")

    rows = read()
    assert [row["cls"] for row in rows] == [0, 1, 2]
    assert [row["seg.txt"] for row in rows] == ["t0", "t1", "t2"]
    assert [row["json"] for row in rows] == [{"k": i, "m": [1, 2]} for i in range(3)]
    assert [row["npy"].tolist() for row in rows] == [[i, i] for i in range(3)]
    assert [row["bin"] for row in rows] == [bytes([i]) for i in range(3)]
    assert {row["__key__"] for row in rows} == {"d/0", "d/1", "d/2"}
    assert {row["__url__"] for row in rows} == {path}
    assert read(decoder=None)[1]["cls"] == b"1"
    assert set(read(suffixes=["cls", "*.txt"])[0]) == {"__key__", "__url__", "cls", "seg.txt"}
    assert set(read(fileselect=lambda name: name.endswith("cls"))[0]) == {
        "__key__",
        "__url__",
        "cls",
    }
    assert set(read(filerename=[(r"\.cls$", ".txt")], suffixes=["txt"])[0]) >= {"txt"}
    assert [row["k"] for row in read(suffixes=["json"], expand_json=True)] == [0, 1, 2]
    twice = read(decoder=[True, lambda row: {**row, "more": row["cls"] * 2}], suffixes=["cls"])
    assert [row["more"] for row in twice] == [0, 2, 4]


@pytest.mark.contract("F10.04")
def test_archives_that_are_refused(
    rd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered = tar_of(tmp_path / "a.tar", {"1.txt": b"a", "2.txt": b"b", "1.cls": b"1"})
    with pytest.raises(ValueError, match="next to each other"):
        rd.read_webdataset(scattered).take_all()
    pickled = tar_of(tmp_path / "b.tar", {"1.pkl": b"\x80\x04K\x01."})
    with pytest.raises(ValueError, match="RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION"):
        rd.read_webdataset(pickled).take_all()


@pytest.mark.contract("F10.04", "F10.25")
def test_archives_there_and_back(rd: Any, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="makes pictures")
    rows = [
        {
            "__key__": f"k{i}",
            "txt": f"t{i}",
            "cls": i,
            "json": {"a": i},
            "npy": np.full(3, i),
            "png": np.full((2, 2, 3), i, np.uint8),
        }
        for i in range(4)
    ]
    dataset = rd.from_items(rows, override_num_blocks=2)
    dataset.write_webdataset(str(tmp_path / "a"))
    assert len(list((tmp_path / "a").iterdir())) == 2
    found = rows_of(rd.read_webdataset(str(tmp_path / "a")), "__key__")
    for row, back in zip(rows, found, strict=True):
        assert {n: back[n] for n in ("txt", "cls", "json")} == {
            n: row[n] for n in ("txt", "cls", "json")
        }
        assert np.array_equal(back["npy"], row["npy"])
        assert np.array_equal(back["png"], row["png"])
    dataset.write_webdataset(
        str(tmp_path / "b"), encoder=lambda row: {"__key__": row["__key__"], "txt": "same"}
    )
    assert {r["txt"] for r in rd.read_webdataset(str(tmp_path / "b")).take_all()} == {"same"}
    with pytest.raises(ValueError, match="'number'"):
        rd.from_items([{"number": 5}]).write_webdataset(str(tmp_path / "c"))


# --- databases -------------------------------------------------------------------------------------


@pytest.mark.contract("F10.04", "F10.25")
def test_rows_into_a_database_and_back(rd: Any, tmp_path: Path) -> None:
    connect = partial(sqlite3.connect, str(tmp_path / "x.db"), timeout=60)
    connect().execute("CREATE TABLE t(i INTEGER, s TEXT)")
    rows = [{"i": i, "s": f"s{i}"} for i in range(300)]
    dataset = rd.from_items(rows, override_num_blocks=3)
    dataset.write_sql("INSERT INTO t VALUES(?, ?)", connect)
    assert rows_of(rd.read_sql("SELECT * FROM t", connect)) == rows
    with pytest.raises(sqlite3.OperationalError):
        dataset.write_sql("INSERT INTO nothing VALUES(?, ?)", connect)
    with pytest.raises(sqlite3.OperationalError):
        dataset.write_sql("INSERT INTO t VALUES(?, ?, ?)", connect)
    assert rd.read_sql("SELECT * FROM t WHERE i < ?", connect, sql_params=(3,)).count() == 3


# --- other libraries -------------------------------------------------------------------------------

FRAME = pd.DataFrame({"i": range(10), "x": [0.5 * i for i in range(10)]})


@pytest.mark.contract("F10.05", "F10.23")
def test_dask(rd: Any) -> None:
    dd = pytest.importorskip("dask.dataframe", reason="needs Dask")
    dataset = rd.from_dask(dd.from_pandas(FRAME, npartitions=3))
    assert dataset.num_blocks() == 3
    assert rows_of(dataset) == FRAME.to_dict(orient="records")
    back = dataset.map_batches(lambda b: {**b, "y": b["x"] * 2}).to_dask()
    assert back.npartitions == 3
    assert back["y"].sum().compute() == FRAME["x"].sum() * 2


@pytest.mark.contract("F10.05", "F10.23")
def test_daft(rd: Any) -> None:
    daft = pytest.importorskip("daft", reason="needs Daft")
    dataset = rd.from_daft(daft.from_pydict(FRAME.to_dict(orient="list")))
    assert rows_of(dataset) == FRAME.to_dict(orient="records")
    back = dataset.map_batches(lambda b: {**b, "y": b["x"] * 2}).to_daft()
    assert sum(back.to_pydict()["y"]) == FRAME["x"].sum() * 2


@pytest.mark.contract("F10.05")
def test_tensorflow(rd: Any) -> None:
    class Rows:
        """The part of a ``tf.data.Dataset`` that is used."""

        def as_numpy_iterator(self) -> Any:
            return iter([{"a": np.int64(i), "v": np.full(2, i)} for i in range(3)])

    rows = rows_of(rd.from_tf(Rows()), "a")
    assert [row["v"].tolist() for row in rows] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("'heliostat[modin]'", lambda rd: rd.range(1).to_modin()),
        ("'heliostat[modin]'", lambda rd: rd.from_modin(None)),
        ("'heliostat[dask]'", lambda rd: rd.from_dask(None)),
        ("raydp", lambda rd: rd.from_spark(None)),
        ("raydp", lambda rd: rd.range(1).to_spark(None)),
        ("'heliostat[daft]'", lambda rd: rd.range(1).to_daft()),
        ("pymars", lambda rd: rd.range(1).to_mars()),
    ],
)
@pytest.mark.contract("F10.04", "F10.05")
def test_a_package_that_is_missing_is_named(
    rd: Any, package: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "modin.distributed.dataframe.pandas",
        "raydp",
        "mars.dataframe",
        "dask.dataframe",
        "daft",
    ):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as caught:
        call(rd)
    assert f"pip install {package}" in str(caught.value)


# --- ORC -------------------------------------------------------------------------------------------


@pytest.mark.contract("F10.04", "F10.25")
def test_orc_files_there_and_back(rd: Any, tmp_path: Path) -> None:
    from pyarrow import orc

    rows = [
        {"i": i, "s": f"é{i}", "l": [i, None], "n": None if i % 3 else i / 2} for i in range(50)
    ]
    out = str(tmp_path / "out")
    rd.from_items(rows, override_num_blocks=3).write_orc(out, compression="zstd")
    written = sorted(Path(out).glob("*.orc"))
    assert len(written) == 3
    assert {orc.ORCFile(str(path)).compression for path in written} == {"ZSTD"}
    assert rows_of(rd.read_orc(out)) == rows
    with_paths = rd.read_orc([str(written[0])], include_paths=True).take_all()
    assert {row["path"] for row in with_paths} == {str(written[0])}
    with pytest.raises(ValueError, match="compress"):
        rd.from_items(rows).write_orc(out, arrow_open_stream_args={"compression": "gzip"})


@pytest.mark.contract("F10.04")
@pytest.mark.heliostat_only("Ray does not name the file")
def test_orc_files_that_are_broken_or_missing(rd: Any, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.orc", tmp_path / "broken.orc"
    with pytest.raises(FileNotFoundError, match="broken"):
        rd.read_orc(str(broken))
    rd.from_items([{"i": i} for i in range(1000)], override_num_blocks=1).write_orc(
        str(tmp_path / "out")
    )
    (made,) = (tmp_path / "out").glob("*.orc")
    whole.write_bytes(made.read_bytes())
    broken.write_bytes(made.read_bytes()[:200])
    with pytest.raises(Exception, match=f"cannot read {broken}: "):
        rd.read_orc([str(whole), str(broken)]).take_all()
    with pytest.raises(TypeError, match=r"read_orc\(\) got an unexpected keyword argument"):
        rd.read_orc(str(whole), columns=["i"])


@pytest.mark.contract("F10.04")
def test_orc_files_without_rows(rd: Any, tmp_path: Path) -> None:
    from pyarrow import orc

    orc.write_table(pa.table({"i": pa.array([], pa.int64())}), str(tmp_path / "a.orc"))
    assert rd.read_orc(str(tmp_path)).take_all() == []
