"""Files that a URI names: which schemes there are, and how one gets here."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

# The cluster's own packages, which drivers have brought.
PACKAGE = "gcs"
SCHEMES = ("https", "http", "s3", "gs", "file", PACKAGE)

# How long a server may be silent.
_SILENCE_S_MAX = 60.0
_PART = 1 << 20


class FetchError(RuntimeError):
    """The file did not come; the text is a sentence for the user."""


def scheme(place: str) -> str | None:
    """The scheme of a URI, in small letters; ``None``: this is a path."""
    before, mark, _ = place.partition("://")
    return before.lower() if mark else None


def path_of(uri: str) -> str:
    """The path in it, which ends as the file's name does."""
    return urllib.parse.unquote(urllib.parse.urlsplit(uri).path)


def local_file(uri: str) -> Path:
    """The file of this machine that a ``file://`` URI names."""
    parts = urllib.parse.urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise FetchError(f"{uri}: a file:// URI has three slashes and an absolute path")
    return Path(urllib.parse.unquote(parts.path))


def fetch(uri: str, to: Path) -> None:
    """Have the file here. Raises :class:`FetchError`."""
    try:
        if scheme(uri) == "file":
            shutil.copyfile(local_file(uri), to)
        elif scheme(uri) in ("http", "https"):
            _fetch_web(uri, to)
        else:
            _fetch_store(uri, to)
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(f"{uri} cannot be fetched: {error}") from error


def _fetch_web(uri: str, to: Path) -> None:
    request = urllib.request.Request(uri, headers={"User-Agent": "heliostat"})
    try:
        with urllib.request.urlopen(request, timeout=_SILENCE_S_MAX) as answer:
            with open(to, "wb") as file:
                shutil.copyfileobj(answer, file, _PART)
            told = answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        raise FetchError(
            f"{uri} cannot be fetched: the server says {error.code} {error.reason}"
        ) from None
    except urllib.error.URLError as error:
        raise FetchError(f"{uri} cannot be fetched: {error.reason}") from error
    came = to.stat().st_size
    if told is not None and told.isdigit() and int(told) != came:
        raise FetchError(f"{uri} cannot be fetched: {came} of {told} bytes came")


def _fetch_store(uri: str, to: Path) -> None:
    try:
        import fsspec
    except ImportError:
        raise FetchError(
            f"{uri} cannot be fetched: {scheme(uri)}:// is read by the package fsspec, which this node does "
            "not have"
        ) from None
    try:
        files, path = fsspec.core.url_to_fs(uri)
        files.get_file(path, str(to))
    except ImportError as error:
        raise FetchError(f"{uri} cannot be fetched: {error}") from error
    except OSError:
        raise
    except Exception as error:  # each store has its own kinds of errors
        raise FetchError(f"{uri} cannot be fetched: {type(error).__name__}: {error}") from error
