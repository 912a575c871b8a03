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
