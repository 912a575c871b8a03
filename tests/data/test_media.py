"""Sounds, films and recordings of robots. The packages are not among those that tests install."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RATE, FPS, FRAMES = 8000, 10, 20


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    pytest.importorskip("soundfile", reason="needs soundfile")
    for name, channels, length in (("one", 1, 80), ("two", 2, 40)):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(RATE)
            samples = np.arange(length * channels, dtype="<i2") * 100
            file.writeframes(samples.tobytes())
    (tmp_path / "no.txt").write_text("no sound")
    return tmp_path


@pytest.mark.contract("F10.04")
def test_sounds(rd: Any, sounds: Path) -> None:
    rows = rd.read_audio(str(sounds), include_paths=True).take_all()
    assert [Path(row["path"]).name for row in rows] == ["one.wav", "two.wav"]
    assert [row["amplitude"].shape for row in rows] == [(1, 80), (2, 40)]
    assert rows[0]["amplitude"].dtype == np.float32
    assert rows[1]["amplitude"][1][1] == pytest.approx(300 / 2**15)
    assert {row["sample_rate"] for row in rows} == {RATE}
    (sounds / "bad.wav").write_bytes(b"RIFF")
    with pytest.raises(Exception, match=r"soundfile cannot read .*bad\.wav"):
        rd.read_audio(str(sounds)).take_all()


@pytest.fixture
def film(tmp_path: Path) -> Path:
    av = pytest.importorskip("av", reason="needs av")
    path = tmp_path / "film.mp4"
    with av.open(str(path), "w") as made:
        stream = made.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(FRAMES):
            picture = np.full((48, 64, 3), number * 10, np.uint8)
            made.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        made.mux(stream.encode())
    return path


@pytest.mark.contract("F10.04")
def test_films(rd: Any, film: Path) -> None:
    rows = rd.read_videos(str(film), include_timestamps=True).take_all()
    assert [row["frame_index"] for row in rows] == list(range(FRAMES))
    assert {row["frame"].shape for row in rows} == {(48, 64, 3)}
    assert all(abs(int(row["frame"].mean()) - 10 * i) < 8 for i, row in enumerate(rows))
    assert rows[3]["frame_timestamp"] == pytest.approx([0.3, 0.4])
    some = rd.read_videos(str(film), fps=5, resize=(12, 16)).take_all()
    assert [row["frame_index"] for row in some] == list(range(0, FRAMES, 2))
    assert {row["frame"].shape for row in some} == {(12, 16, 3)}
    (film.parent / "bad.mp4").write_bytes(b"no film")
    with pytest.raises(Exception, match=r"PyAV cannot read .*bad\.mp4"):
        rd.read_videos(str(film.parent)).take_all()
    for options in ({"fps": 0}, {"resize": (1, -1)}):
        with pytest.raises(ValueError, match="Expected"):
            rd.read_videos(str(film), **options)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    writer = pytest.importorskip("mcap.writer", reason="needs mcap")
    path = tmp_path / "run.mcap"
    with path.open("wb") as file:
        made = writer.Writer(file)
        made.start()
        kinds = [made.register_schema(name, "jsonschema", b"{}") for name in ("Pose", "Scan")]
        channels = [
            made.register_channel("/pose", "json", kinds[0]),
            made.register_channel("/scan", "raw", kinds[1]),
            made.register_channel("/none", "json", 0),
        ]
        for i in range(30):
            data = json.dumps({"x": i}).encode() if i % 3 != 1 else bytes([i])
            made.add_message(
                channels[i % 3], log_time=i * 10, publish_time=i, data=data, sequence=i
            )
        made.finish()
    return path


@pytest.mark.contract("F10.04")
def test_recordings(rd: Any, recording: Path) -> None:
    path = str(recording)
    rows = rd.read_mcap(path).take_all()
    assert [row["log_time"] for row in rows] == [i * 10 for i in range(30)]
    names = ["Pose", "Scan", None]
    assert [row["schema_name"] for row in rows] == [names[i % 3] for i in range(30)]

    def read(**options: Any) -> list[int]:
        return [row["sequence"] for row in rd.read_mcap(path, **options).take_all()]

    assert read(topics={"/pose"}) == list(range(0, 30, 3))
    assert read(message_types=["Scan"]) == list(range(1, 30, 3))
    assert read(time_range=(50, 80)) == [5, 6, 7]
    pose = rd.read_mcap(path, topics=["/pose"], include_metadata=False).take(2)
    assert [row["data"] for row in pose] == [{"x": 0}, {"x": 3}]
    assert set(pose[0]) == {"data", "topic", "log_time", "publish_time", "sequence"}
    with pytest.raises(ValueError, match="must be less than"):
        rd.read_mcap(path, time_range=(5, 5))
    recording.write_bytes(recording.read_bytes()[:200])
    with pytest.raises(Exception, match=r"run\.mcap is not a complete MCAP recording"):
        rd.read_mcap(path).take_all()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    zarr = pytest.importorskip("zarr", reason="needs zarr")
    path = tmp_path / "store.zarr"
    newer = hasattr(zarr, "create_array")
    root = zarr.open_group(str(path), mode="w", **({"zarr_format": 2} if newer else {}))
    for name, values, chunks in (
        ("a", np.arange(10, dtype="i4"), (4,)),
        ("b/c", np.arange(20, dtype="f8").reshape(10, 2), (4, 1)),
        ("one", np.array(5.5), None),
    ):
        made: dict[str, Any] = {"shape": values.shape, "dtype": values.dtype}
        make = root.create_array if newer else root.create_dataset
        make(name, **made, **({"chunks": chunks} if chunks else {}))[...] = values
    return path


@pytest.mark.contract("F10.04")
def test_arrays_of_zarr(rd: Any, store: Path) -> None:
    path = str(store)
    with pytest.raises(ValueError, match="allow_full_metadata_scan=True"):
        rd.read_zarr(path)
    rows = rd.read_zarr(path, allow_full_metadata_scan=True).take_all()
    assert [row["array"] for row in rows] == ["a"] * 3 + ["b/c"] * 6 + ["one"]
    assert rows[2]["chunk_index"] == [2]
    assert rows[2]["chunk_slices"] == [[8, 10]]
    assert rows[2]["chunk"].tolist() == [8, 9]
    assert rows[4]["chunk_slices"] == [[0, 4], [1, 2]]
    assert rows[4]["chunk"].tolist() == [[1.0], [3.0], [5.0], [7.0]]
    assert (rows[9]["chunk_index"], rows[9]["chunk"]) == ([], 5.5)
    import zarr

    zarr.consolidate_metadata(path)
    assert rd.read_zarr(path).count() == 10
    some = rd.read_zarr(path, array_paths=["b/c"], chunk_shapes=[5], override_num_blocks=3)
    assert [row["chunk"].shape for row in some.take_all()] == [(5, 1)] * 4
    both = rd.read_zarr(path, array_paths=["a", "b/c"], align_axis_0=True, overlap=2).take_all()
    assert [(row["t_start"], row["t_stop"]) for row in both] == [(0, 4), (4, 8), (8, 10)]
    assert [row["a"].tolist() for row in both] == [[*range(6)], [*range(4, 10)], [8, 9]]
    assert [row["b/c"].shape for row in both] == [(6, 2), (6, 2), (2, 2)]


@pytest.mark.contract("F10.04")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"array_paths": ["zz"]}, r"Array\(s\) not found"),
        ({"array_paths": ["a", "b/c"], "chunk_shapes": [5, 2]}, "has 2 axes"),
        ({"array_paths": ["a"], "chunk_shapes": [0]}, "sequence of positive integers"),
        ({"array_paths": ["a"], "chunk_shapes": {"zz": [3]}}, "Unknown array path"),
        ({"array_paths": ["a"], "overlap": 2}, "requires align_axis_0=True"),
        ({"array_paths": ["a"], "overlap": -1, "align_axis_0": True}, "non-negative integer"),
        ({"array_paths": ["a", "one"], "align_axis_0": True}, "one"),
    ],
)
def test_wrong_options_of_zarr(rd: Any, store: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rd.read_zarr(str(store), **options)


@pytest.mark.contract("F10.04")
def test_a_zarr_store_that_is_not_there(rd: Any, tmp_path: Path) -> None:
    pytest.importorskip("zarr", reason="needs zarr")
    with pytest.raises(OSError, match=r"nothing\.zarr|nothing found"):
        rd.read_zarr(str(tmp_path / "nothing.zarr"))
