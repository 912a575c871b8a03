"""The pages below docs/: what they show runs and prints what they say, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ray import exceptions

from tests.helpers.harness import free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
# Pages for users; the others are about the inside, and have no programs.
PAGES = sorted([DOCS / "index.md", DOCS / "serve.md", *DOCS.glob("guide/*.md")])
# Programs of files and commands between them, which a test of its own does step by step.
TUTORIAL = DOCS / "guide/tutorial.md"

CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What the commands of a terminal begin with, besides ours (tests/packaging/test_named_commands.py asks the
# parsers of those): programs of the system and of others, which a page may name and the tests do not start.
OUTSIDE = {
    "aws",
    "buildah",
    "cp",
    "curl",
    "docker",
    "export",
    "for",
    "kubectl",
    "openssl",
    "python",
    "ssh",
}
OURS = {"heliostat", "ray", "serve", "tune"}

# Packages that a program imports, and the extra that has them.
EXTRA_OF = {
    r"ray\.data|from ray import data": ("data", "train", "rllib"),
    r"ray\.train|from ray import .*train": ("train",),
    r"ray\.tune|from ray import .*tune": ("tune", "train", "rllib"),
    r"ray\.rllib": ("rllib",),
    r"from (?:ray|heliostat) import serve": ("serve",),
    r"import dask": ("dask",),
    r"import joblib": ("joblib",),
}

pytestmark = pytest.mark.heliostat_only("they are our pages")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL], ids=name_of)
def test_the_programs_of_a_page_print_what_they_say(
    run_driver: Any, tmp_path: Path, page: Path
) -> None:
    program = "\n".join(BLOCK.findall(page.read_text()))
    if "import torch" in program or "iter_torch" in program:
        pytest.importorskip("torch")
    if "serve.run(" in program:  # others may use its port
        port = free_port()
        program = program.replace(":8000", f":{port}")
        start = f'serve.start(http_options={{"port": {port}}})\nserve.run('
        program = program.replace("serve.run(", start, 1)
    done = run_driver(program)
    done.check()
    expected = SAID.findall(program)
    assert expected, "a page shows something"
    found = [line for line in done.stdout.splitlines() if line in expected]
    assert found == expected, done.stdout


def test_every_page_is_reached_and_every_link_leads_somewhere() -> None:
    linked = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            target = (page.parent / link).resolve()
            assert target.exists(), f"{name_of(page)}: {link}"
            linked.add(target)
    assert {page for page in PAGES if page.name != "index.md"} <= linked


def commands(text: str) -> list[str]:
    """The commands of the terminals that a page shows, without what is a variable or a comment."""
    lines = [line for block in CONSOLE.findall(text) for line in block.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [
        re.sub(r"^(?:[A-Za-z_]+=(?:\$\([^)]*\)|\"[^\"]*\"|'[^']*'|\S*) ?)+", "", line)
        for line in shown
    ]


def test_commands_are_found() -> None:
    text = "```console\n$ A=b ray status   # x\noutput\n$ a=1 b='2'\n$ make docs\n```\n"
    assert commands(text) == ["ray status   # x", "", "make docs"]


def test_what_is_typed_is_there() -> None:
    root = DOCS.parent
    tasks = re.search(r"^TASKS := (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert tasks is not None
    extras = set(
        re.findall(r"^([a-z-]+) = \[", (root / "pyproject.toml").read_text(), re.MULTILINE)
    )
    for page in {*PAGES, *DOCS.glob("*.md")}:
        for command in filter(None, commands(page.read_text())):
            words = command.split()
            where = f"{name_of(page)}: {command}"
            if words[0] == "make":
                assert words[1] in tasks[1].split(), where
            elif words[0] == "pip":
                assert words[1] in ("download", "install", "uninstall"), where
                for named in re.findall(r"heliostat\[([a-z,-]+)\]", command):
                    assert set(named.split(",")) <= extras, where
            elif words[0].startswith("."):
                assert words[0].startswith(".venv/bin/"), where
            else:
                assert words[0] in OURS | OUTSIDE, where
            for path in re.findall(r"\bexamples/[\w./-]+", command):
                assert (root / path).exists(), where


def test_a_page_says_first_what_it_needs() -> None:
    for page in PAGES:
        text = page.read_text()
        program = "\n".join(re.findall(r"^```python.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        before, program_begins, _ = text.partition("```python")
        if program_begins and page.name != "index.md":
            assert re.search(r"(^\$ |`)pip install ", before, re.MULTILINE), name_of(page)
        lists = re.findall(r"pip install 'heliostat\[([a-z,-]+)\]'", before)
        installed = {extra for named in lists for extra in named.split(",")}
        for imported, extras in EXTRA_OF.items():
            if re.search(imported, program):
                assert installed & set(extras), (
                    f"{name_of(page)}: pip install 'heliostat[{extras[0]}]'"
                )


def test_every_decision_is_in_the_list_of_decisions_once() -> None:
    folder = DOCS / "decisions"
    linked = re.findall(r"\]\((\d+-[^)]*\.md)\)", (folder / "README.md").read_text())
    assert sorted(linked) == sorted(page.name for page in folder.glob("[0-9]*.md"))


def test_pages_about_the_inside_name_files_that_are_there() -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("bench", "crates", "python", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".rs", ".tsx", ".ts")
    }
    named = {
        (page.name, name)
        for page in (DOCS / "internals").glob("*.md")
        for name in re.findall(r"`([\w/-]+\.(?:py|rs|tsx?))`", page.read_text())
    }
    assert named
    missing = [one for one in named if not any(f"/{path}".endswith(f"/{one[1]}") for path in files)]
    assert not missing


def test_every_error_is_explained() -> None:
    text = (DOCS / "guide/errors.md").read_text()
    public = [
        name
        for name, found in vars(exceptions).items()
        if isinstance(found, type) and issubclass(found, exceptions.RayError)
    ]
    missing = [name for name in public if name != "RayError" and f"`{name}`" not in text]
    assert not missing
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(set(rows) & set(public)), "each is there, once"
