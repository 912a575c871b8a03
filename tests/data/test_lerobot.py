"""Recordings of robots in LeRobot's format, version 3. Films need PyAV; the rest does not."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FPS = 10
LENGTHS = (5, 3, 4)  # frames of the episodes
FILES = ((0, 1), (2,))  # the episodes of each file
TASKS = ("pick", "place")

pytestmark = [
    pytest.mark.contract("F10.04"),
    pytest.mark.heliostat_only("Ray needs the package lerobot, which brings PyTorch"),
]


def picture(episode: int, frame: int) -> Any:
    return np.full((48, 64, 3), episode * 60 + frame * 10, np.uint8)


def write(root: Path, camera: str | None) -> str:
    """A dataset whose camera is "image", "video", or none."""
    starts = np.cumsum([0, *LENGTHS])
    for folder in ("meta/episodes/chunk-000", "data/chunk-000", "videos/cam/chunk-000"):
        (root / folder).mkdir(parents=True)
    features = {"action": {"dtype": "float32", "shape": [2]}, "timestamp": {"dtype": "float32"}}
    features |= {n: {"dtype": "int64"} for n in ("frame_index", "episode_index", "index")}
    features |= {"cam": {"dtype": camera}} if camera else {}
    info = {
        "codebase_version": "v3.0",
        "fps": FPS,
        "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "meta/stats.json").write_text(json.dumps({"action": {"mean": [0.5, 1.5]}}))
    pd.DataFrame({"task_index": [0, 1]}, index=list(TASKS)).to_parquet(root / "meta/tasks.parquet")
    episodes = []
    for number, members in enumerate(FILES):
        rows, frames, begin_s = [], [], 0.0
        for episode in members:
            about = {"episode_index": episode, "length": LENGTHS[episode]}
            about |= {"data/chunk_index": 0, "data/file_index": number}
            if camera == "video":
                about |= {"videos/cam/chunk_index": 0, "videos/cam/file_index": number}
                about |= {"videos/cam/from_timestamp": begin_s}
            episodes.append(about)
            begin_s += LENGTHS[episode] / FPS
            for frame in range(LENGTHS[episode]):
                row: dict[str, Any] = {"action": [float(frame), float(-frame)]}
                row |= {"timestamp": np.float32(frame / FPS), "frame_index": frame}
                row |= {"episode_index": episode, "index": int(starts[episode]) + frame}
                row |= {"task_index": episode % 2}
                if camera == "image":
                    row["cam"] = {"bytes": png(picture(episode, frame)), "path": None}
                rows.append(row)
                frames.append(picture(episode, frame))
        kinds = {"action": pa.list_(pa.float32(), 2), "timestamp": pa.float32()}
        table = pa.Table.from_pylist(rows)
        for at, name in enumerate(table.column_names):
            if name in kinds:
                table = table.set_column(at, name, table.column(name).cast(kinds[name]))
        pq.write_table(table, root / f"data/chunk-000/file-{number:03d}.parquet")
        if camera == "video":
            film(root / f"videos/cam/chunk-000/file-{number:03d}.mp4", frames)
    pq.write_table(
        pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet"
    )
    return str(root)


def png(pixels: Any) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    made = io.BytesIO()
    image.fromarray(pixels).save(made, "PNG")
    return made.getvalue()


def film(path: Path, frames: list[Any]) -> None:
    av = pytest.importorskip("av", reason="needs av")
    with av.open(str(path), "w") as made:
        stream = made.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for pixels in frames:
            made.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        made.mux(stream.encode())


def test_rows_of_episodes(rd: Any, tmp_path: Path) -> None:
    root = write(tmp_path / "one", None)
    rows = rd.read_lerobot(root).take_all()
    assert [row["index"] for row in rows] == list(range(12))
    assert [row["task"] for row in rows] == ["pick"] * 5 + ["place"] * 3 + ["pick"] * 4
    assert rows[6]["action"] == [1.0, -1.0]
    assert {row["dataset_index"] for row in rows} == {0}
    assert json.loads(rows[0]["stats"]) == {"action": {"mean": [0.5, 1.5]}}
    for options, blocks in (
        ({}, 2),
        ({"read_granularity": "episode"}, 3),
        ({"override_num_blocks": 4}, 4),
        ({"override_num_blocks": 1}, 1),
    ):
        made = rd.read_lerobot(root, **options).materialize()
        assert made.num_blocks() == blocks
        assert [row["index"] for row in made.take_all()] == list(range(12))
    some = rd.read_lerobot(root, episodes=[2, 0]).take_all()
    assert [row["index"] for row in some] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    twice = rd.read_lerobot([root, write(tmp_path / "two", None)]).take_all()
    assert [row["dataset_index"] for row in twice] == [0] * 12 + [1] * 12


def test_windows_stay_within_their_episode(rd: Any, tmp_path: Path) -> None:
    root = write(tmp_path / "one", None)
    rows = rd.read_lerobot(root, delta_timestamps={"action": [-0.1, 0.0, 0.2]}).take_all()
    assert {row["action"].shape for row in rows} == {(3, 2)}
    assert [row["action"][:, 0].tolist() for row in rows[:5]] == [
        *([0, 0, 2], [0, 1, 3], [1, 2, 4], [2, 3, 4], [3, 4, 4])
    ]
    assert [row["action_is_pad"].tolist() for row in (rows[0], rows[1], rows[4], rows[5])] == [
        *([True, False, False], [False] * 3, [False, False, True], [True, False, False])
    ]
    for options, said in (
        ({"delta_timestamps": {"action": [0.05]}}, "multiples of 1/10 s"),
        ({"delta_timestamps": {"zz": [0.0]}}, "no feature 'zz'"),
        ({"delta_timestamps": {"action": [0.0]}, "override_num_blocks": 9}, "2 groups"),
        ({"episodes": [9]}, r"no episodes \[9\]"),
        ({"read_granularity": "x"}, "'file' or 'episode'"),
    ):
        with pytest.raises(ValueError, match=said):
            rd.read_lerobot(root, **options)
    with pytest.raises(FileNotFoundError, match=r"no file meta/info\.json"):
        rd.read_lerobot(str(tmp_path))
    about = tmp_path / "one/meta/info.json"
    about.write_text(about.read_text().replace("v3.0", "v2.1"))
    with pytest.raises(ValueError, match=r"version v2\.1"):
        rd.read_lerobot(root)


@pytest.mark.parametrize("camera", ["image", "video"])
def test_pictures_belong_to_their_rows(rd: Any, tmp_path: Path, camera: str) -> None:
    root = write(tmp_path / "one", camera)
    wanted = [(e, f) for e, length in enumerate(LENGTHS) for f in range(length)]

    def is_of(pixels: Any, episode: int, frame: int) -> bool:
        expected = int(picture(episode, frame)[0, 0, 0])
        return pixels.shape == (48, 64, 3) and abs(int(pixels.mean()) - expected) < 5

    rows = rd.read_lerobot(root, override_num_blocks=5).take_all()
    assert [(row["episode_index"], row["frame_index"]) for row in rows] == wanted
    assert all(is_of(row["cam"], *at) for row, at in zip(rows, wanted, strict=True))
    rows = rd.read_lerobot(root, delta_timestamps={"cam": [0.1, -0.1]}).take_all()
    for row, (episode, frame) in zip(rows, wanted, strict=True):
        after, before = row["cam"]
        assert is_of(after, episode, min(frame + 1, LENGTHS[episode] - 1))
        assert is_of(before, episode, max(frame - 1, 0))
        assert row["cam_is_pad"].tolist() == [frame == LENGTHS[episode] - 1, frame == 0]
    if camera == "video":
        path = tmp_path / "one/data/chunk-000/file-001.parquet"
        table = pq.read_table(path)
        at = table.schema.get_field_index("timestamp")
        late = pa.array(table.column("timestamp").to_numpy() + np.float32(9))
        pq.write_table(table.set_column(at, "timestamp", late), path)
        with pytest.raises(Exception, match=r"has no frame within 0\.05 s"):
            rd.read_lerobot(root).take_all()
