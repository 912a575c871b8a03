"""The text of ``heliostat why`` about a trial, read from the journals of the searches that the head
knows.

The command runs this module, writes its question to the standard input and reads the answer, both JSON.
Journals are read without making any object that they name, so that a question runs nobody's code.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.tune.runner.mirror import JOURNAL
from heliostat.tune.runner.trial import ERROR, PAUSED, PENDING, RUNNING


@dataclass
class Known:
    """The record of a trial in a journal."""

    trial_id: str
    name: str
    folder: str
    status: str = PENDING
    error: str = ""
    failures: int = 0
    iteration: int = 0
    stopped: str = ""
    actor_id: str = ""
    resources: Mapping[str, float] = field(default_factory=dict)


class _Opaque:
    """Stands for an object of a class that is not made."""

    def __new__(cls, *given: object, **named: object) -> _Opaque:
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Nothing of it is kept."""

    def __call__(self, *given: object, **named: object) -> _Opaque:
        return self

    def append(self, value: object) -> None:
        """Nothing of it is kept."""

    def __setitem__(self, key: object, value: object) -> None:
        """Nothing of it is kept."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_Opaque]:
        return _Opaque


def _records(folder: str) -> Iterator[tuple[str, str, Any]]:
    with open(os.path.join(folder, JOURNAL), "rb") as file:
        while True:
            try:
                yield _Reader(file).load()
            except (EOFError, pickle.UnpicklingError):  # the last one may be torn
                return


def read(folder: str) -> list[Known]:
    """The trials of a search, in the order in which they were made."""
    trials: dict[str, Known] = {}
    for kind, trial_id, value in _records(folder):
        trial = trials.get(trial_id)
        if kind == "trial":
            _, _, trainable, _, sub, custom = value
            name = custom or f"{trainable}_{trial_id}"
            trials[trial_id] = Known(trial_id, name, os.path.join(folder, sub))
        elif trial is None:
            continue
        elif kind in ("results", "result", "changed"):
            last = value[-1] if kind == "results" else value
            iteration = last.get("training_iteration")
            trial.iteration = iteration if isinstance(iteration, int) else trial.iteration
        elif kind == "begun":
            trial.actor_id, trial.resources = value
            trial.stopped = ""
        elif kind == "stopped":
            trial.stopped = value
        elif kind == "status":
            trial.status, trial.failures, trial.error = value
    return list(trials.values())


def explain(question: Mapping[str, Any]) -> list[dict[str, str]]:
    """The trials that ``question["id"]`` names: a text of each, and the actor that says more of it."""
    given, jobs, found = question["id"], set(question["jobs"]), []
    searches = {about["folder"]: about for about in question["searches"]}
    for folder, about in searches.items():
        try:
            trials = read(folder)
        except OSError:
            if given.startswith(about["prefix"] + "_"):
                text = f"Its search has its files in {folder}, which this machine cannot read."
                found.append({"text": text, "actor": ""})
            continue
        runs = about["job_id"] in jobs
        named = [
            one for one in trials if given in (one.trial_id, one.name, os.path.basename(one.folder))
        ]
        for trial in named:
            asks = runs and trial.status == RUNNING
            actor = trial.actor_id if asks else ""
            found.append({"text": _text(trial, trials, about, runs), "actor": actor})
        if not named and _is_to_come(given, about, len(trials)):
            text = f"Trial {given} of the search {_name(folder)} has not begun"
            found.append({"text": f"{text}{_awaited(trials, about, runs)}.", "actor": ""})
    return found


def _is_to_come(given: str, about: Mapping[str, Any], made: int) -> bool:
    prefix, _, number = given.rpartition("_")
    if prefix != about["prefix"] or not number.isdigit():
        return False
    return int(number) >= made and (about["total"] is None or int(number) < about["total"])


def _name(folder: str) -> str:
    return repr(os.path.basename(folder))


def _text(trial: Known, trials: list[Known], about: Mapping[str, Any], runs: bool) -> str:
    reports = _counted(trial.iteration, "iteration") if trial.iteration else "no report"
    lines = [f"Trial {trial.name} of the search {_name(about['folder'])} is {trial.status}."]
    again = (
        f" It failed {_counted(trial.failures, 'time')}: {_last(trial.error)}"
        if trial.failures
        else ""
    )
    if trial.status == RUNNING:
        if runs:
            lines.append(f"It has {reports} so far, and takes {_amounts(trial.resources)}.{again}")
        else:
            lines.append(f"The driver of its search has ended; it came to {reports}.{again}")
    elif trial.status == ERROR:
        lines.append(f"It ended after {reports}: {_last(trial.error)}")
        lines.append(f"The whole error: {os.path.join(trial.folder, 'error.txt')}")
    elif trial.status == PAUSED:
        lines.append(f"It has {reports}, and goes on when the scheduler chooses it.")
    elif trial.status == PENDING:
        lines.append(f"It has {reports}, and waits{_awaited(trials, about, runs)}.{again}")
    else:
        lines.append(f"It ended after {reports}. {trial.stopped or 'Nobody stopped it.'}")
    lines.append(f"Its folder: {trial.folder}")
    return "\n".join(lines)


def _awaited(trials: list[Known], about: Mapping[str, Any], runs: bool) -> str:
    """Return the reason why a trial without a place waits."""
    if not runs:
        return ": the driver of its search has ended"
    running = [one for one in trials if one.status == RUNNING]
    count = _counted(len(running), "trial") + (" runs" if len(running) == 1 else " run")
    if about["limit"] and len(running) >= about["limit"]:
        return f": {count}, and the search allows {about['limit']} at once"
    if running:
        return (
            f": {count}, each with {_amounts(running[-1].resources)}, and there is no room for more"
        )
    return ": the search has not chosen it so far"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items()) or "nothing"


def _last(error: str) -> str:
    lines = error.strip().splitlines()
    return lines[-1].strip() if lines else "it left no text."


def main() -> None:
    """Answer the question on the standard input."""
    json.dump(explain(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
