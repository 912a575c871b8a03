"""Columns that stand in the names of folders: ``year=2024/month=5/data.parquet``."""

from __future__ import annotations

import enum
import posixpath
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.data.sources.files import resolve

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from heliostat.data.aliases import Row, Value


class PartitionStyle(str, enum.Enum):
    """The form of folders that name columns: ``name=value``, or values alone.

    Examples:
        >>> from ray.data.datasource import Partitioning, PartitionStyle
        >>> Partitioning(PartitionStyle.HIVE).style
        <PartitionStyle.HIVE: 'hive'>
    """

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclass
class Partitioning:
    r"""The columns that folders name, and in which form.

    Args:
        style: "hive" (``name=value``) or "dir" (values alone; ``field_names`` gives the names).
        base_dir: Where the folders begin. Default: at the root.
        field_names: Names of the columns, in the order of the folders; for "hive" they are checked. For
            "dir", None passes over a folder.
        field_types: Python types of the values by name. Default: str.
        filesystem: Where ``base_dir`` is, if its path does not say so.

    Examples:
        >>> import pathlib, tempfile
        >>> import ray
        >>> from ray.data.datasource import Partitioning
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "2024").mkdir()
        >>> _ = (folder / "2024/a.csv").write_text("x\n1\n")
        >>> years = Partitioning("dir", base_dir=str(folder), field_names=["year"], field_types={"year": int})
        >>> ray.data.read_csv(str(folder), partitioning=years).take_all()
        [{'x': 1, 'year': 2024}]
    """

    style: PartitionStyle | str = PartitionStyle.HIVE
    base_dir: str | None = None
    field_names: Sequence[str | None] | None = None
    field_types: dict[str, type] = field(default_factory=dict)
    filesystem: pa.fs.FileSystem | None = None

    def __post_init__(self) -> None:
        self.base_dir = self.base_dir or ""
        self.field_types = self.field_types or {}

    @property
    def normalized_base_dir(self) -> str:
        """``base_dir`` as paths of files begin, with a slash at its end; empty if there is none."""
        if not self.base_dir:
            return ""
        return resolve(self.base_dir, self.filesystem)[0].rstrip("/") + "/"

    @property
    def resolved_filesystem(self) -> pa.fs.FileSystem:
        """The pyarrow filesystem of ``base_dir``."""
        return resolve(self.base_dir or "/", self.filesystem)[1]

    def to_pyarrow(self) -> pads.Partitioning:
        """Return the same as a ``pyarrow.dataset.Partitioning``."""
        import pyarrow.dataset as pads

        names = [name for name in self.field_names or self.field_types if name is not None]
        kinds: dict[type | None, pa.DataType] = {
            int: pa.int64(),
            float: pa.float64(),
            bool: pa.bool_(),
        }
        schema = pa.schema([(n, kinds.get(self.field_types.get(n), pa.string())) for n in names])
        is_hive = PartitionStyle(self.style) is PartitionStyle.HIVE
        return pads.HivePartitioning(schema) if is_hive else pads.DirectoryPartitioning(schema)


class PathPartitionParser:
    """Finds the columns that a file's path names: ``parser(path)`` gives a dict.

    Args:
        partitioning: How folders name columns.

    Raises:
        ValueError: The style is unknown, or "dir" without ``field_names``.

    Examples:
        >>> from ray.data.datasource import PathPartitionParser
        >>> PathPartitionParser.of()("bucket/year=2024/month=5/a.csv")
        {'year': '2024', 'month': '5'}
    """

    def __init__(self, partitioning: Partitioning) -> None:
        styles = [style.value for style in PartitionStyle]
        if partitioning.style not in styles:
            raise ValueError(
                f"Unsupported partition style: {partitioning.style!r}. Use one of {styles}."
            )
        if partitioning.style == PartitionStyle.DIRECTORY and not partitioning.field_names:
            raise ValueError(
                "Directory partitioning needs the names of its columns: give `field_names`."
            )
        self._scheme = partitioning
        self._base = partitioning.normalized_base_dir

    @staticmethod
    def of(
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: pa.fs.FileSystem | None = None,
    ) -> PathPartitionParser:
        """Return one from the arguments of ``Partitioning``.

        Args:
            style: ``"hive"`` (the default): folders are ``name=value``; ``"dir"``: they are values.
            base_dir: The folder below which folders name columns. Default: any.
            field_names: The columns' names, for ``"dir"``.
            field_types: Types by column. Default: texts.
            filesystem: Of pyarrow, where ``base_dir`` is a URI.
        """
        types = field_types or {}
        return PathPartitionParser(Partitioning(style, base_dir, field_names, types, filesystem))

    @property
    def scheme(self) -> Partitioning:
        """The partitioning of the files."""
        return self._scheme

    def __call__(self, path: str) -> Row:
        """The columns of a file; none for one that lies outside of ``base_dir``, or in no folder.

        Raises:
            ValueError: The folders are not as many as ``field_names``, or have other names.
            KeyError: ``field_types`` has a name that the folders do not have.
        """
        if not path.startswith(self._base):
            return {}
        is_hive = self._scheme.style == PartitionStyle.HIVE
        if is_hive and "=" not in path and not self._scheme.field_types:
            return {}
        folders = [f for f in posixpath.dirname(path[len(self._base) :]).split("/") if f]
        found = self._named(folders) if is_hive else self._placed(folders)
        unknown = [name for name in self._scheme.field_types if name not in found]
        if found and unknown:
            raise KeyError(
                f"field_types: the folders have no column {unknown[0]!r}; they have {list(found)}"
            )
        return {name: self._typed(name, value) for name, value in found.items()}

    def _named(self, folders: list[str]) -> dict[str, str]:
        pairs = [f.split("=") for f in folders if f.count("=") == 1]
        found = {name: urllib.parse.unquote(value) for name, value in pairs}
        names = self._scheme.field_names
        if names and found and list(found) != list(names):
            raise ValueError(f"Expected the partition columns {names}, but found {list(found)}.")
        return found

    def _placed(self, folders: list[str]) -> dict[str, str]:
        names = self._scheme.field_names or []
        if folders and len(folders) != len(names):
            raise ValueError(
                f"Expected {len(names)} partition value(s) but found {len(folders)}: {folders}. The "
                "folders above the first one belong into `base_dir`."
            )
        placed = zip(names, folders, strict=False)
        return {name: value for name, value in placed if name is not None}

    def _typed(self, name: str, value: str) -> Value:
        kind = self._scheme.field_types.get(name)
        if kind is None or kind is str:
            return value
        return value.lower() in ("1", "true") if kind is bool else kind(value)


class PathPartitionFilter:
    r"""Keeps the files whose partition columns pass a function.

    Args:
        path_partition_parser: Finds the columns.
        filter_fn: Takes a dict of the partition columns; returns whether the file is read. ``None``:
            all are.

    Examples:
        >>> import pathlib, tempfile
        >>> import ray
        >>> from ray.data.datasource import PathPartitionFilter
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for year in (2023, 2024):
        ...     (folder / f"year={year}").mkdir()
        ...     _ = (folder / f"year={year}" / "a.csv").write_text(f"x\n{year}\n")
        >>> newer = PathPartitionFilter.of(lambda columns: columns["year"] == "2024")
        >>> ray.data.read_csv(str(folder), partition_filter=newer).columns()
        ['x', 'year']
        >>> ray.data.read_csv(str(folder), partition_filter=newer).count()
        1
    """

    def __init__(
        self,
        path_partition_parser: PathPartitionParser,
        filter_fn: Callable[[Row], bool] | None,
    ) -> None:
        self._parser, self._keep = path_partition_parser, filter_fn

    @staticmethod
    def of(
        filter_fn: Callable[[Row], bool] | None,
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: pa.fs.FileSystem | None = None,
    ) -> PathPartitionFilter:
        """Return one from a function and the arguments of ``Partitioning``.

        Args:
            filter_fn: Takes a dict of the partition columns; returns whether the file is read. ``None``:
                all are.
            style: ``"hive"`` (the default): folders are ``name=value``; ``"dir"``: they are values.
            base_dir: The folder below which folders name columns. Default: any.
            field_names: The columns' names, for ``"dir"``.
            field_types: Types by column. Default: texts.
            filesystem: Of pyarrow, where ``base_dir`` is a URI.
        """
        parser = PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionFilter(parser, filter_fn)

    @property
    def parser(self) -> PathPartitionParser:
        """The parser that finds the columns."""
        return self._parser

    def apply(self, path: str) -> bool:
        """Return whether a file passes.

        Args:
            path: The file's path.
        """
        return self._keep is None or bool(self._keep(self._parser(path)))

    def __call__(self, paths: list[str]) -> list[str]:
        """The paths that pass."""
        return [path for path in paths if self.apply(path)]
