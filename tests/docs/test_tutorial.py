"""The tutorial, step by step: its files are written, its commands run, and print what stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.harness import clean_env, free_port

PAGE = Path(__file__).parents[2] / "docs/guide/tutorial.md"
BLOCK = re.compile(
    r'^```(python|console)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL
)

pytestmark = [pytest.mark.heliostat_only("it is our page"), pytest.mark.timeout(1800)]


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Files to write, as (name, text), and commands to run, as ("$", command and its output)."""
    for kind, title, block in BLOCK.findall(text):
        if kind == "python":
            yield title, block
            continue
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield "$", command


def fits(shown: str, printed: str) -> bool:
    """Whether the lines that a page shows are printed, in this order; "..." stands for anything."""
    wanted = ".*".join(map(re.escape, shown.strip().split("...")))
    return re.search(wanted, printed, re.DOTALL) is not None


def test_what_a_page_shows_is_compared() -> None:
    assert fits("a: 1\nb: ...\n", "log\na: 1\nb: x\n")
    assert not fits("a: 1\n", "a: 2\n")
    assert fits("...\n", "anything")
    assert not fits("b\na", "a\nb")


def test_the_page_installs_what_its_files_import() -> None:
    from heliostat.core.platform import extras

    text = PAGE.read_text()
    line = re.search(r"^\$ pip install 'heliostat\[(.*)\]'(.*)$", text, re.MULTILINE)
    assert line is not None
    installed = {"ray", *line[2].split()}
    installed |= {m for m, (_, extra) in extras._PACKAGES.items() if extra in line[1].split(",")}
    files = dict(step for step in steps(text) if step[0] != "$")
    for content in files.values():
        for module in re.findall(r"^(?:from|import) (\w+)", content, re.MULTILINE):
            known = module in sys.stdlib_module_names or f"{module}.py" in files
            assert known or module in installed, module


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: addresses of sockets have at most 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="hs-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_every_step_does_what_the_page_says(folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    text = PAGE.read_text()
    for port in ("6379", "8000"):  # others may use these
        text = text.replace(port, str(free_port()))
    text = text.replace(
        "serve.run(app)",
        f'serve.start(http_options={{"port": {serve_port(text)}}})\n    serve.run(app)',
    )
    environment = clean_env(
        {"HOME": str(folder), "RAY_TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    )
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    ran = 0
    try:
        for name, content in steps(text):
            if name != "$":
                (folder / name).write_text(content)
                continue
            command, _, shown = content.partition("\n")
            if command.startswith("export "):
                variable, _, value = command.removeprefix("export ").partition("=")
                environment[variable] = value
                continue
            if command.startswith("pip "):
                continue  # tests/packaging installs extras
            command = command.replace(
                "--head ", "--head --include-dashboard=false --ray-client-server-port=0 "
            )
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=900,  # torch is imported by several processes at once
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert fits(shown, done.stdout), (command, shown, done.stdout)
            ran += 1
    finally:
        stop = [Path(sys.executable).with_name("heliostat"), "stop", "--force"]
        subprocess.run(stop, env=environment, capture_output=True, timeout=120, check=False)
    assert ran > 6, "the page has commands"


def serve_port(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
    assert found
    return found[1]
