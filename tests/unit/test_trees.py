"""F7.02: folders of code as trees of chunks, and back again."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from heliostat.core.runtime_env import file_trees, working_dir
from heliostat.core.runtime_env.file_trees import TreeError

pytestmark = [
    pytest.mark.contract("F7.02", "F7.03"),
    pytest.mark.heliostat_only("a module of its own"),
]

LARGE = 6 << 20


class Node:
    """A shelf of packages, and folders made of them."""

    def __init__(self, at: Path) -> None:
        self.shelf = at / "packages"
        self.shelf.mkdir(parents=True)
        self.at = at
        self.shared: list[str] = []

    def make(self, folder: Path) -> str:
        self.shared.clear()
        found = working_dir.found(folder, ())
        return file_trees.make(found, self.shelf, self.shared.append)

    def build(self, name: str, have: Callable[[str], Path] | None = None) -> Path:
        target = self.at / f"view{len(list(self.at.iterdir()))}"
        target.mkdir()
        file_trees.build(self.shelf / name, target, have or self.shelf.joinpath)
        return target

    def packs(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.shelf.glob("*.pack")}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that there may be."""
    made = tmp_path / "code"
    (made / "deep" / "er").mkdir(parents=True)
    (made / "no files").mkdir()
    (made / "a.py").write_text("A = 1\n")
    (made / "same.py").write_text("A = 1\n")
    (made / "empty").touch()
    (made / "deep" / "er" / "run.sh").write_text("#!/bin/sh\n")
    (made / "deep" / "er" / "run.sh").chmod(0o755)
    (made / os.fsdecode(b"not utf-8 \xff")).write_text("odd")
    (made / "large.bin").write_bytes(random.Random(1).randbytes(LARGE))
    return made


def content(folder: Path) -> dict[str, Any]:
    """All that is in a folder: bytes of files, and whether they may be run."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK))
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def age(folder: Path) -> None:
    """Let its files be older than the steps of a file system's clock."""
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_a_tree_becomes_the_folder_that_it_was_made_of(node: Node, folder: Path) -> None:
    name = node.make(folder)
    assert node.shared == [*node.packs(), name]
    assert sum(node.packs().values()) < LARGE + 100, "what is twice there is packed once"
    assert content(node.build(name)) == content(folder)
    assert not [path for path in node.shelf.iterdir() if path.suffix == ".part"]


def test_the_name_says_what_is_in_it(node: Node, folder: Path, tmp_path: Path) -> None:
    names = {node.make(folder)}
    assert names == {node.make(folder), Node(tmp_path / "other").make(folder)}
    for change in (
        lambda: (folder / "a.py").write_text("A = 2\n"),
        lambda: (folder / "a.py").chmod(0o755),
        lambda: (folder / "a.py").rename(folder / "b.py"),
        lambda: (folder / "no files").rmdir(),
        lambda: (folder / "empty").write_text("x"),
    ):
        change()
        names.add(node.make(folder))
    assert len(names) == 6


def test_of_a_folder_that_changed_the_new_chunks_alone_are_packed(node: Node, folder: Path) -> None:
    age(folder)
    node.make(folder)
    before = node.packs()
    large = (folder / "large.bin").read_bytes()
    (folder / "large.bin").write_bytes(large[: LARGE // 2] + b"one line\n" + large[LARGE // 2 :])
    name = node.make(folder)
    [new] = node.packs().keys() - before.keys()
    assert node.packs()[new] < 4 << 20
    assert set(node.shared) == {*before, new, name}, "the head may lack any of them"
    assert content(node.build(name)) == content(folder)


def test_files_that_have_not_changed_are_not_read_again(
    node: Node, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(folder)
    node.make(folder)
    read: list[str] = []
    cut = file_trees._heliostat._cut_file

    def cut_file(path: str) -> Any:
        read.append(os.path.basename(path))
        return cut(path)

    monkeypatch.setattr(file_trees._heliostat, "_cut_file", cut_file)
    node.make(folder)
    assert read == []
    (folder / "a.py").write_text("A = 2\n")
    node.make(folder)
    assert read == ["a.py"]
    # Written within a step of the clock, of the same size: nothing but its content says so.
    (folder / "a.py").write_text("A = 3\n")
    assert content(node.build(node.make(folder)))["a.py"] == (b"A = 3\n", False)


@pytest.fixture
def writer(folder: Path) -> Callable[[], None]:
    """Changes the file each time that it is called."""
    numbers = iter(range(1_000_000))

    def write() -> None:
        (folder / "large.bin").write_bytes(random.Random(next(numbers)).randbytes(LARGE))

    return write


def spoil_all(view: Path) -> None:
    """What a job may do to its folder; of the right files nothing but the large one stays."""
    (view / "a.py").write_text("A = 9\n")
    (view / "same.py").unlink()
    (view / "same.py").symlink_to("a.py")
    (view / "empty").unlink()
    (view / "empty").mkdir()
    (view / "empty" / "file").write_text("x")
    (view / "deep" / "er" / "run.sh").chmod(0o644)
    (view / "no files").rmdir()
    (view / "no files").write_text("a file now")
    (view / "new").mkdir()
    (view / "new" / "file").write_text("x")
    (view / "link").symlink_to("/")


def test_a_folder_that_a_job_has_spoiled_becomes_what_the_next_tree_says(
    node: Node, folder: Path
) -> None:
    view = node.build(node.make(folder))
    kept = (view / "large.bin").stat().st_ino
    spoil_all(view)
    (folder / "a.py").write_text("A = 2\n")
    name = node.make(folder)
    asked: list[str] = []

    def have(pack: str) -> Path:
        asked.append(pack)
        return node.shelf / pack

    file_trees.build(node.shelf / name, view, have)
    assert content(view) == content(folder)
    assert not [path for path in view.rglob("*") if path.is_symlink()]
    assert (view / "large.bin").stat().st_ino == kept, "it was not written again"
    assert asked
    asked.clear()
    file_trees.build(node.shelf / name, view, have)
    assert asked == []
    assert content(view) == content(folder)


def test_without_its_record_a_folder_is_written_anew(node: Node, folder: Path) -> None:
    name = node.make(folder)
    view = node.build(name)
    (view / "a.py").write_text("A = 9\n")
    view.with_name(f"{view.name}.record").write_text("{torn")
    file_trees.build(node.shelf / name, view, node.shelf.joinpath)
    assert content(view) == content(folder)


def test_a_file_that_changes_while_it_is_read_is_read_again_or_refused(
    node: Node, folder: Path, writer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, left = file_trees._heliostat._cut_file, [1]

    def cut_file(path: str) -> Any:
        chunks = cut(path)
        if path.endswith("large.bin") and left[0]:
            left[0] -= 1
            writer()
        return chunks

    monkeypatch.setattr(file_trees._heliostat, "_cut_file", cut_file)
    assert content(node.build(node.make(folder))) == content(folder)
    writer()
    left[0] = 100
    with pytest.raises(OSError, match=r"large\.bin changes while it is read"):
        node.make(folder)
    assert not [path for path in node.shelf.iterdir() if path.suffix == ".part"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tree: tree["entries"].append(["f", "../evil", []]),
        lambda tree: tree["entries"].append(["f", "/tmp/evil", []]),
        lambda tree: tree["entries"].append(["d", "a/../../evil"]),
        lambda tree: tree["entries"].append(["f", "x", [["../../etc/passwd", 0, 10]]]),
        lambda tree: tree["entries"].append(["f", "x", [[".chunks.json", 0, 10]]]),
        lambda tree: tree["entries"].append(["f", "x", [["x.pack", -1, 10]]]),
        lambda tree: tree["entries"].append(["f"]),
        lambda tree: tree["entries"].append(5),
        lambda tree: tree.update(heliostat_tree=99),
        lambda tree: tree.pop("entries"),
    ],
)
def test_a_tree_leads_nowhere_else(
    node: Node, folder: Path, spoil: Callable[[dict[str, Any]], None]
) -> None:
    name = node.make(folder)
    tree = json.loads((node.shelf / name).read_text())
    spoil(tree)
    (node.shelf / name).write_text(json.dumps(tree))
    with pytest.raises(TreeError, match=r"the tree (cannot be read|is of another release)"):
        node.build(name)
    assert not list(node.at.glob("**/evil"))


def test_a_pack_that_was_cut_short_is_named(node: Node, folder: Path) -> None:
    name = node.make(folder)
    [pack] = node.packs()
    os.truncate(node.shelf / pack, 1000)
    with pytest.raises(TreeError, match=f"the pack {pack} is too short"):
        node.build(name)


def test_what_was_used_longest_ago_goes_first_and_no_pack_that_is_needed(
    node: Node, folder: Path
) -> None:
    old = node.make(folder)
    first = set(node.packs())
    (folder / "large.bin").write_bytes(random.Random(2).randbytes(LARGE))
    new = node.make(folder)
    for at, path in enumerate(sorted(node.shelf.iterdir(), key=lambda path: path.name == new)):
        os.utime(path, (1000 + at, 1000 + at))
    file_trees.sweep(node.shelf, 100 << 20, 600)
    assert (node.shelf / old).exists(), "there is room"
    os.utime(node.shelf / new)
    file_trees.sweep(node.shelf, LARGE, 600)
    assert not (node.shelf / old).exists()
    assert (node.shelf / new).exists()
    # The small files of the newer one lie in the older one's pack.
    assert set(node.packs()) > first
    assert content(node.build(new)) == content(folder)
    file_trees.sweep(node.shelf, 0, 0)
    assert not node.packs()
    assert not (node.shelf / new).exists()
    assert content(node.build(node.make(folder))) == content(folder), "it is made anew"
