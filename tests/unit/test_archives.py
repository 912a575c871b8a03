"""F7.02: archives of code are unpacked whole or not at all, and nothing of them leaves the folder."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from heliostat.core.runtime_env import archives

pytestmark = [pytest.mark.heliostat_only("a module of its own"), pytest.mark.contract("F7.02")]

ROOM = 1 << 20

# A name, and its content, or where it leads to as a link.
Members = list[tuple[str, bytes | str]]


def make_zip(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o120777 if isinstance(content, str) else 0o100644) << 16
            file.writestr(entry, content)
    return path


def make_tar(path: Path, members: Members) -> Path:
    with tarfile.open(path, f"w:{'xz' if path.suffix == '.xz' else 'gz'}") as file:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                file.addfile(entry)
            else:
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))
    return path


MAKERS = [
    pytest.param(make_zip, "a.zip", id="zip"),
    pytest.param(make_tar, "a.tar.gz", id="tar.gz"),
    pytest.param(make_tar, "a.tar.xz", id="tar.xz"),
    pytest.param(make_tar, "a.tgz", id="tgz"),
]
Make = Callable[[Path, Members], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outer" / "folder").mkdir(parents=True)
    return tmp_path / "outer" / "folder"


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_files_folders_and_links_are_unpacked(
    make: Make, name: str, folder: Path, tmp_path: Path
) -> None:
    members: Members = [
        ("a.txt", b"a"),
        ("./deep/er/b.txt", b"b" * 5000),
        ("deep/link", "er/b.txt"),
        ("round", "round"),
        ("up/link", "../a.txt"),
    ]
    archives.unpack(make(tmp_path / name, members), folder, ROOM)
    assert (folder / "a.txt").read_text() == (folder / "up/link").read_text() == "a"
    assert (folder / "deep/link").read_text() == "b" * 5000
    assert os.readlink(folder / "round") == "round"


@pytest.mark.parametrize(("make", "name"), MAKERS)
@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([("../out.txt", b"x")], "outside"),
        ([("a/../../out.txt", b"x")], "outside"),
        ([("/out.txt", b"x")], "outside"),
        ([("link", "../../x")], "leads out"),
        ([("link", "/etc")], "leads out"),
        ([("link", ".."), ("link/out.txt", b"x")], "cannot be unpacked"),
        ([("a/b", b""), ("link", "/etc"), ("link/x", "/etc/passwd")], "behind another link"),
        ([("c/f", b""), ("x", "y/c/../.."), ("y", ".")], "leads out"),
        ([("same", b"1"), ("./same", b"2")], "cannot be unpacked"),
        ([("bomb", b"\0" * (ROOM + 1))], "more than the 1 MiB"),
        ([(f"bomb{n}", b"\0" * (ROOM // 8)) for n in range(9)], "more than the 1 MiB"),
    ],
    ids=range(11),
)
def test_hostile_archives_are_refused(
    make: Make, name: str, members: Members, says: str, folder: Path, tmp_path: Path
) -> None:
    archive = make(tmp_path / name, members)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(archives.ArchiveError, match=says) as caught:
        archives.unpack(archive, folder, ROOM)
    assert "\n" not in str(caught.value)
    outside = [path for path in sorted(tmp_path.rglob("*")) if folder not in path.parents]
    assert outside == [path for path in before if folder not in path.parents]


@pytest.mark.parametrize(("make", "name"), MAKERS)
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_an_archive_that_is_cut_short_is_refused(
    make: Make, name: str, part: float, folder: Path, tmp_path: Path
) -> None:
    archive = make(tmp_path / name, [("a", os.urandom(20_000)), ("b", os.urandom(20_000))])
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(archives.ArchiveError):
        archives.unpack(archive, folder, ROOM)


def test_devices_are_refused(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as file:
        entry = tarfile.TarInfo("pipe")
        entry.type = tarfile.FIFOTYPE
        file.addfile(entry)
    with pytest.raises(archives.ArchiveError, match="neither a file, a folder nor a link"):
        archives.unpack(tmp_path / "a.tgz", folder, ROOM)


def test_modes_are_kept_without_their_dangerous_bits(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as file:
        entry = tarfile.TarInfo("run")
        entry.mode = 0o4755
        file.addfile(entry)
        hard = tarfile.TarInfo("same")
        hard.type, hard.linkname = tarfile.LNKTYPE, "run"
        file.addfile(hard)
    archives.unpack(tmp_path / "a.tgz", folder, ROOM)
    modes = [(folder / name).stat().st_mode & 0o7777 for name in ("run", "same")]
    assert modes == [0o755, 0o755]
