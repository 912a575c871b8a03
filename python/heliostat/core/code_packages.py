"""The code of a runtime environment as packages: named by their content, unpacked once a node.

The driver's side (:func:`packaged`) makes a package of each folder and archive of its machine that
``working_dir`` and ``py_modules`` name, brings it to the head unless that has it, and puts
``gcs://<name>`` into the environment. The workers' side (:func:`place`) fetches what its node does not
have, unpacks it beside, and renames: what lies under a package's name is whole.

In a session's folder ``packages`` has the archives (on the head, which serves the other nodes),
``working_dirs`` the folders. Both go with the session.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from heliostat import _heliostat
from heliostat.core import archives, auth, remote_files, settings, working_dir
from heliostat.core.archives import ArchiveError
from heliostat.core.daemon import CODE_ARCHIVES, CODE_FOLDERS
from heliostat.core.remote_files import PACKAGE, FetchError

# The same content has the same archive, whenever it is packed.
_TIME = (1980, 1, 1, 0, 0, 0)
_PART = 1 << 20
_SUPPORTED = (
    f"a folder, an archive ({', '.join(archives.ENDINGS)}), "
    f"or the URI of one ({'://, '.join(remote_files.SCHEMES)}://)"
)


class CodeError(RuntimeError):
    """Code cannot be had on this node; the text is a sentence for the user."""


def check(field: str, given: Any) -> None:
    """Refuse what cannot become a package, at the call that asks for it.

    Raises ``TypeError`` or ``ValueError``.
    """
    if isinstance(given, ModuleType):
        _module_place(given)
        return
    what = f"runtime_env[{field!r}] = {str(given)!r}"
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{what}: it must be {_SUPPORTED}, not {type(given)}")
    text = os.fspath(given)
    scheme = remote_files.scheme(text)
    if scheme is None:
        path = Path(text)
        if not path.exists():
            raise ValueError(f"{what}: no such folder or archive")
        is_module = field == "py_modules" and path.suffix == ".py"
        if not (path.is_dir() or is_module or archives.ending(text)):
            raise ValueError(f"{what}: it must be {_SUPPORTED}")
        return
    if scheme not in remote_files.SCHEMES:
        raise ValueError(
            f"{what}: the scheme {scheme}:// is not supported; it must be {_SUPPORTED}"
        )
    name = text if scheme == PACKAGE else remote_files.path_of(text)
    if archives.ending(name) is None:
        raise ValueError(
            f"{what}: a URI must name an archive, which ends in one of {', '.join(archives.ENDINGS)}"
        )
    if scheme == "file":
        try:
            path = remote_files.local_file(text)
        except FetchError as error:
            raise ValueError(f"{what}: {error}") from None
        if not path.is_file():
            raise ValueError(f"{what}: no such file")


def packaged(env: Mapping[str, Any], session_dir: str | Path) -> dict[str, Any]:
    """The environment with URIs in place of the folders and archives of this machine.

    Raises ``ValueError`` for a folder that is too large, and :class:`CodeError` when the head cannot be given
    a package.
    """
    made, session = dict(env), Path(session_dir)
    excludes = list(env.get("excludes") or ())
    if place := env.get("working_dir"):
        made["working_dir"] = _uri("working_dir", place, excludes, session)
    if modules := env.get("py_modules"):
        made["py_modules"] = [_uri("py_modules", one, excludes, session) for one in modules]
    return made


def _uri(field: str, given: Any, excludes: Iterable[str], session: Path) -> str:
    place = place_of(given)
    if remote_files.scheme(place) is not None:
        return str(place)
    path = Path(place).absolute()
    _make_shelves(session)
    if path.is_dir():
        top = path.resolve().name if field == "py_modules" else ""
        return _of_folder(field, path, top, excludes, session)
    if path.suffix == ".py":
        return _of_folder(field, path, "", (), session)
    return _of_archive(path, session)


def place_of(given: Any) -> str:
    """The path or URI of what a user gives, be it an imported module."""
    if isinstance(given, ModuleType):
        return _module_place(given)
    return str(os.fspath(given))


def _module_place(module: ModuleType) -> str:
    """The folder of a package, or the file of a module without one."""
    if folders := list(getattr(module, "__path__", ())):
        return os.path.abspath(str(folders[0]))
    if not getattr(module, "__file__", None):
        raise ValueError(f"runtime_env['py_modules']: the module {module.__name__} has no file")
    return os.path.abspath(str(module.__file__))


def _make_shelves(session: Path) -> None:
    for shelf in (CODE_ARCHIVES, CODE_FOLDERS):
        (session / shelf).mkdir(mode=0o700, parents=True, exist_ok=True)


def _of_folder(field: str, path: Path, top: str, excludes: Iterable[str], session: Path) -> str:
    shelf = session / CODE_FOLDERS
    with _draft(shelf) as draft:
        content = draft / top
        content.mkdir(exist_ok=True)
        if path.is_dir():
            working_dir.copy(path, content, excludes, field)
        else:
            shutil.copy2(path, content / path.name)
        name = f"_ray_pkg_{_folder_hash(draft)}.zip"
        folder = shelf / _stem(name)
        _become(draft, folder)
    node = _Node(session)
    if node.may_have_others and not node.has(name):
        with _part(session / CODE_ARCHIVES) as part:
            _pack(folder, part)
            node.keep(part, name)
    return f"{PACKAGE}://{name}"


def _of_archive(path: Path, session: Path) -> str:
    with _part(session / CODE_ARCHIVES) as part:
        digest = hashlib.sha256()
        with open(path, "rb") as source, open(part, "wb") as copy:
            while piece := source.read(_PART):
                digest.update(piece)
                copy.write(piece)
        # The whole name would not do: it may have any characters.
        name = f"_ray_pkg_{digest.hexdigest()[:32]}{archives.ending(path.name)}"
        node = _Node(session)
        if not node.has(name):
            node.keep(part, name)
    return f"{PACKAGE}://{name}"


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _walk(folder):
        kind = b"d" if path.is_dir() else b"x" if os.access(path, os.X_OK) else b"f"
        name = os.fsencode(path.relative_to(folder))
        digest.update(b"%s%d:%s" % (kind, len(name), name))
        if kind != b"d":
            digest.update(b"%d:" % path.stat().st_size)
            with open(path, "rb") as file:
                while piece := file.read(_PART):
                    digest.update(piece)
    return digest.hexdigest()[:32]


def _walk(folder: Path) -> list[Path]:
    return sorted(Path(at) / name for at, names, files in os.walk(folder) for name in names + files)


def _pack(folder: Path, archive: Path) -> None:
    """Stored as it is: packing it small takes longer than sending it."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for path in _walk(folder):
            name = path.relative_to(folder).as_posix()
            if path.is_dir():
                entry = zipfile.ZipInfo(f"{name}/", _TIME)
                entry.external_attr = path.stat().st_mode << 16 | 0x10
                file.writestr(entry, b"")
                continue
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = path.stat().st_mode << 16
            with open(path, "rb") as source, file.open(entry, "w", force_zip64=True) as to:
                shutil.copyfileobj(source, to, _PART)


class _Node:
    """This node's part in a session: whether it is the head, and where that is."""

    def __init__(self, session: Path) -> None:
        self._session = session
        with open(session / settings.READY_FILE) as file:
            told = json.load(file)
        self._is_head = bool(told["is_head"])
        # A session of one machine opens no port: nobody else can come.
        self.may_have_others = not self._is_head or bool(told["port"])
        host, _, port = str(told["control_address"]).rpartition(":")
        self._head = (host.strip("[]"), int(port))

    def _archive(self, name: str) -> Path:
        return self._session / CODE_ARCHIVES / name

    def has(self, name: str) -> bool:
        """Whether the head's archive is known to be there."""
        return self._is_head and self._archive(name).is_file()

    def keep(self, part: Path, name: str) -> None:
        """Give the head a package; nothing is sent that it has."""
        if self._is_head:
            os.replace(part, self._archive(name))
            return
        try:
            _heliostat._give_package(
                str(self._session),
                *self._head,
                auth.token_of(str(self._session)),
                name,
                str(part),
            )
        except ConnectionError as error:
            raise CodeError(f"the head cannot be given the package {name}: {error}") from None

    @contextlib.contextmanager
    def archive(self, uri: str) -> Iterator[Path]:
        """The archive that a URI names, for a while."""
        name = uri.partition("://")[2]
        is_package = remote_files.scheme(uri) == PACKAGE
        if is_package and os.path.basename(name) != name:
            raise CodeError(f"{uri}: this is no name of a package")
        if is_package and self._archive(name).is_file():
            yield self._archive(name)
            return
        if remote_files.scheme(uri) == "file":
            yield remote_files.local_file(uri)
            return
        ending = archives.ending(name if is_package else remote_files.path_of(uri)) or ""
        with _part(self._session / CODE_ARCHIVES, ending) as part:
            if not is_package:
                remote_files.fetch(uri, part)
            elif self._is_head:
                raise CodeError(f"{uri}: the head does not have this package")
            else:
                session = str(self._session)
                token = auth.token_of(session)
                try:
                    _heliostat._take_package(session, *self._head, token, name, str(part))
                except ConnectionError as error:
                    raise CodeError(f"{uri} cannot be had from the head: {error}") from None
            yield part


def place(uri: str, field: str) -> str:
    """The folder on this node that a URI stands for, made by the first worker that needs it.

    Raises :class:`CodeError`.
    """
    session = Path(os.environ["HELIOSTAT_SESSION_DIR"])
    _make_shelves(session)
    shelf = session / CODE_FOLDERS
    folder = shelf / _folder_name(uri, field)
    if folder.is_dir():
        return str(folder)
    with open(shelf / f".{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for whoever is making it
        if not folder.is_dir():
            try:
                with _Node(session).archive(uri) as archive, _draft(shelf) as draft:
                    archives.unpack(archive, draft)
                    _become(_content(uri, field, draft), folder)
            except ArchiveError as error:
                raise CodeError(f"runtime_env[{field!r}]: {uri}: {error}") from error
            except (FetchError, OSError) as error:
                raise CodeError(f"runtime_env[{field!r}]: {error}") from error
    return str(folder)


def _folder_name(uri: str, field: str) -> str:
    if remote_files.scheme(uri) == PACKAGE:
        return _stem(uri.partition("://")[2])
    # Of one archive a module and a folder to work in may lie apart, see `_content`.
    return f"_uri_{hashlib.sha256(f'{field} {uri}'.encode()).hexdigest()[:32]}"


def _stem(name: str) -> str:
    return name.removesuffix(archives.ending(name) or "")


def _content(uri: str, field: str, draft: Path) -> Path:
    """What counts of an archive: of a remote one the only folder in it, unless that is a package itself."""
    only = archives.single_folder(draft)
    if only is None or remote_files.scheme(uri) == PACKAGE or uri.endswith(".whl"):
        return draft
    if field == "py_modules" and (only / "__init__.py").exists():
        return draft
    return only


@contextlib.contextmanager
def _draft(shelf: Path) -> Iterator[Path]:
    """A new folder, which goes unless it became something."""
    draft = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=shelf))
    try:
        draft.chmod(0o755)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _part(shelf: Path, ending: str = "") -> Iterator[Path]:
    """A new file, which goes unless it became something."""
    handle, path = tempfile.mkstemp(prefix=".", suffix=f".part{ending}", dir=shelf)
    os.close(handle)
    try:
        yield Path(path)
    finally:
        Path(path).unlink(missing_ok=True)


def _become(draft: Path, folder: Path) -> None:
    """Give what is whole its name; who was quicker has made the same."""
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
