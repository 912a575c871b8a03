"""One side: run the snippets of one file in this process and write what came of each.

``python side.py <file> <results> [names]`` — the results are JSON, one line a snippet, written as
each ends, so that a process that dies has lost only the snippet it died in.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ["PYTHONPATH"] = os.pathsep.join(
    part for part in (str(HERE), os.environ.get("PYTHONPATH")) if part
)
for _name in ("RAY_ADDRESS", "RAY_NAMESPACE", "CUDA_VISIBLE_DEVICES"):
    os.environ.pop(_name, None)

# What a shell starts in the background ignores interrupts, and so would every worker: what is cancelled
# there would run on.
signal.signal(signal.SIGINT, signal.default_int_handler)

import kit  # noqa: E402
import ray  # noqa: E402


class Sessions:
    """The session the snippets share while they ask for the same one."""

    def __init__(self) -> None:
        self.options: Any = None

    def want(self, options: Any) -> None:
        if options is not None and options == self.options and ray.is_initialized():
            return
        ray.shutdown()
        self.options = options
        if options is not None:
            ray.init("local", **{"include_dashboard": False, "logging_level": "error", **options})


def _out_of_time(*_: Any) -> None:
    raise kit.TimeLimit


def _run(snippet: kit.Snippet, sessions: Sessions) -> dict[str, Any]:
    signal.signal(signal.SIGALRM, _out_of_time)
    try:
        sessions.want(snippet.cluster)
        signal.alarm(snippet.limit_s)
        return {"value": kit.plain(snippet.run())}
    except kit.TimeLimit:
        sessions.options = "broken"
        return {"failed": f"not within {snippet.limit_s} s", "#at": traceback.format_exc()[-3000:]}
    except BaseException as error:
        return {"failed": kit.described(error), "#at": traceback.format_exc()[-3000:]}
    finally:
        signal.alarm(0)


def main(name: str, results: str, names: str = "") -> None:
    """Run them in the order of the file, those without a session last."""
    warnings.simplefilter("ignore")
    importlib.import_module(f"snippets.{name}")
    wanted = set(names.split(",")) if names else None
    chosen = [s for s in kit.SNIPPETS if wanted is None or s.name in wanted]
    sessions = Sessions()
    with open(results, "w") as out:
        for snippet in sorted(chosen, key=lambda s: (s.cluster is None, str(s.cluster))):
            result = {"name": snippet.name, "ids": snippet.ids, **_run(snippet, sessions)}
            print(json.dumps(result, sort_keys=True), file=out, flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
