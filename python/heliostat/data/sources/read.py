"""``read_parquet`` and its sisters: datasets of files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heliostat.data import checks
from heliostat.data.catalog import ReaderFormat, resolved
from heliostat.data.dataset import Dataset
from heliostat.data.sources import files as listing
from heliostat.data.sources import formats
from heliostat.data.sources import options as shared
from heliostat.data.sources.file_reads import Source, dataset
from heliostat.data.sources.options import OF_FILES, shows, spelled
from heliostat.data.sources.parquet import parquet
from heliostat.data.sources.parquet_files import Parquet
from heliostat.data.sources.partitioning import Partitioning, PathPartitionParser
from heliostat.data.sources.record_formats import Avro, TfRecords, WebDataset
from heliostat.data.tfrecords import kinds_of
from heliostat.data.webdataset import Patterns, Rename

if TYPE_CHECKING:
    from heliostat.data.aliases import RemoteArgs, Value


# Arguments of pyarrow's scanner that are passed on here, and those of ``numpy.load``.
_OF_SCANNER = (
    "batch_readahead",
    "batch_size",
    "cache_metadata",
    "columns",
    "filter",
    "fragment_readahead",
    "fragment_scan_options",
    "memory_pool",
    "use_threads",
)
_OF_NUMPY = ("encoding", "fix_imports", "max_header_size", "mmap_mode")
_IMAGES = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]
_JSON = [
    f"{kind}{packed}" for packed in ("", ".gz", ".br", ".zst", ".lz4") for kind in ("json", "jsonl")
]
_HIVE = Partitioning("hive")
_OF_PARQUET = {
    **OF_FILES,
    "catalog": None,
    "filter": None,
    "schema": None,
    "skip_paths": None,
    "tensor_column_schema": None,
    "include_row_hash": False,
    "partitioning": _HIVE,
    "file_extensions": ["parquet"],
}
_OF_PARQUET.pop("arrow_open_stream_args")


def _source(
    paths: str | list[str],
    options: dict[str, Value],
    extensions: list[str] | None,
    partitioning: Partitioning | None,
) -> tuple[Source, int | None]:
    blocks = shared.blocks(options, stacklevel=5)
    given = options.pop("partitioning", partitioning)
    source = Source(
        paths,
        options.pop("filesystem", None),
        options.pop("file_extensions", extensions),
        options.pop("ignore_missing_paths", False),
        PathPartitionParser(given) if given is not None else None,
        options.pop("partition_filter", None),
        options.pop("include_paths", False),
        options.pop("shuffle", None),
        blocks,
    )
    listing.in_order([], source.shuffle)
    return source, options.pop("concurrency", None)


def _open_args(options: dict[str, Value]) -> dict[str, object]:
    found = options.pop("arrow_open_stream_args", None) or options.pop("arrow_open_file_args", None)
    return dict(found or {})


FILES = (
    "arrow_open_file_args",
    "arrow_open_stream_args",
    "file_extensions",
    "filesystem",
    "ignore_missing_paths",
    "include_paths",
    "partition_filter",
    "partitioning",
    "paths",
    "shuffle",
)


def refuse(
    name: str,
    options: dict[str, Value],
    *known: str,
    inside: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Raise ``TypeError`` for options that are left, of which the function takes those ``known``."""
    there = (*FILES, *known)
    left = [k for k, v in options.items() if k not in known and (v is not None or k not in there)]
    shared.refuse(name, left, there, inside=inside)


def _of_csv() -> dict[str, str]:
    """By name, what to write for the options of pyarrow's reader of CSV, which takes them in objects."""
    from pyarrow import csv

    return {
        name: f"{keyword}=pyarrow.csv.{kind.__name__}({name}=...)"
        for keyword, kind in (
            ("read_options", csv.ReadOptions),
            ("parse_options", csv.ParseOptions),
            ("convert_options", csv.ConvertOptions),
        )
        for name in dir(kind)
        if name[0] != "_" and name not in ("equals", "validate")
    }


def begun(
    paths: str | list[str], options: dict[str, object], extensions: list[str] | None
) -> tuple[Source, int | None, RemoteArgs, dict[str, object]]:
    """(the files, tasks at a time, options of the tasks, options of opening); they are taken out."""
    source, concurrency = _source(paths, options, extensions, None)
    return source, concurrency, shared.of_tasks(options), _open_args(options)


@spelled
@shows(OF_FILES, "arrow_csv_args", partitioning=_HIVE)
def read_csv(paths: str | list[str], **options: object) -> Dataset:
    r"""Return a dataset of CSV files.

    Args:
        paths: A path or URI of a file or folder, or a list of them. One at which there is nothing may be a
            pattern, such as "logs/2024-*/*.csv"; ``**`` is any number of folders.
        **options: Those of all readers: ``filesystem``, ``include_paths`` (adds the column "path"),
            ``file_extensions``, ``partitioning`` (default: hive), ``partition_filter``,
            ``ignore_missing_paths``, ``shuffle`` ("files" or a ``FileShuffleConfig``),
            ``override_num_blocks``, ``concurrency``, ``num_cpus``, ``ray_remote_args``,
            ``arrow_open_stream_args``; and those of ``pyarrow.csv.open_csv``.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.csv").write_text("x,y\n1,2\n")
        ...     ray.data.read_csv(folder).take_all()
        [{'x': 1, 'y': 2}]
    """
    source, concurrency = _source(paths, options, None, _HIVE)
    remote = shared.of_tasks(options)
    open_args, options = _open_args(options), _without(options, "arrow_csv_args")
    refuse(
        "read_csv",
        options,
        "read_options",
        "parse_options",
        "convert_options",
        "memory_pool",
        inside=_of_csv,
    )
    form = formats.Csv(open_args, options=options)
    return dataset("CSV", source, form, remote, concurrency)


@spelled
@shows(OF_FILES, "arrow_json_args", partitioning=_HIVE, file_extensions=_JSON)
def read_json(paths: str | list[str], *, lines: bool = False, **options: object) -> Dataset:
    r"""Return a dataset of JSON files: one object a line, or a list of objects.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        lines: Whether each line is an object; otherwise it is found out.
        **options: Those of all readers, see :func:`read_csv`, and of ``pyarrow.json.read_json``.

    Raises:
        FileNotFoundError: A path does not exist.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        ...     ray.data.read_json(folder, lines=True).take_all()
        [{'x': 1}, {'x': 2}]
    """
    source, concurrency = _source(paths, options, _JSON, _HIVE)
    remote = shared.of_tasks(options)
    open_args = _open_args(options)
    refuse("read_json", options, "read_options", "parse_options", "memory_pool")
    form = formats.Json(open_args, lines, options)
    return dataset("JSON", source, form, remote, concurrency)


@spelled
@shows(OF_FILES, file_extensions=["orc"])
def read_orc(paths: str | list[str], **options: object) -> Dataset:
    """Return a dataset of ORC files.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        **options: Those of all readers, see :func:`read_csv`; ``partitioning`` is None by default.

    Raises:
        FileNotFoundError: A path does not exist.

    Examples:
        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> import pyarrow.orc
        >>> import ray
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.orc")
        >>> pyarrow.orc.write_table(pa.table({"x": [1, 2]}), str(path))
        >>> ray.data.read_orc(str(path)).take_all()
        [{'x': 1}, {'x': 2}]
    """
    source, concurrency = _source(paths, options, ["orc"], None)
    remote = shared.of_tasks(options)
    refuse("read_orc", options)
    return dataset("ORC", source, formats.Orc(), remote, concurrency)


@spelled
@shows(OF_FILES)
def read_text(
    paths: str | list[str],
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    **options: object,
) -> Dataset:
    r"""Return a dataset of lines: the column "text".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        encoding: The encoding of the files. Default ``"utf-8"``.
        drop_empty_lines: Leave empty lines out. Default True.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        FileNotFoundError: A path does not exist.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_text("one\ntwo\n")
        ...     ray.data.read_text(folder).take_all()
        [{'text': 'one'}, {'text': 'two'}]
    """
    source, concurrency = _source(paths, options, None, None)
    remote = shared.of_tasks(options)
    form = formats.Text(_open_args(options), encoding, drop_empty_lines)
    refuse("read_text", options, "encoding", "drop_empty_lines")
    return dataset("Text", source, form, remote, concurrency)


@spelled
@shows(OF_FILES)
def read_binary_files(paths: str | list[str], **options: object) -> Dataset:
    r"""Return a dataset of whole files: the column "bytes".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        FileNotFoundError: A path does not exist.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.bin").write_bytes(b"\x01\x02")
        ...     ray.data.read_binary_files(folder).take_all()
        [{'bytes': b'\x01\x02'}]
    """
    source, concurrency = _source(paths, options, None, None)
    remote = shared.of_tasks(options)
    form = formats.Binary(_open_args(options))
    refuse("read_binary_files", options)
    return dataset("Binary", source, form, remote, concurrency)


@spelled
@shows(OF_FILES, "numpy_load_args", file_extensions=["npy"])
def read_numpy(paths: str | list[str], *, allow_pickle: bool = False, **options: object) -> Dataset:
    """Return a dataset of ``.npy`` files: the column "data".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        allow_pickle: Read arrays of objects, which are pickles: only from those you trust. Default
            False.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        FileNotFoundError: A path does not exist.

    Examples:
        >>> import ray
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder, "a.npy"), np.arange(3))
        ...     ray.data.read_numpy(folder).take_all()
        [{'data': 0}, {'data': 1}, {'data': 2}]
    """
    source, concurrency = _source(paths, options, ["npy"], None)
    remote = shared.of_tasks(options)
    open_args = _open_args(options)
    refuse("read_numpy", options, *_OF_NUMPY)
    form = formats.Numpy(open_args, allow_pickle, options)
    return dataset("Numpy", source, form, remote, concurrency)


@spelled
@shows(OF_FILES)
def read_avro(paths: str | list[str], **options: object) -> Dataset:
    """Return a dataset of Avro files.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ImportError: While executing: the package ``fastavro`` is not installed.

    Examples:
        >>> import pathlib, tempfile
        >>> import fastavro
        >>> import ray
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.avro")
        >>> schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": "int"}]}
        >>> with open(path, "wb") as file:
        ...     fastavro.writer(file, schema, [{"x": 1}, {"x": 2}])
        >>> ray.data.read_avro(str(path)).take_all()
        [{'x': 1}, {'x': 2}]
    """
    source, concurrency = _source(paths, options, None, None)
    remote = shared.of_tasks(options)
    form = Avro(_open_args(options))
    refuse("read_avro", options)
    return dataset("Avro", source, form, remote, concurrency)


@spelled
@shows(OF_FILES)
def read_tfrecords(
    paths: str | list[str], *, tf_schema: object = None, **options: object
) -> Dataset:
    """Return a dataset of TFRecord files whose records are ``tf.train.Example``; needs no TensorFlow.

    A column is of numbers or bytes if each record has one value, of lists otherwise.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        tf_schema: The ``Schema`` of tensorflow-metadata that says the features and their types. With
            it all columns are of lists.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ImportError: While executing: ``protobuf`` or ``google-crc32c`` is not installed.
        ValueError: While executing: a record is not an example, or does not agree with the schema.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.from_items([{"x": 1, "name": b"one"}]).write_tfrecords(folder)
        >>> sorted(ray.data.read_tfrecords(folder).take(1)[0].items())
        [('name', b'one'), ('x', 1)]
    """
    source, concurrency = _source(paths, options, None, None)
    remote = shared.of_tasks(options)
    form = TfRecords(_open_args(options), kinds_of(tf_schema))
    options.pop("tfx_read_options", None)
    refuse("read_tfrecords", options, "tf_schema")
    return dataset("TFRecords", source, form, remote, concurrency)


@spelled
@shows(OF_FILES)
def read_webdataset(
    paths: str | list[str],
    *,
    decoder: object = True,
    fileselect: Patterns | None = None,
    filerename: Rename = None,
    suffixes: Patterns | None = None,
    verbose_open: bool = False,
    expand_json: bool = False,
    **options: object,
) -> Dataset:
    """Return a dataset of tar archives: neighbouring files that differ in their ending are a row.

    Columns are named by ending; "__key__" is the common name, "__url__" the archive. Text, classes
    (.cls), JSON, arrays (.npy) and pictures are decoded, others are bytes.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        decoder: A function of a row, a list of functions, "PIL" for pictures of PIL, None for bytes.
            Default: by ending.
        fileselect: A function of a file's name, or patterns: which files to read.
        filerename: A function of a file's name, or pairs of a regular expression and a replacement.
        suffixes: A function of an ending, or patterns: which endings to read.
        verbose_open: Without effect.
        expand_json: Make columns of the keys of the "json" file.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ValueError: While executing: the files of a row are not next to each other, or a file would be
            unpickled, see the environment variable that the message names.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.from_items([{"__key__": "0", "txt": "hello"}]).write_webdataset(folder)
        >>> ray.data.read_webdataset(folder).take_all()[0]["txt"]
        'hello'
    """
    source, concurrency = _source(paths, options, None, None)
    remote = shared.of_tasks(options)
    form = WebDataset(_open_args(options), decoder, fileselect, filerename, suffixes, expand_json)
    refuse(
        "read_webdataset", options, "decoder", "fileselect", "filerename", "suffixes", "expand_json"
    )
    return dataset("WebDataset", source, form, remote, concurrency)


@spelled
@shows(OF_FILES, arrow_open_file_args=None, file_extensions=_IMAGES)
def read_images(
    paths: str | list[str],
    *,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of pictures as arrays of height, width and channels: the column "image".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        size: Height and width to resize to. Default: pictures may differ.
        mode: PIL's name of the colours, such as "RGB" or "L".
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ValueError: ``size`` is not two positive numbers; while executing: a file is not a picture.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (4, 3)).save(pathlib.Path(folder, "a.png"))
        ...     ray.data.read_images(folder).take(1)[0]["image"].shape
        (3, 4, 3)
    """
    if size is not None and (len(tuple(size)) != 2 or min(size) <= 0):
        raise ValueError(f"Expected `size` to contain two positive integers, got {size}.")
    source, concurrency = _source(paths, options, _IMAGES, None)
    remote = shared.of_tasks(options)
    form = formats.Images(_open_args(options), size, mode)
    refuse("read_images", options, "size", "mode")
    return dataset("Images", source, form, remote, concurrency)


@spelled
@shows(_OF_PARQUET, "arrow_parquet_args")
def read_parquet(
    paths: str | list[str],
    *,
    columns: str | Sequence[str] | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of Parquet files; large files are read in several tasks.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        columns: Columns of the dataset, in this order, those of the folders' names and "path" included;
            the others are not touched. Default: all.
        **options: Those of all readers, see :func:`read_csv`; ``filter``, a ``pyarrow.dataset``
            expression that leaves out rows while reading; ``catalog``, a :class:`Catalog` that knows where
            the table is whose name is ``paths``; ``skip_paths``, a path or several of files that are
            not read; ``schema``, checked against nothing.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file, or none has one of the columns.

    Examples:
        >>> import ray
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ray.data.range(100).write_parquet(folder)
        ...     ray.data.read_parquet(folder, columns=["id"]).count()
        100
    """
    if columns is not None:
        columns = checks.names("columns", columns)
        twice = [name for name in columns if columns.count(name) > 1]
        if twice:
            raise ValueError(f"read_parquet: columns={columns} has {twice[0]!r} twice.")
    catalog = options.pop("catalog", None)
    if catalog is not None:
        found = resolved(catalog, paths, ReaderFormat.PARQUET)
        paths = found.path or ""
        options["filesystem"] = found.filesystem or options.get("filesystem")
    skipped = options.pop("skip_paths", None)
    if skipped:
        paths, options["partition_filter"] = listing.without(
            paths, skipped, options.get("filesystem"), options.get("partition_filter")
        )
    source, concurrency = _source(paths, options, ["parquet"], _HIVE)
    remote = shared.of_tasks(options)
    row_filter = options.pop("filter", None)
    for name in ("tensor_column_schema", "include_row_hash", "schema", "dataset_kwargs"):
        if options.pop(name, None):
            warnings.warn(f"read_parquet: `{name}` has no effect here.", UserWarning, stacklevel=3)
    options.pop("arrow_open_file_args", None)
    scan = dict(options.pop("arrow_parquet_args", None) or {})
    refuse("read_parquet", options, *_OF_SCANNER)
    scan.update(options)
    form = Parquet({}, columns, row_filter, scan)
    return parquet(source, form, remote, concurrency)


def _without(options: dict[str, object], *names: str) -> dict[str, object]:
    return {k: v for k, v in options.items() if k not in names}
