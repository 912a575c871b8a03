"""Blocks of the pages that are no whole programs: what is typed, and code that needs a service.

Programs are run by test_pages.py, the tutorial by test_tutorial.py.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.harness import clean_env, free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)

pytestmark = [pytest.mark.heliostat_only("they are our pages")]


class Block(NamedTuple):
    """What stands between two fences."""

    page: str
    kind: str
    text: str


def blocks(*kinds: str) -> list[Block]:
    """Those of all pages, of these kinds or of any, without what indents them."""
    found = [
        Block(
            page.relative_to(ROOT).as_posix().removeprefix("docs/"),
            kind.partition(" ")[0],
            re.sub(f"^{indent}", "", text, flags=re.MULTILINE),
        )
        for page in PAGES
        for indent, kind, text in FENCE.findall(page.read_text())
    ]
    return [block for block in found if not kinds or block.kind in kinds]


# ---- which kinds there are ----

# What looks at a block of each kind. What is shown and not typed is `text`.
KINDS = {
    "python": "test_pages.py and test_tutorial.py run it; the README's, tests/packaging",
    "py": "needs a service or hours; test_code_that_is_not_run",
    "console": "test_commands",
    "yaml": "test_files",
    "json": "test_files",
    "bash": "test_files",
    "text": "shown by something that tests run",
}


def test_every_block_has_a_kind() -> None:
    wrong = [
        (block.page, block.kind, block.text[:60]) for block in blocks() if block.kind not in KINDS
    ]
    assert not wrong, f"a block is one of {sorted(KINDS)}"


# ---- terminals ----

# Lines that are not run here, by how they begin, and what stands for it.
ELSEWHERE = {
    "pip ": "an index; tests/packaging/test_extras.py holds that extras bring what parts ask for",
    "make ": "what runs this test; test_pages.py asks the Makefile whether it has the target",
    "docker ": "Docker; the image's files are in tests/machines/test_kubernetes.py",
    "buildah ": "as above",
    "kubectl ": "Kubernetes; tests/machines/test_kubernetes.py plays its server and the operator",
    "aws ": "an account; tests/machines/test_cloud.py plays the cloud",
    "cp dist/": "a wheel",
    "python examples/": "minutes of training; the tutorial has it, tests/train its functions",
    "heliostat stop": "the end, which is typed last",
    "python gpu/": "a GPU; tests/gpu/check.py is tried on the CPU by tests/gpu",
    "heliostat history open": "waits for Ctrl-C; tests/dashboard/test_history.py",
    "heliostat compare-runs": "two runs; tests/train/test_compare.py",
    "heliostat metrics": "a Prometheus; tests/cli/test_metrics_command.py",
    "ray debug": "waits for a breakpoint; tests/api/test_debugging.py",
}
# Pages whose lines a test of their own runs, or that need what it stands for.
OWN_TESTS = {
    "guide/tutorial.md": "docs/test_tutorial.py",
    "guide/on-premise.md": "machines/test_launcher.py",
    "guide/clouds.md": "machines/test_cloud.py",
    "guide/security.md": "cli/test_tls.py",
    "guide/kubernetes.md": "machines/test_kubernetes.py",
}
# Of a page, lines that such a test stands for.
OWN_LINES = {("guide/clusters.md", "RAY_REDIS_ADDRESS"): "cli/test_takeover.py"}


def typed(block: Block) -> Iterator[str]:
    """The lines of a terminal that somebody types, without comments."""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            yield re.sub(r"\s+#.*$", "", line[2:])


def is_elsewhere(block: Block) -> bool:
    """Whether another test has these lines."""
    of_page = (text in block.text for page, text in OWN_LINES if page == block.page)
    return block.page in OWN_TESTS or any(of_page)


def test_what_is_run_elsewhere_is_there() -> None:
    for path in (*OWN_TESTS.values(), *OWN_LINES.values()):
        assert (ROOT / "tests" / path).exists(), path
    for reason in ELSEWHERE.values():
        for path in re.findall(r"tests/[\w/.]+\w", reason):
            assert (ROOT / path).exists(), path
    lines = [line for block in blocks("console") for line in typed(block)]
    for start in ELSEWHERE:
        assert any(line.startswith(start) for line in lines), f"no page has {start!r}: take it out"


# What the output of a command tells for the next ones.
SAID = {"submission id": r"\b(raysubmit_\w+)", "address": r"Local node IP: (\S+)"}


class Terminal:
    """A shell of a machine on which nothing runs yet; what the pages call `<...>` is filled in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, str] = {}
        self.environment = clean_env({"HOME": str(folder), "RAY_TMPDIR": str(folder)})
        for name in ("HELIOSTAT_AUTH_TOKEN", "RAY_ADDRESS"):
            self.environment.pop(name, None)
        path = f"{Path(sys.executable).parent}{os.pathsep}{self.environment['PATH']}"
        self.environment["PATH"] = path
        port, pages, guests = free_port(), free_port(), free_port()
        self.own = f"--port={port} --dashboard-port={pages} --ray-client-server-port={guests}"
        # Others may use those of the pages.
        self.ports = {":6379": f":{port}", ":8265": f":{pages}", ":10001": f":{guests}"}

    def type(self, line: str) -> str:
        """Run it; what it has printed."""
        wanted = re.sub(r"<([^<>]+)>", lambda place: shlex.quote(self.names[place[1]]), line)
        wanted = wanted.replace("--pid 4242", f"--pid {self.names.get('process id')}")
        for shown, free in self.ports.items():
            wanted = wanted.replace(shown, free)
        wanted = wanted.replace("start --head", f"start --head --num-cpus=2 {self.own}")
        wanted = wanted.replace("start --address", "start --num-cpus=1 --address")
        done = subprocess.run(
            wanted,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (line, wanted, done.stdout, done.stderr)
        for name, text in SAID.items():
            if found := re.search(text, done.stdout):
                self.names[name] = found[1]
        return done.stdout


# The cluster begins with the lines of its own page. Jobs, and the laptop's driver, are this program.
FIRST = "guide/clusters.md"
SCRIPT = """
import ray, os
ray.init(os.environ.get("HERE"))
assert ray.get(ray.remote(lambda: 1).remote()) == 1
print("the script ran")
"""
ACTOR = """
import os, ray
ray.init("auto")

@ray.remote
class Kept:
    def where(self):
        print("CUDA error, says this test")
        context = ray.get_runtime_context()
        return os.getpid(), context.get_actor_id(), context.get_task_id()

kept = Kept.options(name="kept", lifetime="detached").remote()
print(*ray.get(kept.where.remote()))
"""


def test_commands(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("t")))
    terminal = Terminal(folder)
    (folder / "script.py").write_text(SCRIPT)
    names = terminal.names
    mine = [block for block in blocks("console") if not is_elsewhere(block)]
    mine.sort(key=lambda block: block.page != FIRST)
    ran: set[str] = set()
    try:
        for block in mine:
            for line in typed(block):
                if line in ran or line.startswith(tuple(ELSEWHERE)):
                    continue
                if line.startswith("curl ") and shutil.which("curl") is None:
                    continue
                if line.startswith("export "):
                    name, _, value = line.removeprefix("export ").partition("=")
                    place = value.strip("<>")
                    terminal.environment[name] = names.get(place, value)
                    continue
                if line == "python script.py":  # a driver elsewhere
                    terminal.environment["HERE"] = f"ray://127.0.0.1{terminal.ports[':10001']}"
                said = terminal.type(line)
                ran.add(line)
                if "get-auth-token" in line and line.startswith("heliostat"):
                    names["secret"] = said.strip()
                    names["what `heliostat get-auth-token` prints on the head"] = said.strip()
                    names["IP of the first"] = "127.0.0.1"
                if line == "heliostat status" and "process id" not in names:
                    assert "3.0 CPU" in said, "both machines are there"
                    (folder / "actor.py").write_text(ACTOR)
                    said = terminal.type("python actor.py").splitlines()[-1]
                    names["process id"], names["actor id"], names["task id"] = said.split()
                    names["id or name"] = "kept"
    finally:
        terminal.type("heliostat stop --force")
    assert {"heliostat list tasks", "heliostat job stop <submission id>", "ray logs"} <= ran


# ---- code that is not run ----


class Instance(NamedTuple):
    """What a call of a class gives."""

    of: type


def known(node: ast.expr, scope: dict[str, Any]) -> Any:
    """What an expression is, as far as names and classes tell; None where they do not."""
    match node:
        case ast.Name(name):
            return scope.get(name)
        case ast.Attribute(value, name):
            base = known(value, scope)
            if isinstance(base, Instance):
                return getattr(base.of, name)
            return None if base is None else getattr(base, name)
        case ast.Call(func):
            called = known(func, scope)
            if isinstance(called, type):
                return Instance(called)
            owner = known(func.value, scope) if isinstance(func, ast.Attribute) else None
            if isinstance(owner, Instance) and isinstance(called, types.FunctionType):
                given = str(called.__annotations__.get("return", ""))
                return owner if re.match(rf"(Self|{owner.of.__name__})\b", given) else None
    return None


def check_calls(tree: ast.AST, scope: dict[str, Any]) -> int:
    """Fail where a call's arguments are none that the function takes; the number of those looked at."""
    count = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = known(node.func, scope)
        if called is None:
            continue
        count += 1
        own = isinstance(node.func, ast.Attribute) and isinstance(
            known(node.func.value, scope), Instance
        )
        words = {word.arg: None for word in node.keywords if word.arg}
        inspect.signature(called).bind(*[None] * (len(node.args) + own), **words)
    return count


def read(text: str, scope: dict[str, Any]) -> None:
    """Take the names over that a block imports, defines and assigns."""
    for part in ast.parse(text).body:
        if isinstance(part, ast.Import | ast.ImportFrom):
            module = part.module if isinstance(part, ast.ImportFrom) else part.names[0].name
            try:
                exec(ast.unparse(part), scope)
            except ModuleNotFoundError:  # a package that is not installed here
                if (module or "").partition(".")[0] in ("ray", "heliostat"):
                    raise
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            scope[part.targets[0].id] = known(part.value, scope)


def test_code_that_is_not_run() -> None:
    for page in sorted({block.page for block in blocks("py")}):
        scope: dict[str, Any] = {}
        seen = 0
        for block in blocks("python", "py"):
            if block.page == page:
                read(block.text, scope)
                if block.kind == "py":
                    seen += check_calls(ast.parse(block.text), scope)
        assert seen, f"{page}: nothing of it is known"


def test_a_name_that_is_not_there_is_found() -> None:
    scope: dict[str, Any] = {}
    read("import ray\nfrom ray import serve", scope)
    assert check_calls(ast.parse("ray.get(1, timeout=2)"), scope) == 1
    with pytest.raises(TypeError, match="timeouts"):
        check_calls(ast.parse("ray.get(1, timeouts=2)"), scope)
    with pytest.raises(AttributeError):
        check_calls(ast.parse("serve.no_such_thing()"), scope)


# ---- files ----


def test_files() -> None:
    import json

    yaml = pytest.importorskip("yaml")
    for block in blocks("yaml"):
        for part in yaml.safe_load_all(block.text):
            assert isinstance(part, dict | list), block.page
    for block in blocks("json"):
        json.loads(block.text)
    for block in blocks("bash"):
        subprocess.run(["bash", "-n", "-c", block.text], check=True, timeout=60)
