"""Archives of code: what they are called, and how one becomes a folder.

An archive may come from anywhere, so nothing in it is trusted: a member whose path or link leads out of
the folder, a device, more bytes than there is room for, and an archive that is cut short are refused.
The caller unpacks into a draft, which it throws away when this raises.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ZIPS = (".zip", ".whl", ".jar")
TARS = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar")
ENDINGS = (*ZIPS, *TARS)

# How much of the disk's free room one archive may take, and how many members it may have.
_ROOM_PART = 0.5
_MEMBERS_MAX = 500_000
_PART = 1 << 20

_DAMAGE = (
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class ArchiveError(RuntimeError):
    """The archive cannot be used; the text is a sentence for the user."""


@dataclass(frozen=True)
class _Member:
    """A member of an archive, of either kind."""

    name: str
    mode: int
    size: int
    link: str | None = None  # where a symbolic link leads
    is_folder: bool = False
    content: IO[bytes] | None = None


def ending(name: str) -> str | None:
    """The ending that says which kind of archive this is; ``None``: it is none."""
    return next((one for one in ENDINGS if name.lower().endswith(one)), None)


def unpack(archive: Path, folder: Path, room: int | None = None) -> None:
    """Unpack into a folder, which is there and empty.

    ``room``: how many bytes it may take; by default a part of what the disk has left.
    Raises :class:`ArchiveError`.
    """
    if room is None:
        room = int(shutil.disk_usage(folder).free * _ROOM_PART)
    top, left = os.path.realpath(folder), room
    # Links come last, and none behind another: so nothing is written through one.
    links: list[tuple[str, str]] = []
    try:
        for number, member in enumerate(_members(archive, room), 1):
            if number > _MEMBERS_MAX:
                raise ArchiveError(f"it has more than {_MEMBERS_MAX} members")
            name = _inside(member.name)
            if member.link is not None:
                links.append((name, member.link))
            elif member.is_folder:
                (folder / name).mkdir(parents=True, exist_ok=True)
                os.chmod(folder / name, member.mode & 0o777 | 0o700)
            elif member.content is not None:
                left -= _write(member, folder / name, left, room)
        for name, to in links:
            parent = (folder / name).parent
            parent.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(parent) != os.path.join(top, *_parents(name)):
                raise ArchiveError(f"its link {name!r} lies behind another link")
            os.symlink(to, folder / name)
        _check_links(folder, [name for name, _ in links])
    except _DAMAGE as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(
            f"it cannot be unpacked: {str(error) or type(error).__name__}"
        ) from error


def single_folder(folder: Path) -> Path | None:
    """The one folder that everything lies in, as in archives of repositories; ``None``: there is none."""
    inside = [path for path in folder.iterdir() if path.name != "__MACOSX"]
    only = inside[0] if len(inside) == 1 else None
    return only if only is not None and only.is_dir() and not only.is_symlink() else None


def _members(archive: Path, room: int) -> Iterator[_Member]:
    if ending(archive.name) in TARS:
        with tarfile.open(archive, "r:*") as tar:
            yield from map(_of_tar(tar), tar)
        return
    with zipfile.ZipFile(archive) as file:
        size = sum(info.file_size for info in file.infolist())
        if size > room:
            raise _too_large(room)
        for info in file.infolist():
            yield from _of_zip(file, info)


def _of_zip(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[_Member]:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        link = os.fsdecode(file.read(info))
        yield _Member(info.filename, mode, 0, link=link)
    elif info.is_dir():
        yield _Member(info.filename, mode or 0o755, 0, is_folder=True)
    else:
        with file.open(info) as content:
            yield _Member(info.filename, mode or 0o644, info.file_size, content=content)


class _of_tar:
    """Turns members of a tar file into those of any archive."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def __call__(self, info: tarfile.TarInfo) -> _Member:
        if info.issym():
            return _Member(info.name, info.mode, 0, link=info.linkname)
        if info.isdir():
            return _Member(info.name, info.mode, 0, is_folder=True)
        if not (info.isreg() or info.islnk()):
            raise ArchiveError(f"its member {info.name!r} is neither a file, a folder nor a link")
        if info.islnk():
            target = self._tar.getmember(info.linkname)
            return _Member(info.name, target.mode, target.size, content=self._content(target))
        return _Member(info.name, info.mode, info.size, content=self._content(info))

    def _content(self, info: tarfile.TarInfo) -> IO[bytes]:
        content = self._tar.extractfile(info)
        if content is None:
            raise ArchiveError(f"its member {info.name!r} has no content")
        return content


def _inside(name: str) -> str:
    """The path below the folder; raises for one that leads out of it."""
    plain = posixpath.normpath(name)
    leads_out = plain.startswith("/") or plain.split("/")[0] == ".."
    if leads_out or "\0" in name or "\\" in name:
        raise ArchiveError(f"its member {name!r} would lie outside of the folder")
    return plain


def _parents(name: str) -> list[str]:
    return name.split("/")[:-1]


def _check_links(folder: Path, names: list[str]) -> None:
    """Links may lead through other links: only where they end says whether they stay inside."""
    top = os.path.realpath(folder)
    for name in names:
        path = os.path.join(top, name)
        end = os.path.realpath(path)
        if os.path.isabs(os.readlink(path)) or os.path.commonpath([top, end]) != top:
            raise ArchiveError(f"its link {name!r} leads out of the folder")


def _write(member: _Member, path: Path, left: int, room: int) -> int:
    assert member.content is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    # Not through a link, nor over what an earlier member of the same name has made.
    with open(path, "xb") as file:
        while part := member.content.read(_PART):
            written += len(part)
            if written > left:
                raise _too_large(room)
            file.write(part)
    if written != member.size:
        raise ArchiveError(f"its member {member.name!r} is cut short")
    os.chmod(path, member.mode & 0o777 | 0o600)
    return written


def _too_large(room: int) -> ArchiveError:
    return ArchiveError(
        f"it would take more than the {room >> 20} MiB that an archive may take of this disk"
    )
