"""``read_parquet`` and its sisters: datasets of files."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from heliostat.data import block
from heliostat.data.dataset import Dataset
from heliostat.data.plan.operators import Read, ReadPart
from heliostat.data.sources import files as listing
from heliostat.data.sources import formats
from heliostat.data.sources.memory import read_count
from heliostat.data.sources.partitioning import Partitioning

FOOTERS_MAX = 64  # files whose footers the driver reads, one after the other
GROWTH = {"Parquet": 5.0, "Images": 8.0}  # bytes in memory for each byte of a file, about

REMOTE = (
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "label_selector",
    "fallback_strategy",
    "max_calls",
    "accelerator_type",
    "runtime_env",
)

_IMAGES = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]
_JSON = [
    f"{kind}{packed}" for packed in ("", ".gz", ".br", ".zst", ".lz4") for kind in ("json", "jsonl")
]


@dataclass
class Source:
    """The options that all kinds of files share."""

    paths: Any
    filesystem: Any = None
    extensions: list[str] | None = None
    ignore_missing: bool = False
    partitioning: Partitioning | None = None
    partition_filter: Any = None
    include_paths: bool = False
    shuffle: Any = None
    blocks: int | None = None

    def files(self) -> tuple[list[listing.File], Any]:
        """The files to read, and their filesystem."""
        keep = None
        if self.partition_filter is not None:
            chosen = self.partition_filter

            def keep(path: str) -> bool:
                return bool(chosen([path]))

        return listing.find(self.paths, self.filesystem, self.extensions, self.ignore_missing, keep)


class ReadFiles:
    """Reads some files in a task."""

    def __init__(
        self, source: Source, form: formats.Format, filesystem: Any, parts: list[Any]
    ) -> None:
        self._source, self._form, self._filesystem = source, form, filesystem
        self._parts = parts  # paths, or (path, row groups)

    def __call__(self) -> Iterator[Any]:
        small: list[Any] = []
        for part in self._parts:
            path, groups = part if isinstance(part, tuple) else (part, None)
            if groups is not None and isinstance(self._form, formats.Parquet):
                tables = self._form.fragment(self._filesystem, path, groups)
            else:
                tables = self._form.read(self._filesystem, path)
            for table in tables:
                made = self._with_columns(table, path)
                if made.num_rows > 1:
                    yield made
                    continue
                small.append(made)  # files of one row: images, binary files
                if len(small) >= 64:
                    yield block.concat(small)
                    small = []
        if small:
            yield block.concat(small)

    def _with_columns(self, table: Any, path: str) -> Any:
        partitioning = self._source.partitioning
        for name, value in (partitioning.parse(path) if partitioning else {}).items():
            if name not in table.column_names:
                table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
        if self._source.include_paths:
            table = table.append_column("path", pa.repeat(pa.scalar(path), table.num_rows))
        return table


def dataset(
    label: str,
    source: Source,
    form: formats.Format,
    remote_args: dict[str, Any],
    concurrency: int | None,
) -> Dataset:
    """A dataset of files; they are listed now, so that a missing one is told at once."""
    found, filesystem = source.files()
    growth = GROWTH.get(label, 1.0)
    size = int(sum(f.size for f in found) * growth)

    def tasks() -> list[ReadPart]:
        ordered = listing.in_order(found, source.shuffle)
        if not ordered:
            return []
        count = read_count(len(ordered), size / len(ordered), source.blocks)
        return [
            ReadPart(
                ReadFiles(source, form, filesystem, [f.path for f in group]),
                -1,
                int(sum(f.size for f in group) * growth),
                [f.path for f in group],
            )
            for group in listing.grouped(ordered, min(count, len(ordered)))
        ]

    plan = Read(
        label,
        tasks,
        remote_args=remote_args,
        concurrency=concurrency,
        files=lambda: [f.path for f in found],
    )
    return Dataset(plan)


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what is for the tasks, the rest)."""
    args = dict(options.pop("ray_remote_args", None) or {})
    for name in REMOTE:
        value = options.pop(name, None)
        if value is not None:
            args[name] = value
    return args, options


def _source(
    paths: Any,
    options: dict[str, Any],
    extensions: list[str] | None,
    partitioning: Partitioning | None,
) -> tuple[Source, int | None]:
    parallelism = options.pop("parallelism", -1)
    if parallelism != -1:
        warnings.warn(
            "`parallelism` is deprecated, use `override_num_blocks`.",
            DeprecationWarning,
            stacklevel=4,
        )
    blocks = options.pop("override_num_blocks", None)
    if options.pop("catalog", None) is not None:
        raise NotImplementedError("catalogs are not in this release; pass paths.")
    source = Source(
        paths,
        options.pop("filesystem", None),
        options.pop("file_extensions", extensions),
        options.pop("ignore_missing_paths", False),
        options.pop("partitioning", partitioning),
        options.pop("partition_filter", None),
        options.pop("include_paths", False),
        options.pop("shuffle", None),
        blocks if blocks is not None else (parallelism if parallelism > 0 else None),
    )
    listing.in_order([], source.shuffle)
    return source, options.pop("concurrency", None)


def _open_args(options: dict[str, Any]) -> dict[str, Any]:
    found = options.pop("arrow_open_stream_args", None) or options.pop("arrow_open_file_args", None)
    return dict(found or {})


def _refuse(name: str, options: dict[str, Any]) -> None:
    unknown = [k for k, v in options.items() if v is not None]
    if unknown:
        raise TypeError(f"{name}() got unexpected keyword arguments {unknown}")


def read_csv(paths: str | list[str], **options: Any) -> Dataset:
    """Return a dataset of CSV files.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        **options: Those of all readers: ``filesystem``, ``include_paths`` (adds the column "path"),
            ``file_extensions``, ``partitioning`` (default: hive), ``partition_filter``,
            ``ignore_missing_paths``, ``shuffle`` ("files" or a ``FileShuffleConfig``),
            ``override_num_blocks``, ``concurrency``, ``num_cpus``, ``ray_remote_args``,
            ``arrow_open_stream_args``; and those of ``pyarrow.csv.open_csv``.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file.
    """
    source, concurrency = _source(paths, options, None, Partitioning("hive"))
    remote, options = _split(options)
    form = formats.Csv(_open_args(options), options=_without(options, "arrow_csv_args"))
    return dataset("CSV", source, form, remote, concurrency)


def read_json(paths: str | list[str], *, lines: bool = False, **options: Any) -> Dataset:
    """Return a dataset of JSON files: one object a line, or a list of objects.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        lines: Whether each line is an object; otherwise it is found out.
        **options: Those of all readers, see :func:`read_csv`, and of ``pyarrow.json.read_json``.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    source, concurrency = _source(paths, options, _JSON, Partitioning("hive"))
    remote, options = _split(options)
    form = formats.Json(_open_args(options), lines, options)
    return dataset("JSON", source, form, remote, concurrency)


def read_text(
    paths: str | list[str],
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    **options: Any,
) -> Dataset:
    """Return a dataset of lines: the column "text". For the options see :func:`read_csv`."""
    source, concurrency = _source(paths, options, None, None)
    remote, options = _split(options)
    form = formats.Text(_open_args(options), encoding, drop_empty_lines)
    _refuse("read_text", options)
    return dataset("Text", source, form, remote, concurrency)


def read_binary_files(paths: str | list[str], **options: Any) -> Dataset:
    """Return a dataset of whole files: the column "bytes". For the options see :func:`read_csv`."""
    source, concurrency = _source(paths, options, None, None)
    remote, options = _split(options)
    form = formats.Binary(_open_args(options))
    _refuse("read_binary_files", options)
    return dataset("Binary", source, form, remote, concurrency)


def read_numpy(paths: str | list[str], *, allow_pickle: bool = False, **options: Any) -> Dataset:
    """Return a dataset of ``.npy`` files: the column "data". For the options see :func:`read_csv`."""
    source, concurrency = _source(paths, options, ["npy"], None)
    remote, options = _split(options)
    form = formats.Numpy(_open_args(options), allow_pickle, options)
    return dataset("Numpy", source, form, remote, concurrency)


def read_images(
    paths: str | list[str],
    *,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of pictures as arrays of height, width and channels: the column "image".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        size: Height and width to resize to. Default: pictures may differ.
        mode: PIL's name of the colours, such as "RGB" or "L".
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ValueError: ``size`` is not two positive numbers; while executing: a file is no picture.
    """
    if size is not None and (len(tuple(size)) != 2 or min(size) <= 0):
        raise ValueError(f"Expected `size` to contain two positive integers, got {size}.")
    source, concurrency = _source(paths, options, _IMAGES, None)
    remote, options = _split(options)
    form = formats.Images(_open_args(options), size, mode)
    _refuse("read_images", options)
    return dataset("Images", source, form, remote, concurrency)


def read_parquet(
    paths: str | list[str],
    *,
    columns: list[str] | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of Parquet files; large files are read in several tasks.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        columns: Columns to read; the others are not touched.
        **options: Those of all readers, see :func:`read_csv`; ``filter``, a ``pyarrow.dataset``
            expression that leaves out rows while reading; ``schema``, checked against nothing.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file, or none has one of the columns.
    """
    source, concurrency = _source(paths, options, ["parquet"], Partitioning("hive"))
    remote, options = _split(options)
    row_filter = options.pop("filter", None)
    for name in ("tensor_column_schema", "include_row_hash", "schema", "dataset_kwargs"):
        if options.pop(name, None):
            warnings.warn(f"read_parquet: `{name}` has no effect here.", UserWarning, stacklevel=2)
    options.pop("arrow_open_file_args", None)
    scan = dict(options.pop("arrow_parquet_args", None) or {}, **options)
    form = formats.Parquet({}, columns, row_filter, scan)
    return _parquet(source, form, remote, concurrency)


def _parquet(
    source: Source, form: formats.Parquet, remote: dict[str, Any], concurrency: int | None
) -> Dataset:
    import pyarrow.parquet as pq

    found, filesystem = source.files()
    partitions = source.partitioning.parse(found[0].path) if source.partitioning and found else {}

    @functools.cache
    def footer(path: str) -> Any:
        with filesystem.open_input_file(path) as file:
            return pq.ParquetFile(file)

    def schema() -> Any:
        known = footer(found[0].path).schema_arrow
        names = (
            known.names if form.columns is None else [c for c in form.columns if c in known.names]
        )
        chosen = pa.schema([known.field(n) for n in names])
        for name, value in partitions.items():
            if name not in chosen.names:
                chosen = chosen.append(pa.field(name, pa.scalar(value).type))
        return chosen.append(pa.field("path", pa.string())) if source.include_paths else chosen

    size = int(sum(f.size for f in found) * GROWTH["Parquet"])

    def tasks() -> list[ReadPart]:
        ordered = listing.in_order(found, source.shuffle)
        if not ordered:
            return []
        count = read_count(len(ordered), size / len(ordered), source.blocks)
        if count <= len(ordered):
            groups: list[list[Any]] = [[f.path for f in g] for g in listing.grouped(ordered, count)]
        else:
            groups = [[p] for p in _row_groups(ordered, count, footer)]
        sizes = {f.path: f.size for f in ordered}
        made = []
        for group in groups:
            paths = [p[0] if isinstance(p, tuple) else p for p in group]
            share = sum(sizes[p] for p in paths) * GROWTH["Parquet"] * len(groups)
            estimate = min(size / len(groups), share)
            read = ReadFiles(source, form, filesystem, group)
            made.append(ReadPart(read, -1, int(estimate), paths))
        return made

    rows = None
    if len(found) <= FOOTERS_MAX:
        footers = [footer(f.path) for f in found]
        there = {name for f in footers for name in f.schema_arrow.names} | set(partitions)
        missing = [c for c in form.columns or () if c.split(".")[0] not in there]
        if missing and footers:
            raise ValueError(
                f"read_parquet: no file has columns {missing}; there are {sorted(there)}."
            )
        if form.filter is None:
            rows = sum(f.metadata.num_rows for f in footers)
    plan = Read(
        "Parquet",
        tasks,
        rows,
        schema() if found else None,
        remote_args=remote,
        concurrency=concurrency,
        files=lambda: [f.path for f in found],
    )
    return Dataset(plan)


def _row_groups(
    files: list[listing.File], count: int, footer: Any
) -> Iterator[tuple[str, list[int] | None]]:
    """Files cut at row groups, into about ``count`` pieces."""
    total = sum(max(1, f.size) for f in files)
    for file in files:
        pieces = max(1, round(count * max(1, file.size) / total))
        groups = footer(file.path).metadata.num_row_groups if pieces > 1 else 1
        pieces = min(pieces, groups)
        if pieces == 1:
            yield file.path, None
            continue
        for i in range(pieces):
            chosen = list(range(i * groups // pieces, (i + 1) * groups // pieces))
            yield file.path, chosen


def _without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k not in names}
