"""LeRobot datasets, version 3: their metadata, and the tasks that read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from heliostat.core.platform.extras import required
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources import files as listing
from heliostat.data.sources import lerobot_frames
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.lerobot_frames import Span, Window
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value
    from heliostat.data.context import DataContext


_KNOWN = (
    "root",
    "episodes",
    "read_granularity",
    "filesystem",
    "frame_tolerance_s",
    "delta_timestamps",
    "delta_tolerance_s",
    "storage_options",
)


@spelled
@shows(OF_TASKS)
def read_lerobot(
    root: str | list[str],
    *,
    episodes: list[int] | None = None,
    read_granularity: Literal["file", "episode"] = "file",
    filesystem: pa.fs.FileSystem | None = None,
    frame_tolerance_s: float | None = None,
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    delta_tolerance_s: float = 1e-4,
    storage_options: dict[str, object] | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of the frames of LeRobot datasets of version 3, which robots have recorded.

    A row has the columns of the dataset's Parquet files, the pictures of each camera as arrays of
    height, width and colours, "task" in words, "dataset_index" (which of several roots it is of) and "stats",
    the dataset's statistics as JSON.

    Args:
        root: The folder or URI of the dataset, or several. They have the same features and frames a second.
        episodes: Which episodes to read: the files of others are not opened. Default: all.
        read_granularity: "file" (the default): a task for the episodes of the same files; "episode": a
            task for each episode.
        filesystem: A filesystem of pyarrow or fsspec. Default: by the path.
        frame_tolerance_s: How far the time of a film's picture may be from the row's, in seconds. Default:
            half of the time between two frames.
        delta_timestamps: By feature, offsets in seconds: each row gets the feature at those times, within
            its episode, in one array, and in "<feature>_is_pad" which of them lie outside of the episode
            and have its first or last frame instead. Default: only the row's own.
        delta_tolerance_s: How far an offset may be from a whole number of frames, in seconds. Default
            0.0001.
        storage_options: Options of fsspec for the filesystem, where ``filesystem`` is not given.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: av or pillow is not installed, and the dataset has films or pictures.
        FileNotFoundError: There is no LeRobot dataset.
        ValueError: It is of another version, there is no such episode or feature, offsets are between two
            frames, or several datasets are not alike. While executing: a film lacks a frame.

    Examples:
        >>> import ray
        >>> def frames():
        ...     return ray.data.read_lerobot("/data/pusht", episodes=[0, 1, 2])
    """
    if read_granularity not in ("file", "episode"):
        raise ValueError(f"read_granularity must be 'file' or 'episode', not {read_granularity!r}.")
    roots = [root] if isinstance(root, str) else list(root)
    if not roots:
        raise ValueError("read_lerobot: root is an empty list.")
    found = [_opened(one, filesystem, storage_options) for one in roots]
    first = found[0]
    for other in found[1:]:
        if other.kind != first.kind:
            raise ValueError(
                f"read_lerobot: {other.root} has other cameras, features or frames a second than "
                f"{first.root}: {other.kind} instead of {first.kind}."
            )
    if first.videos:
        required("av", "Films of LeRobot datasets")
    if first.pictures:
        required("PIL", "Pictures of LeRobot datasets")
    windows = _windows(first, delta_timestamps or {}, delta_tolerance_s)
    tolerance = 0.5 / first.fps if frame_tolerance_s is None else frame_tolerance_s
    groups = _groups(found, episodes, read_granularity)
    source = _LeRobot(found, groups, windows, tolerance)
    wanted = options.get("override_num_blocks")
    if windows and wanted is not None and wanted > len(groups):
        raise ValueError(
            f"override_num_blocks is {wanted}: with delta_timestamps tasks read whole episodes, and there "
            f"are {len(groups)} groups of them (read_granularity={read_granularity!r})."
        )
    options.setdefault("override_num_blocks", len(groups) or None)
    return dataset_of(source, "read_lerobot", options, _KNOWN)


@dataclass(frozen=True)
class Episode:
    """A recording: where its rows and its pictures are."""

    number: int
    length: int
    data: str  # path of the Parquet file
    films: dict[str, tuple[str, float]] = field(default_factory=dict)  # by camera: path, begin (s)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are opened for it: films, where there are any."""
        return tuple(path for path, _ in self.films.values()) or (self.data,)


@dataclass(frozen=True)
class Recordings:
    """A LeRobot dataset: its metadata."""

    root: str
    filesystem: pa.fs.FileSystem
    fps: float
    features: dict[str, dict[str, Value]]
    stats: str  # JSON
    tasks: dict[int, str]
    episodes: list[Episode]

    @property
    def videos(self) -> list[str]:
        """The features that are films."""
        return sorted(n for n, about in self.features.items() if about.get("dtype") == "video")

    @property
    def pictures(self) -> list[str]:
        """The features that are pictures in the rows."""
        return sorted(n for n, about in self.features.items() if about.get("dtype") == "image")

    @property
    def kind(self) -> tuple[object, ...]:
        """The features that datasets which are read together have in common."""
        plain = sorted(set(self.features) - set(self.videos))
        return self.videos, self.pictures, self.fps, plain


def _opened(
    root: str, filesystem: pa.fs.FileSystem, storage_options: dict[str, object] | None
) -> Recordings:
    given = filesystem
    if given is None and storage_options:
        import fsspec

        given = fsspec.core.url_to_fs(root, **storage_options)[0]
    path, used = listing.resolve(root, given)
    if used.get_file_info(f"{path}/meta/info.json").type != pafs.FileType.File:
        raise FileNotFoundError(f"{root} is not a LeRobot dataset: it has no file meta/info.json")
    info = json.loads(_read(used, f"{path}/meta/info.json"))
    version = str(info.get("codebase_version", ""))
    if not version.startswith("v3."):
        raise ValueError(
            f"{root} is a LeRobot dataset of version {version or 'unknown'}; read_lerobot reads version 3. "
            "The package lerobot converts older ones."
        )
    stats = "{}"
    if used.get_file_info(f"{path}/meta/stats.json").type == pafs.FileType.File:
        stats = json.dumps(json.loads(_read(used, f"{path}/meta/stats.json")))
    return Recordings(
        root,
        used,
        float(info["fps"]),
        info["features"],
        stats,
        _tasks(used, f"{path}/meta/tasks.parquet"),
        _episodes(used, path, info),
    )


def _read(filesystem: pa.fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_file(path) as file:
        return bytes(file.read())


def _tasks(filesystem: pa.fs.FileSystem, path: str) -> dict[int, str]:
    """The tasks in words, by number."""
    if filesystem.get_file_info(path).type != pafs.FileType.File:
        return {}
    table = pq.read_table(path, filesystem=filesystem)
    words = next(name for name in table.column_names if name != "task_index")
    numbers = table.column("task_index").to_pylist()
    return dict(zip(numbers, table.column(words).to_pylist(), strict=True))


def _episodes(filesystem: pa.fs.FileSystem, path: str, info: dict[str, Value]) -> list[Episode]:
    cameras = sorted(n for n, about in info["features"].items() if about.get("dtype") == "video")
    wanted = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for camera in cameras:
        wanted += [
            f"videos/{camera}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")
        ]
    selector = pafs.FileSelector(f"{path}/meta/episodes", recursive=True)
    files = sorted(
        one.path for one in filesystem.get_file_info(selector) if one.path.endswith(".parquet")
    )
    found = []
    for file in files:
        for row in pq.read_table(file, filesystem=filesystem, columns=wanted).to_pylist():
            films = {
                camera: (
                    f"{path}/"
                    + info["video_path"].format(
                        video_key=camera,
                        chunk_index=row[f"videos/{camera}/chunk_index"],
                        file_index=row[f"videos/{camera}/file_index"],
                    ),
                    float(row[f"videos/{camera}/from_timestamp"]),
                )
                for camera in cameras
            }
            data = info["data_path"].format(
                chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
            )
            found.append(Episode(row["episode_index"], row["length"], f"{path}/{data}", films))
    return sorted(found, key=lambda one: one.number)


def _windows(
    of: Recordings, asked: Mapping[str, Sequence[float]], tolerance_s: float
) -> dict[str, Window]:
    """The steps, in frames, at which each feature is wanted."""
    made = {}
    for name, offsets in asked.items():
        if name not in of.features:
            raise ValueError(
                f"delta_timestamps: there is no feature {name!r}; there are {sorted(of.features)}."
            )
        steps = [round(offset * of.fps) for offset in offsets]
        wrong = [
            offset
            for offset, step in zip(offsets, steps, strict=True)
            if abs(offset - step / of.fps) > tolerance_s
        ]
        if wrong or not steps:
            raise ValueError(
                f"delta_timestamps of {name!r} must be multiples of 1/{of.fps:g} s, not {wrong}."
            )
        made[name] = tuple(steps)
    return made


Group = tuple[int, list[Span]]  # which dataset, and what of it one task reads


def _groups(found: list[Recordings], wanted: Iterable[int] | None, granularity: str) -> list[Group]:
    chosen = None if wanted is None else set(wanted)
    if chosen is not None:
        there = {episode.number for one in found for episode in one.episodes}
        missing = sorted(chosen - there)
        if missing:
            raise ValueError(f"read_lerobot: there are no episodes {missing}.")
    groups: list[Group] = []
    for number, one in enumerate(found):
        last: tuple[str, ...] | None = None
        for episode in one.episodes:
            if chosen is not None and episode.number not in chosen:
                continue
            span = Span(episode, 0, episode.length)
            if granularity == "file" and episode.files == last:
                groups[-1][1].append(span)
            else:
                groups.append((number, [span]))
            last = episode.files
    return groups


@dataclass(frozen=True)
class _LeRobot(Datasource):
    """The episodes in groups; there may be asked for more tasks than groups, or fewer."""

    found: list[Recordings]
    groups: list[Group]
    windows: dict[str, Window]
    tolerance_s: float

    def get_name(self) -> str:
        return "LeRobot"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        if parallelism <= len(self.groups):
            cuts = [self.groups[a:b] for a, b in spans(len(self.groups), max(1, parallelism))]
        else:
            each = -(-parallelism // max(1, len(self.groups)))
            cuts = [[part] for group in self.groups for part in _parts(group, each)]
        tasks = []
        for parts in cuts:
            several = [(self.found[number], number, some) for number, some in parts]
            rows = sum(span.end - span.begin for _, some in parts for span in some)
            files = sorted({f for _, some in parts for s in some for f in s.episode.files})
            read = partial(lerobot_frames.read, several, self.windows, self.tolerance_s)
            about = BlockMetadata(rows, None, input_files=files)
            tasks.append(ReadTask(read, about, None, per_task_row_limit))
        return tasks


def _parts(group: Group, count: int) -> list[Group]:
    """A group cut into about as many parts of the same number of rows."""
    number, some = group
    total = sum(span.end - span.begin for span in some)
    parts: list[Group] = []
    for begin, end in spans(total, max(1, min(count, total))):
        part, at = [], 0
        for span in some:
            length = span.end - span.begin
            first, last = max(begin, at) - at, min(end, at + length) - at
            if first < last:
                part.append(Span(span.episode, span.begin + first, span.begin + last))
            at += length
        parts.append((number, part))
    return parts
