"""Sends programs to hosts and collects their results; a host that ends is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.programs import emit
from tests.programs.model import Program

ROOT = Path(__file__).parents[2]
# Workers load the same modules thousands of times: compiled ones, also where nothing else is to be.
COMPILED = ROOT / "target" / "pycache"
HANG_S = 60.0


@dataclass(frozen=True)
class Result:
    """How a program went; ``error`` is empty when every reading gave what it must."""

    program: Program
    error: str
    is_hang: bool = False


class Host:
    """A process of ``tests.programs.host``."""

    def __init__(self, python: str, kind: str, n_threads: int, limit_s: float = HANG_S) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(COMPILED)
        path = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
        env |= {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
        # Nodes of a cluster outlive the process that started them: they are found by this.
        env["PROGRAMS_HOST"] = uuid.uuid4().hex
        self.mark = f"PROGRAMS_HOST={env['PROGRAMS_HOST']}"
        self.limit_s = limit_s
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the host)
        self.process = subprocess.Popen(
            [
                python,
                "-X",
                "faulthandler",
                "-m",
                "tests.programs.host",
                kind,
                str(n_threads),
                str(limit_s),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=env,
            text=True,
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def send(self, id: Any, text: str = "") -> bool:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"id": id, "text": text}) + "\n")
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def receive(self) -> dict[str, Any] | None:
        """The next result; None when the process has ended or says nothing any more."""
        try:
            return self.lines.get(timeout=4 * self.limit_s)
        except queue.Empty:
            return None

    def errors(self) -> str:
        self.stderr.seek(0)
        return self.stderr.read()[-3000:].decode(errors="replace")

    def close(self) -> str:
        """End the session; says what went wrong with that."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            code: Any = self.process.wait(2 * self.limit_s)
        except (OSError, subprocess.TimeoutExpired):
            code = "a hang"
        errors = "" if code == 0 else f"the session ended with {code}\n{self.errors()}"
        self.kill()
        return errors

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGABRT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(60)
            for pid in with_variable(self.mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.reader.join(10)
        for file in (self.process.stdin, self.process.stdout, self.stderr):
            assert file is not None
            with contextlib.suppress(OSError):
                file.close()


def with_variable(mark: str) -> list[int]:
    """The processes that have the variable in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def run_batch(host: Host, programs: list[Program]) -> tuple[list[Result], str]:
    """Run programs side by side; returns their results and what they left behind."""
    waiting = {}
    for program in programs:
        waiting[program.seed] = program
        host.send(program.seed, emit.text_of(program))
    host.send("settle")
    results: list[Result] = []
    while True:
        line = host.receive()
        if line is None:
            text = f"the process of the driver ended: {host.process.poll()}\n{host.errors()}"
            results += [Result(program, text, True) for program in waiting.values()]
            return results, ""
        if line["id"] == "settle":
            return results, str(line["error"])
        program = waiting.pop(line["id"])
        results.append(Result(program, line["error"], line.get("hang", False)))
        if line.get("hang"):
            # The others were running beside it; they are run again.
            return results, ""


def run_alone(program: Program, python: str = sys.executable, limit_s: float = HANG_S) -> str:
    """Run one program in a session of its own; returns its error."""
    host = Host(python, program.session, 1, limit_s)
    results, left = run_batch(host, [program])
    error = results[0].error if results else "no result"
    if error.startswith("hangs"):
        host.kill()
        return error
    ended = host.close()
    return error or (f"left: {left}" if left else "") or ended


def sessions_of(programs: Iterable[Program]) -> dict[tuple[str, bool], list[Program]]:
    """Programs by what may run side by side: those that end processes of tasks are apart."""
    found: dict[tuple[str, bool], list[Program]] = {}
    for program in programs:
        found.setdefault((program.session, program.ends_workers), []).append(program)
    return found
