"""The formats of sounds, films and recordings. These run in workers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block, tensors
from heliostat.data.sources.formats import Format

if TYPE_CHECKING:
    import av
    import mcap

    from heliostat.data.aliases import Row, Value


FRAMES_AT_ONCE = 16
MESSAGES_AT_ONCE = 1024


@dataclass
class Audio(Format):
    """Sounds: the columns "amplitude", of channels and samples, and "sample_rate"."""

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield one row."""
        package = required("soundfile", "Sounds")
        try:
            data, rate = package.read(
                io.BytesIO(self._bytes(filesystem, path)), always_2d=True, dtype="float32"
            )
        except package.LibsndfileError as error:
            raise ValueError(f"soundfile cannot read {path}: {error}") from error
        amplitude = np.ascontiguousarray(data.T)
        yield pa.table({"amplitude": tensors.from_numpy(amplitude[None]), "sample_rate": [rate]})


@dataclass
class Video(Format):
    """Films: a row for each frame. ``size`` is (height, width)."""

    size: tuple[int, int] | None = None
    fps: int | None = None
    has_times: bool = False

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the frames, some at a time."""
        package = required("av", "Films")
        try:
            film = package.open(io.BytesIO(self._bytes(filesystem, path)))
        except package.error.FFmpegError as error:
            raise ValueError(f"PyAV cannot read {path}: {error}") from error
        with film:
            if not film.streams.video:
                raise ValueError(f"{path} has no pictures.")
            stream = film.streams.video[0]
            stream.thread_type = "AUTO"
            rate = float(stream.average_rate or 0)
            step = max(1, round(rate / self.fps)) if self.fps and rate else 1
            held: list[tuple[int, np.ndarray, tuple[float, float]]] = []
            for number, frame in enumerate(film.decode(stream)):
                if number % step:
                    continue
                held.append((number, self._picture(frame), _times(frame, number, rate)))
                if len(held) >= FRAMES_AT_ONCE:
                    yield self._table(held)
                    held = []
            if held:
                yield self._table(held)

    def _picture(self, frame: av.VideoFrame) -> np.ndarray:
        if self.size is None:
            return frame.to_ndarray(format="rgb24")
        height, width = self.size
        return frame.reformat(width=width, height=height, format="rgb24").to_ndarray()

    def _table(self, held: list[tuple[int, np.ndarray, tuple[float, float]]]) -> pa.Table:
        columns = {
            "frame": tensors.from_numpy(np.stack([picture for _, picture, _ in held])),
            "frame_index": pa.array([number for number, _, _ in held], pa.int64()),
        }
        if self.has_times:
            times = np.array([when for _, _, when in held], np.float64)
            columns["frame_timestamp"] = tensors.from_numpy(times)
        return pa.table(columns)


def _times(frame: av.VideoFrame, number: int, rate: float) -> tuple[float, float]:
    """Return begin and end of a frame, in seconds."""
    length = 1 / rate if rate else 0.0
    begin = number * length if frame.time is None else float(frame.time)
    return begin, begin + length


@dataclass
class Mcap(Format):
    """Recordings of robots: a row for each message."""

    topics: list[str] | None = None
    begin: int | None = None  # ns
    end: int | None = None
    kinds: list[str] | None = None
    has_metadata: bool = True

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the messages, some at a time, by the time that they were logged at."""
        package = required("mcap.reader", "Recordings of MCAP")
        broken = required("mcap.exceptions", "Recordings of MCAP").McapError
        with filesystem.open_input_file(path) as file:
            held: list[Row] = []
            try:
                found = package.make_reader(file).iter_messages(
                    topics=self.topics, start_time=self.begin, end_time=self.end
                )
                for schema, channel, message in found:
                    if self.kinds and (schema is None or schema.name not in self.kinds):
                        continue
                    held.append(self._row(schema, channel, message))
                    if len(held) >= MESSAGES_AT_ONCE:
                        yield block.from_rows(held)
                        held = []
            except broken as error:
                raise ValueError(f"{path} is not a complete MCAP recording: {error}") from error
            if held:
                yield block.from_rows(held)

    def _row(
        self,
        schema: mcap.records.Schema | None,
        channel: mcap.records.Channel,
        message: mcap.records.Message,
    ) -> Row:
        row = {
            "data": _decoded(channel.message_encoding, message.data),
            "topic": channel.topic,
            "log_time": message.log_time,
            "publish_time": message.publish_time,
            "sequence": message.sequence,
        }
        if self.has_metadata:
            row["channel_id"] = message.channel_id
            row["message_encoding"] = channel.message_encoding
            for name in ("name", "encoding", "data"):
                row[f"schema_{name}"] = getattr(schema, name) if schema else None
        return row


def _decoded(encoding: str, data: bytes) -> Value:
    """JSON as its values; everything else as it is."""
    if encoding != "json":
        return data
    try:
        return json.loads(data)
    except ValueError:
        return data
