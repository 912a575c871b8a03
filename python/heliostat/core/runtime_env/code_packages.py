"""The code of a runtime environment as packages, which are named by their content.

The driver's side (:func:`packaged`) makes a package of each folder (a tree, see
:mod:`.file_trees`) and archive of its machine that ``working_dir`` and ``py_modules`` name,
brings it to the head unless that has it, and puts ``gcs://<name>`` into the environment. The workers'
side (:func:`place`) fetches what its node does not have, and makes a folder of it beside, then renames:
what lies under a package's name is whole.

In a session's folder ``packages`` has packages (on the head, which serves the other nodes, all of them), and
``working_dirs`` a *view* for each job: the folders that its workers on this node share, and may write to. A
view goes with its job, packages go when they take too much room, and both with the session.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from heliostat import _heliostat
from heliostat.core.driver.daemon import CODE_ARCHIVES, CODE_FOLDERS
from heliostat.core.platform import auth, settings
from heliostat.core.runtime_env import archives, file_trees, progress, remote_files, working_dir
from heliostat.core.runtime_env.archives import ArchiveError
from heliostat.core.runtime_env.file_trees import TreeEntry, TreeError
from heliostat.core.runtime_env.remote_files import PACKAGE, FetchError

# The view of the entry point that this process is, or that began it, within the folder of views.
VIEW = "HELIOSTAT_JOB_VIEW"
_USERS = ".users"
# The view of the job that ended last, and what a later job has taken of it.
_IDLE, _RECYCLED = ".idle", ".recycled"
_PART = 1 << 20
# Packages that were used within so many seconds stay, whatever room they take.
_UNUSED_S = 600
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
    is_file = not path.is_dir()
    entries = (
        [TreeEntry(path.name, path, False)] if is_file else working_dir.found(path, excludes, field)
    )
    if top:
        inner = (one._replace(name=f"{top}/{one.name}") for one in entries)
        entries = [TreeEntry(top, path, True), *inner]
    node, shelf = _Node(session), session / CODE_ARCHIVES
    try:
        name = file_trees.make(entries, shelf, node.share)
    except OSError as error:
        raise CodeError(f"runtime_env[{field!r}]: {error}") from error
    _sweep(shelf)
    return f"{PACKAGE}://{name}"


def _sweep(shelf: Path) -> None:
    bound = settings.whole("RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB") << 30
    file_trees.sweep(shelf, bound, _UNUSED_S)


def _of_archive(path: Path, session: Path) -> str:
    with _part(session / CODE_ARCHIVES) as part:
        digest = hashlib.sha256()
        with open(path, "rb") as source, open(part, "wb") as copy:
            while piece := source.read(_PART):
                digest.update(piece)
                copy.write(piece)
        # The whole name would not do: it may have any characters.
        name = f"_ray_pkg_{digest.hexdigest()[:32]}{archives.ending(path.name)}"
        os.replace(part, session / CODE_ARCHIVES / name)
    _Node(session).share(name)
    _sweep(session / CODE_ARCHIVES)
    return f"{PACKAGE}://{name}"


class _Node:
    """This node's part in a session: whether packages are its files, and whom to ask otherwise."""

    def __init__(self, session: Path) -> None:
        self._session = session
        with open(session / settings.READY_FILE) as file:
            told = json.load(file)
        is_head = bool(told["is_head"])
        # A session of one machine opens no port: nobody else can come.
        self.may_have_others = not is_head or bool(told["port"])
        # Where other heads may follow the daemon gives them copies, and gets what the heads before had.
        self._keeps_files = is_head and not told["control_store"]
        host, _, port = str(told["control_address"]).rpartition(":")
        self._head = (host.strip("[]"), int(port))
        # A machine outside the cluster reaches the head through it.
        self._entrance = int(told.get("entrance") or 0)

    def _way_to_head(self) -> tuple[str, str, int, str, int]:
        session = str(self._session)
        return (session, *self._head, auth.token_of(session), self._entrance)

    def share(self, name: str) -> None:
        """Give the head a package of this node; nothing is sent that it has."""
        package = self._session / CODE_ARCHIVES / name
        if self._keeps_files or not self.may_have_others:
            return
        try:
            _heliostat._give_package(self._way_to_head(), name, str(package))
        except ConnectionError as error:
            raise CodeError(f"the head cannot be given the package {name}: {error}") from None

    def agree(self, name: str) -> None:
        """Have here what the head has by that name, after it was offered what is here."""
        if self._keeps_files or not self.may_have_others:
            return
        package = self._session / CODE_ARCHIVES / name
        try:
            self.share(name)
            package.unlink()
            self.named(name)
        except (CodeError, OSError):
            package.unlink(missing_ok=True)  # who needs it asks again

    def package(self, uri: str) -> Path:
        """The package that a URI names, on this node."""
        name = uri.partition("://")[2]
        is_package = remote_files.scheme(uri) == PACKAGE
        if is_package and (os.path.basename(name) != name or name.startswith(".")):
            raise CodeError(f"{uri}: this is not the name of a package")
        if remote_files.scheme(uri) == "file":
            return remote_files.local_file(uri)
        if is_package:
            return self.named(name)
        ending = archives.ending(remote_files.path_of(uri)) or ""
        kept = self._session / CODE_ARCHIVES / f"_uri_{_hash(uri)}{ending}"
        if not _is_used(kept):
            with _part(kept.parent, ending) as part:
                remote_files.fetch(uri, part)
                os.replace(part, kept)
        return kept

    def named(self, name: str) -> Path:
        """The package of that name, brought from the head unless it is here."""
        package = self._session / CODE_ARCHIVES / name
        if _is_used(package):
            return package
        if self._keeps_files:
            raise CodeError(f"{PACKAGE}://{name}: the head does not have this package")
        with _part(package.parent) as part:
            try:
                progress.step(f"fetches the package {name} of code from the head", file=part)
                _heliostat._take_package(self._way_to_head(), name, str(part))
            except ConnectionError as error:
                raise CodeError(
                    f"{PACKAGE}://{name} cannot be had from the head: {error}"
                ) from None
            os.replace(part, package)
        return package


def named(session: Path, name: str) -> bytes | None:
    """The content of a small package that the cluster may have, here or at the head."""
    try:
        node = _Node(session)
        _make_shelves(session)
        return node.named(name).read_bytes()
    except (CodeError, OSError):  # or this process is in no session
        return None


def offer(session: Path, name: str, content: bytes) -> None:
    """Give the cluster a small package, unless it has one of that name: what is here then is what it has."""
    try:
        node = _Node(session)
    except OSError:
        return  # this process is in no session
    _make_shelves(session)
    with _part(session / CODE_ARCHIVES) as part:
        part.write_bytes(content)
        with contextlib.suppress(FileExistsError):
            os.link(part, session / CODE_ARCHIVES / name)
    node.agree(name)


def _is_used(package: Path) -> bool:
    """Whether it is there; if so, it has been used now."""
    try:
        os.utime(package)
    except FileNotFoundError:
        return False
    return True


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# The views that this process is in, by their locks: they stay as long as it lives.
_held: dict[Path, int] = {}


def _enter_view(shelf: Path) -> Path:
    """The view of this process's job. It is there until the job is over and this process has ended."""
    view = shelf / (os.environ.get("HELIOSTAT_WORKER_JOB") or os.environ[VIEW])
    while view not in _held:
        view.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            handle = os.open(view / _USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # an ended job's view, which goes just now
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        try:
            is_there = os.path.samestat(os.fstat(handle), os.stat(view / _USERS))
        except FileNotFoundError:
            is_there = False
        if is_there:
            _held[view] = handle
        else:
            os.close(handle)
    return view


def join_view(session_dir: str | Path, job_id: str) -> None:
    """Have the workers of this driver, which an entry point is or began, share its view on this node."""
    shelf, of_entry = Path(session_dir) / CODE_FOLDERS, os.environ.get(VIEW)
    if of_entry and (shelf / of_entry).is_dir():
        with contextlib.suppress(FileExistsError):
            (shelf / job_id).symlink_to(of_entry)


def place(uri: str, field: str) -> str:
    """The folder on this node that a URI stands for, made by the first worker of the job that needs it.

    Raises :class:`CodeError`.
    """
    session = Path(os.environ["HELIOSTAT_SESSION_DIR"])
    _make_shelves(session)
    view = _enter_view(session / CODE_FOLDERS)
    folder = view / _folder_name(uri, field)
    if folder.is_dir():
        return str(folder)
    with open(view / f".{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for whoever is making it
        if not folder.is_dir():
            try:
                progress.step(f"puts the folder of {field!r} together")
                _make_folder(uri, field, session, folder)
            except (ArchiveError, TreeError) as error:
                raise CodeError(f"runtime_env[{field!r}]: {uri}: {error}") from error
            except (FetchError, OSError) as error:
                raise CodeError(f"runtime_env[{field!r}]: {error}") from error
            finally:
                progress.done()
    return str(folder)


def _make_folder(uri: str, field: str, session: Path, folder: Path) -> None:
    node, shelf = _Node(session), session / CODE_ARCHIVES
    # One that is fetched from elsewhere is fetched once, however many jobs of this node want it.
    with open(shelf / f".{_hash(uri)}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = node.package(uri)
    if file_trees.is_tree(package):
        draft = folder.with_name(f".{folder.name}.part")
        if not _recycle(folder.parent, draft):
            draft.mkdir(exist_ok=True)
        progress.count(file_trees.build(package, draft, node.named))
        file_trees.move(draft, folder)
    else:
        with _draft(folder.parent) as draft:
            archives.unpack(package, draft)
            _become(_content(uri, field, draft), folder)
    _sweep(shelf)


def _recycle(view: Path, draft: Path) -> bool:
    """Begin with the folder of a job that has ended: most of it may be as it has to be."""
    left = view / _RECYCLED
    with contextlib.suppress(OSError):  # there is none, or another job was quicker
        (view.parent / _IDLE).rename(left)
    # The largest: what is kept of small ones saves nothing.
    records = sorted(left.glob("*.record"), key=lambda record: record.stat().st_size)
    for record in reversed(records):
        with contextlib.suppress(OSError):
            file_trees.move(record.with_suffix(""), draft)
            return True
    return False


def _folder_name(uri: str, field: str) -> str:
    if remote_files.scheme(uri) == PACKAGE:
        return _stem(uri.partition("://")[2])
    # A module and a working folder of one archive may lie apart, see `_content`.
    return f"_uri_{_hash(f'{field} {uri}')}"


def _stem(name: str) -> str:
    return name.removesuffix(archives.ending(name) or "")


def _content(uri: str, field: str, draft: Path) -> Path:
    """Return the content of an archive: of a remote one the only folder in it, unless that is a
    package itself.
    """
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
