"""Which programs there are, read from their files without running them, and how a file is run."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
# For a whole file, beside the limits of its programs.
LIMIT_S = 900


@dataclass(frozen=True)
class Entry:
    """A program as its file names it."""

    theme: str
    name: str
    source: str
    fails: str
    differs: bool


def themes() -> list[str]:
    """The files of programs."""
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


@cache
def entries(theme: str) -> tuple[Entry, ...]:
    """The programs of a file, in its order."""
    tree = ast.parse((PROGRAMS / f"{theme}.py").read_text())
    found = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "stranger":
                words = {word.arg: word.value for word in mark.keywords}
                fails = ast.literal_eval(words["fails"]) if "fails" in words else ""
                source = ast.literal_eval(mark.args[0])
                found.append(Entry(theme, node.name, source, fails, "on_ray" in words))
    return tuple(found)


def run(theme: str, python: str = sys.executable, only: str = "") -> tuple[dict[str, Any], str]:
    """Runs a file under an interpreter: each program's row by its name, and what was printed."""
    with tempfile.TemporaryDirectory(prefix="strangers") as folder:
        results = Path(folder) / "results.jsonl"
        log = Path(folder) / "log"
        command = [python, str(PROGRAMS / f"{theme}.py"), str(results), *([only] if only else [])]
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH")) if part)
        # A stranger's folder is neither ours nor empty of meaning: it is the working directory.
        environment = {
            **{k: v for k, v in os.environ.items() if k not in ("RAY_ADDRESS", "RAY_NAMESPACE")},
            "PYTHONPATH": path,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
                env=environment,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = results.read_text().splitlines() if results.exists() else []
        rows = {row["name"]: row for row in map(json.loads, lines)}
        return rows, log.read_text(errors="replace")
