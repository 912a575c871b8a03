"""``read_audio``, ``read_videos`` and ``read_mcap``: datasets of sounds, films and recordings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from heliostat.core.platform.extras import required
from heliostat.data.dataset import Dataset
from heliostat.data.sources.file_reads import dataset
from heliostat.data.sources.media_formats import Audio, Mcap, Video
from heliostat.data.sources.options import OF_FILES, shows, spelled
from heliostat.data.sources.read import begun, refuse

_SOUNDS = [
    *("mp3", "wav", "aac", "flac", "ogg", "m4a", "wma", "alac", "aiff", "pcm"),
    *("amr", "opus", "ra", "rm", "au", "mid", "midi", "caf"),
]
_FILMS = [
    *("mp4", "mkv", "mov", "avi", "wmv", "flv", "webm", "m4v", "3gp", "mpeg", "mpg", "ts"),
    *("ogv", "rm", "rmvb", "vob", "asf", "f4v", "m2ts", "mts", "divx", "xvid", "mxf"),
]


@dataclass
class TimeRange:
    """A span of time, in nanoseconds; its end is not in it.

    Args:
        start_time: Its beginning, from 0.
        end_time: Its end.

    Raises:
        ValueError: It is empty, or begins before 0.

    Examples:
        >>> from ray.data.datasource import TimeRange
        >>> span = TimeRange(start_time=0, end_time=10**9)  # the first second
    """

    start_time: int
    end_time: int

    def __post_init__(self) -> None:
        if self.start_time < 0 or self.end_time < 0:
            raise ValueError(f"time values must be non-negative, got {self}")
        if self.start_time >= self.end_time:
            raise ValueError(
                f"start_time ({self.start_time}) must be less than end_time ({self.end_time})"
            )


@spelled
@shows(OF_FILES, file_extensions=_SOUNDS)
def read_audio(paths: str | list[str], **options: object) -> Dataset:
    """Return a dataset of sounds: the columns "amplitude", an array of channels and samples, and
    "sample_rate".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ImportError: soundfile is not installed.
        ValueError: While executing: soundfile cannot read a file.

    Examples:
        >>> import ray
        >>> def seconds(folder):
        ...     sounds = ray.data.read_audio(folder, include_paths=True)  # "amplitude", "sample_rate"
        ...     return sounds.map(
        ...         lambda row: {
        ...             "path": row["path"],
        ...             "seconds": row["amplitude"].shape[1] / row["sample_rate"],
        ...         }
        ...     )
    """
    required("soundfile", "Sounds")
    source, concurrency, remote, open_args = begun(paths, options, _SOUNDS)
    refuse("read_audio", options)
    return dataset("Audio", source, Audio(open_args), remote, concurrency)


@spelled
@shows(OF_FILES, file_extensions=_FILMS)
def read_videos(
    paths: str | list[str],
    *,
    include_timestamps: bool = False,
    fps: int | None = None,
    resize: tuple[int, int] | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of the frames of films: the columns "frame" and "frame_index".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        include_timestamps: Add the column "frame_timestamp": when a frame begins and ends, in seconds.
        fps: Frames a second to read, about: every n-th of the film's. Default: all.
        resize: Height and width of the frames. Default: the film's.
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ImportError: av is not installed.
        ValueError: ``fps`` or ``resize`` is not positive. While executing: PyAV cannot read a file.

    Examples:
        >>> import ray
        >>> def frames(folder):
        ...     return ray.data.read_videos(folder, fps=2, resize=(224, 224), include_timestamps=True)
    """
    if fps is not None and fps <= 0:
        raise ValueError(f"Expected `fps` to be a positive integer, but got {fps} instead.")
    if resize is not None and (len(tuple(resize)) != 2 or min(resize) <= 0):
        raise ValueError(
            f"Expected `resize` to contain two positive integers for height and width, got {resize}."
        )
    required("av", "Films")
    source, concurrency, remote, open_args = begun(paths, options, _FILMS)
    refuse("read_videos", options, "include_timestamps", "fps", "resize")
    form = Video(open_args, resize, fps, include_timestamps)
    return dataset("Video", source, form, remote, concurrency)


@spelled
@shows(OF_FILES)
def read_mcap(
    paths: str | list[str],
    *,
    topics: Collection[str] | None = None,
    time_range: tuple[int, int] | TimeRange | None = None,
    message_types: Collection[str] | None = None,
    include_metadata: bool = True,
    **options: object,
) -> Dataset:
    """Return a dataset of the messages of MCAP files.

    The columns are "data" (values where the encoding is JSON, else bytes), "topic", "log_time",
    "publish_time" (ns) and "sequence".

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        topics: Which topics to read. Default: all.
        time_range: (start, end) or a ``TimeRange`` of the log's time in ns; the end is not in it.
        message_types: Names of schemas: messages of others are not read. Default: all.
        include_metadata: Add "channel_id", "message_encoding", "schema_name", "schema_encoding" and
            "schema_data".
        **options: Those of all readers, see :func:`read_csv`.

    Raises:
        ImportError: mcap is not installed.
        ValueError: ``time_range`` is empty. While executing: a file is not a whole recording.

    Examples:
        >>> import ray
        >>> def camera(folder):
        ...     return ray.data.read_mcap(folder, topics={"/camera/front"}, time_range=(0, 10**9))
    """
    if time_range is not None and not isinstance(time_range, TimeRange):
        time_range = TimeRange(*time_range)
    required("mcap", "Recordings of MCAP")
    source, concurrency, remote, _ = begun(paths, options, None)
    refuse("read_mcap", options, "topics", "time_range", "message_types", "include_metadata")
    form = Mcap(
        {},
        list(topics) if topics else None,
        time_range.start_time if time_range else None,
        time_range.end_time if time_range else None,
        list(message_types) if message_types else None,
        include_metadata,
    )
    return dataset("MCAP", source, form, remote, concurrency)
