"""Everything that only a GPU can show, as a table with the plain way beside it.

    python tests/gpu/check.py                    every check on the first GPU
    python tests/gpu/check.py core.* data.*      some of them
    python tests/gpu/check.py --device cpu       a rehearsal: the same checks, small, on the CPU

It needs an installed wheel of Heliostat and torch; the checks of datasets need pyarrow. Nothing else of
the repository is used. Every check is a process of its own with a time limit, so that one that fails,
hangs or takes the process with it does not stop the others. Ends with 0 when every rule holds, 1 when one
does not, 77 when there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib.metadata
import importlib.util
import json
import os
import platform
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import core_checks
import data_checks
import gpu_kit
import lasting_checks
import library_checks
import train_checks

NO_GPU = 77
BUDGET_S = 570.0  # all checks together stay under ten minutes
MODULES = (core_checks, train_checks, lasting_checks, data_checks, library_checks)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.extra:
        runpy.run_path(options.extra)
    if options.run:
        return run_here(options.run, options.device, Path(options.out))
    chosen = select(options.checks)
    if not chosen:
        print(f"no check is called {' '.join(options.checks)}; --list names them", file=sys.stderr)
        return 2
    if options.list:
        for one in chosen:
            print(f"{one.name:28} {one.title}")
        return 0
    if options.device == "cuda":
        missing = why_no_gpu()
        if missing:
            print(f"No GPU here ({missing}): nothing was checked. `--device cpu` rehearses.")
            return NO_GPU
    extra = ["--extra", options.extra] if options.extra else []
    report = run_all(chosen, options.device, options.budget, extra)
    print(table(report))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
        print(f"written: {options.json}")
    return 0 if all(one["status"] == "passed" for one in report["checks"]) else 1


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checks", nargs="*", help="names or patterns; default: all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON, too")
    parser.add_argument("--list", action="store_true", help="name the checks and end")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for all checks")
    parser.add_argument("--extra", metavar="FILE", help="a file that registers checks of its own")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--out", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def select(patterns: list[str]) -> list[gpu_kit.Check]:
    every = list(gpu_kit.CHECKS.values())
    if not patterns:
        return every
    return [one for one in every if any(fnmatch.fnmatch(one.name, p) for p in patterns)]


def why_no_gpu() -> str:
    """Why there is no GPU to check; empty when there is one."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    # In a process of its own: it makes a context that would count as memory in use.
    probe = (
        "import torch; print(torch.__version__, torch.backends.cuda.is_built(), "
        "torch.cuda.is_available() and torch.cuda.device_count())"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    version, is_built, devices = done.stdout.split()
    if is_built == "False":
        return f"torch {version} is built without CUDA"
    return "torch finds no device" if devices in ("False", "0") else ""


# ---- one process for each check ----


def run_all(
    chosen: list[gpu_kit.Check], device: str, budget_s: float, extra: list[str]
) -> dict[str, Any]:
    began = time.monotonic()
    checks = []
    for one in chosen:
        left = budget_s - (time.monotonic() - began)
        print(f"… {one.name}: {one.title}", file=sys.stderr, flush=True)
        checks.append(run_apart(one, device, left, extra))
    return {
        "device": device,
        "is_rehearsal": device != "cuda",
        **machine(device),
        "seconds": round(time.monotonic() - began, 1),
        "checks": checks,
    }


def run_apart(one: gpu_kit.Check, device: str, left_s: float, extra: list[str]) -> dict[str, Any]:
    """The check's result, whatever becomes of its process."""
    result: dict[str, Any] = {"name": one.name, "title": one.title, "seconds": 0.0, "rows": []}
    missing = [name for name in one.needs if importlib.util.find_spec(name) is None]
    if missing:
        return {**result, "status": "not run", "error": f"needs {', '.join(missing)}"}
    if left_s <= 0:
        return {**result, "status": "not run", "error": "the time of all checks was used up"}
    limit = min(one.limit_s, left_s)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        out, log = Path(folder, "result.json"), Path(folder, "log.txt")
        command = [sys.executable, __file__, "--run", one.name, "--device", device, *extra]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--out", str(out)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            try:
                process.wait(limit)
                ended = f"its process ended with {process.returncode}"
            except subprocess.TimeoutExpired:
                ended = f"it took more than {limit:.0f} s"
            finally:
                # What it started and left behind holds memory of the GPU.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        result["seconds"] = round(time.monotonic() - began, 1)
        if out.exists():
            return {**result, **json.loads(out.read_text())}
        tail = log.read_text(errors="replace")[-4000:]
        return {**result, "status": "failed", "error": f"{ended}; it printed:\n{tail}"}


def run_here(name: str, device: str, out: Path) -> int:
    """Run one check in this process and write its result."""
    try:
        rows = gpu_kit.CHECKS[name].run(gpu_kit.Bench(device))
        judge = [row for row in rows if not (row.is_about_time and device != "cuda")]
        status = "passed" if all(row.holds for row in judge) else "failed"
        result = {"status": status, "rows": gpu_kit.rows_as_json(rows), "error": ""}
    except BaseException:
        result = {"status": "failed", "rows": [], "error": traceback.format_exc()}
    part = out.with_suffix(".part")
    part.write_text(json.dumps(result))
    part.replace(out)
    return 0


# ---- what people read ----


def machine(device: str) -> dict[str, str]:
    import heliostat

    driver, version = "", importlib.metadata.version("torch")
    if device == "cuda":
        import torch  # takes seconds, for which a rehearsal has no use

        driver, version = torch.cuda.get_device_name(0), torch.__version__
    return {
        "gpu": driver,
        "python": platform.python_version(),
        "torch": version,
        "heliostat": heliostat.__version__,
        "system": platform.platform(),
    }


HEADINGS = ("check", "figure", "here", "plain", "rule", "")


def table(report: dict[str, Any]) -> str:
    """The report for people: a line for each figure, then what went wrong."""
    lines = [HEADINGS]
    for one in report["checks"]:
        rows = one["rows"] or [{}]
        for index, row in enumerate(rows):
            lines.append(line(one, row, index == 0, report["is_rehearsal"]))
    widths = [max(len(cells[column]) for cells in lines) for column in range(len(HEADINGS))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in lines
    ]
    text.insert(1, "-" * max(map(len, text)))
    text += ["", *(problem(one) for one in report["checks"] if one["error"])]
    passed = sum(one["status"] == "passed" for one in report["checks"])
    about = f"{report['gpu'] or 'CPU'}, torch {report['torch']}, Python {report['python']}"
    text.append(
        f"{passed} of {len(report['checks'])} checks passed in {report['seconds']:.0f} s ({about})"
    )
    if report["is_rehearsal"]:
        text.append("REHEARSAL ON THE CPU: it shows that the checks run, and nothing about GPUs.")
    return "\n".join(text)


def line(one: dict[str, Any], row: dict[str, Any], first: bool, rehearsal: bool) -> tuple[str, ...]:
    name = one["name"] if first else ""
    if not row:
        return name, "", "", "", "", one["status"].upper()
    unit = f" {row['unit']}" if row["unit"] else ""
    plain = "" if row["plain"] is None else f"{row['plain']}{unit}"
    verdict = "ok" if row["holds"] else "FAILS"
    if rehearsal and row["is_about_time"]:
        verdict = "(not judged)"
    return name, row["figure"], f"{row['value']}{unit}", plain, row["rule"], verdict


def problem(one: dict[str, Any]) -> str:
    return f"{one['name']}: {one['status']}: {one['error'].rstrip()}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
