"""Run the same snippets on Ray and on Heliostat and print where they differ.

``python compare.py --ray PYTHON --heliostat PYTHON [--file f1_tasks] [--only NAME] [--messages]``

A difference that is known has its reason in ``tests/differential/differences.toml`` and is only counted; any
other one is printed and makes the exit code 1. Wording is not compared, substance is: the classes an
error can be caught as, and the words that a snippet looks for in its message.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import documented

HERE = Path(__file__).parent
LIMIT_S = 1500
CACHE = HERE.parents[1] / ".bench" / "differential"


def run_side(python: str, file: str, names: str) -> dict[str, Any]:
    """What came of each snippet of the file under that interpreter."""
    # Sessions go to a folder of their own: clusters of others on this machine must not be found.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/tmp") as own:
        results = Path(folder) / "results.jsonl"
        log = Path(folder) / "log"
        with log.open("wb") as out:
            code = subprocess.run(
                [python, str(HERE / "side.py"), file, str(results), names],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
                env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": own},
                timeout=LIMIT_S,
                check=False,
            ).returncode
        lines = results.read_text().splitlines() if results.exists() else []
        found = {line["name"]: line for line in map(json.loads, lines)}
        if code:
            found[""] = {"name": "", "ids": [], "failed": f"the process ended with {code}"}
            tail = log.read_text(errors="replace")[-2000:]
            print(f"{file}: {python} ended with {code}\n{tail}", file=sys.stderr)
        return found


def run_ray(python: str, file: str, names: str, fresh: bool) -> dict[str, Any]:
    """As :func:`run_side`; what a whole file gave is kept for as long as the file stays the same."""
    text = b"".join(p.read_bytes() for p in (HERE / f"snippets/{file}.py", HERE / "kit.py"))
    kept = CACHE / f"{file}-{hashlib.sha256(text + python.encode()).hexdigest()[:12]}.json"
    if kept.exists() and not fresh:
        found = json.loads(kept.read_text())
        return {k: v for k, v in found.items() if not names or k in names.split(",")}
    found = run_side(python, file, names)
    if not names and "" not in found:
        CACHE.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return found


def compared(value: Any) -> Any:
    """What of a value counts: keys that begin with '#' are for the reader only."""
    if isinstance(value, dict):
        return {k: compared(v) for k, v in value.items() if not k.startswith("#")}
    if isinstance(value, list):
        return [compared(part) for part in value]
    return value


def differences(one: Any, other: Any, place: str) -> list[tuple[str, str]]:
    """Where the two values differ: the place, and what each side has there."""
    if isinstance(one, dict) and isinstance(other, dict) and _kind(one) == _kind(other):
        found = []
        for key in sorted({*one, *other}):
            if key in one and key in other:
                found += differences(one[key], other[key], f"{place}.{key}")
            else:
                side = "Ray" if key in one else "Heliostat"
                found.append((f"{place}.{key}", f"only {side}: {one.get(key, other.get(key))!r}"))
        return found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{place}.{i}")]
    if isinstance(one, list) and isinstance(other, list):
        missing, more = ([x for x in a if x not in b] for a, b in ((one, other), (other, one)))
        return [(place, f"only Ray: {missing!r}, only Heliostat: {more!r}")]
    return [] if one == other else [(place, f"Ray {one!r}, Heliostat {other!r}")]


def _kind(value: dict[str, Any]) -> str:
    """Whether it stands for a value or for an error: those are compared as wholes."""
    return next((key for key in ("returns", "raises", "value", "failed") if key in value), "")


def _messages(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [str(value[key]) for key in ("#message", "#output", "#at") if key in value]
        return own + [m for key in sorted(value) for m in _messages(value[key])]
    if isinstance(value, list):
        return [m for part in value for m in _messages(part)]
    return []


def _print_messages(ray: Any, heliostat: Any) -> None:
    for who, value in (("Ray", ray), ("Heliostat", heliostat)):
        for message in _messages(value):
            print(f"    {who}: " + message.replace("\n", "\n      "))


def main() -> int:
    """Print the differences; 0 when each one is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ray", required=True, help="an interpreter that has Ray")
    parser.add_argument("--heliostat", default=sys.executable, help="one that has Heliostat")
    parser.add_argument("--file", action="append", help="only this file of snippets/")
    parser.add_argument("--only", default="", help="only these snippets, by comma")
    parser.add_argument("--fresh", action="store_true", help="ask Ray again, whatever is kept")
    parser.add_argument("--messages", action="store_true", help="show both sides' messages")
    given = parser.parse_args()

    files = given.file or sorted(path.stem for path in HERE.glob("snippets/f*.py"))
    places = documented.places()
    seen: set[str] = set()
    total, expected, unexpected = 0, 0, 0
    for file in files:
        ray = run_ray(given.ray, file, given.only, given.fresh)
        ours = run_side(given.heliostat, file, given.only)
        for name in sorted({*ray, *ours}, key=[*ray, *ours].index):
            total += 1
            one, other = ray.get(name, {}), ours.get(name, {})
            kept = [
                {k: v for k, v in side.items() if k not in ("name", "ids")} for side in (one, other)
            ]
            place = f"{file.partition('_')[0]}.{name}"
            found = differences(compared(kept[0]), compared(kept[1]), place)
            new = []
            for line in found:
                pattern = documented.pattern(line[0], places)
                if pattern is None:
                    new.append(line)
                else:
                    seen.add(pattern)
            expected += len(found) - len(new)
            unexpected += len(new)
            if new:
                print(f"{file} {name} ({' '.join((one or other)['ids'])})")
                print(*(f"  {place}: {text}" for place, text in new), sep="\n")
            if given.messages or (new and ("failed" in one or "failed" in other)):
                _print_messages(one, other)
        sys.stdout.flush()
    if not given.file and not given.only:
        for pattern in sorted({*places} - seen):
            print(f"tests/differential/differences.toml: {pattern}: no longer seen")
            unexpected += 1
    print(f"{total} snippets, {expected} known differences, {unexpected} others")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
