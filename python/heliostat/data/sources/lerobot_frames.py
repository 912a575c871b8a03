"""The rows of LeRobot datasets with their pictures, made in tasks: Parquet by pyarrow, films by PyAV."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from heliostat.core.platform.extras import required
from heliostat.data import tensors

if TYPE_CHECKING:
    import av

    from heliostat.data.sources.lerobot import Episode, Recordings

FRAMES_AT_ONCE = 32  # rows of a table with pictures

Window = tuple[int, ...]  # steps in frames, from the row's own


@dataclass(frozen=True)
class Span:
    """The frames ``begin`` to ``end`` of an episode."""

    episode: Episode
    begin: int
    end: int


class Pictures(Protocol):
    """The pictures of one camera in an episode."""

    def picture(self, number: int) -> np.ndarray:
        """Return the picture of a frame. Numbers rise, but for frames that are still kept."""

    def forget(self, below: int) -> None:
        """Frames before that one are not asked for any more."""


def read(
    several: list[tuple[Recordings, int, list[Span]]],
    windows: dict[str, Window],
    tolerance_s: float,
) -> Iterator[pa.Table]:
    """The tables of some spans of datasets."""
    for of, number, spans in several:
        paths: dict[str, list[Span]] = {}
        for span in spans:
            paths.setdefault(span.episode.data, []).append(span)
        for path, some in paths.items():
            wanted = [span.episode.number for span in some]
            rows = pq.read_table(
                path, filesystem=of.filesystem, filters=[("episode_index", "in", wanted)]
            )
            for span in some:
                mine = rows.filter(pc.equal(rows.column("episode_index"), span.episode.number))
                if mine.num_rows != span.episode.length:
                    raise ValueError(
                        f"{path} has {mine.num_rows} rows of episode {span.episode.number}, which has "
                        f"{span.episode.length} according to {of.root}/meta/episodes."
                    )
                yield from _of_span(of, number, span, mine, windows, tolerance_s)


def _of_span(
    of: Recordings,
    number: int,
    span: Span,
    rows: pa.Table,
    windows: dict[str, Window],
    tolerance_s: float,
) -> Iterator[pa.Table]:
    with contextlib.ExitStack() as stack:
        cameras: dict[str, Pictures] = {}
        for name in of.pictures:
            cameras[name] = _Stored(rows.column(name))
        for name, (path, begin_s) in span.episode.films.items():
            times = begin_s + rows.column("timestamp").to_numpy().astype(np.float64)
            film = _Film(of.filesystem, path, times, tolerance_s)
            cameras[name] = film
            stack.callback(film.close)
        step = FRAMES_AT_ONCE if cameras else max(1, span.end - span.begin)
        for at in range(span.begin, span.end, step):
            end = min(at + step, span.end)
            yield _table(of, number, rows, cameras, windows, np.arange(at, end))


def _table(
    of: Recordings,
    number: int,
    rows: pa.Table,
    cameras: dict[str, Pictures],
    windows: dict[str, Window],
    frames: np.ndarray,
) -> pa.Table:
    """The frames of an episode, given by their numbers in it, which follow each other."""
    made: dict[str, pa.Array] = {}
    part = rows.slice(int(frames[0]), len(frames))
    for name in rows.column_names:
        if name not in cameras and name not in windows:
            made[name] = part.column(name)
    for name, camera in cameras.items():
        if name not in windows:
            pictures = [camera.picture(int(frame)) for frame in frames]
            camera.forget(int(frames[-1]))
            made[name] = _column(pictures)
    for name, steps in windows.items():
        wanted = frames[:, None] + np.array(steps)
        inside = np.clip(wanted, 0, rows.num_rows - 1)
        if name in cameras:
            made[name] = _column(_stacks(cameras[name], inside))
        else:
            whole = tensors.stacked(rows.column(name).combine_chunks())
            made[name] = tensors.from_numpy(np.ascontiguousarray(whole[inside]))
        made[f"{name}_is_pad"] = tensors.from_numpy(wanted != inside)
    tasks = (of.tasks.get(one) for one in part.column("task_index").to_pylist())
    made["task"] = pa.array(list(tasks), pa.string())
    made["dataset_index"] = pa.repeat(pa.scalar(number, pa.int32()), len(frames))
    made["stats"] = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(frames), np.int32)), pa.array([of.stats], pa.string())
    )
    return pa.table(made)


def _stacks(camera: Pictures, wanted: np.ndarray) -> list[np.ndarray]:
    """The pictures of each row's frames in one array."""
    made = []
    for row in wanted:
        camera.forget(int(row.min()))
        in_order = {int(frame): camera.picture(int(frame)) for frame in np.sort(row)}
        made.append(np.stack([in_order[int(frame)] for frame in row]))
    return made


def _column(pictures: list[np.ndarray]) -> pa.Array:
    return tensors.from_list(pictures)


class _Stored:
    """Pictures that are in the rows, as files of PNG or JPEG."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def picture(self, number: int) -> np.ndarray:
        image = required("PIL.Image", "Pictures of LeRobot datasets")
        with image.open(io.BytesIO(self._column[number]["bytes"].as_py())) as opened:
            return np.asarray(opened.convert("RGB"))

    def forget(self, below: int) -> None:
        return


class _Film:
    """Pictures of a film, which is decoded once, from the episode's beginning on."""

    def __init__(
        self, filesystem: pa.fs.FileSystem, path: str, times: np.ndarray, tolerance_s: float
    ) -> None:
        self._path, self._times, self._tolerance_s = path, times, tolerance_s
        package = required("av", "Films of LeRobot datasets")
        self._file = filesystem.open_input_file(path)
        try:
            self._film = package.open(self._file)
        except package.error.FFmpegError as error:
            self._file.close()
            raise ValueError(f"PyAV cannot read {path}: {error}") from error
        self._stream = self._film.streams.video[0]
        self._stream.thread_type = "AUTO"
        self._coming: Iterator[av.VideoFrame] | None = None
        self._held: list[av.VideoFrame] = []  # the last two frames that were decoded
        self._kept: dict[int, np.ndarray] = {}

    def picture(self, number: int) -> np.ndarray:
        if number not in self._kept:
            self._kept[number] = self._at(float(self._times[number]))
        return self._kept[number]

    def forget(self, below: int) -> None:
        for number in [n for n in self._kept if n < below]:
            del self._kept[number]

    def _at(self, time_s: float) -> np.ndarray:
        """The picture nearest to a time, in seconds."""
        if self._coming is None:
            base = self._stream.time_base
            if base and time_s > 0:
                self._film.seek(
                    max(0, int((time_s - self._tolerance_s) / base)), stream=self._stream
                )
            self._coming = self._film.decode(self._stream)
        while not self._held or self._held[-1].time < time_s:
            following = next(self._coming, None)
            if following is None:
                break
            self._held = [*self._held[-1:], following]
        nearest = min(self._held, key=lambda frame: abs(frame.time - time_s), default=None)
        if nearest is None or abs(nearest.time - time_s) > self._tolerance_s:
            there = "none" if nearest is None else f"{nearest.time:.4f} s"
            raise ValueError(
                f"{self._path} has no frame within {self._tolerance_s:g} s of {time_s:.4f} s (the nearest: "
                f"{there}); a larger frame_tolerance_s takes it."
            )
        return nearest.to_ndarray(format="rgb24")

    def close(self) -> None:
        self._film.close()
        self._file.close()
