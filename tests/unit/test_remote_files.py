"""F7.02: files come by the store's own package, and what a node lacks is said."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from heliostat.core.runtime_env import remote_files

pytestmark = [pytest.mark.heliostat_only("a module of its own"), pytest.mark.contract("F7.02")]


class Store:
    """Stands for a bucket: has one file."""

    def get_file(self, path: str, to: str) -> None:
        if path != "bucket/code.zip":
            raise FileNotFoundError(path)
        Path(to).write_bytes(b"code")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    def url_to_fs(uri: str) -> tuple[Store, str]:
        scheme, _, path = uri.partition("://")
        if scheme != "s3":
            raise ImportError("Please install gcsfs to access Google Storage")
        return Store(), path

    core = SimpleNamespace(url_to_fs=url_to_fs)
    monkeypatch.setitem(sys.modules, "fsspec", SimpleNamespace(core=core))


def test_a_file_of_a_store_comes(store: None, tmp_path: Path) -> None:
    remote_files.fetch("s3://bucket/code.zip", tmp_path / "code.zip")
    assert (tmp_path / "code.zip").read_bytes() == b"code"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://bucket/none.zip", "none.zip cannot be fetched"),
        ("gs://bucket/code.zip", "install gcsfs"),
        ("file:///nowhere/code.zip", "No such file"),
        ("http://127.0.0.1:1/code.zip", "Connection refused"),
    ],
)
def test_what_does_not_come_is_a_sentence(store: None, tmp_path: Path, uri: str, says: str) -> None:
    with pytest.raises(remote_files.FetchError, match=says) as caught:
        remote_files.fetch(uri, tmp_path / "code.zip")
    assert uri in str(caught.value)


def test_a_node_without_the_package_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        remote_files.FetchError, match="the package fsspec, which this node does not"
    ):
        remote_files.fetch("s3://bucket/code.zip", tmp_path / "code.zip")
