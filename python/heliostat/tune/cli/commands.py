"""The functions of the command ``tune``, for programs, too: tables of trials and searches, notes
beside them.
"""

from __future__ import annotations

import csv
import operator
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from heliostat.tune.error import TuneError
from heliostat.tune.runner.mirror import JOURNAL
from heliostat.tune.runner.search import ADDED
from heliostat.tune.runner.store import read_trials
from heliostat.tune.stopper import flattened

Row = dict[str, Any]

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def list_trials(
    experiment_path: str,
    sort: Sequence[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: Sequence[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print a table of the trials of a search.

    Args:
        experiment_path: Folder of the search.
        sort: Columns to sort by.
        output: A file, ``.csv`` or ``.pkl``, that the table is written into besides.
        filter_op: A condition such as ``"score >= 0.9"``: column, operator and value, with spaces.
        info_keys: The columns, by names such as ``config/lr``. Default: the id, the status, the last
            metrics and the configuration.
        limit: How many rows; default: all.
        desc: Sort with the largest first.

    Raises:
        TuneError: There is no search in the folder, a column does not exist, or ``filter_op`` or
            ``output`` is something else.
    """
    if not os.path.exists(os.path.join(experiment_path, JOURNAL)):
        raise TuneError(f"There is no search in {experiment_path}: {JOURNAL} is missing.")
    rows: list[Row] = []
    for trial in read_trials(os.path.abspath(experiment_path)):
        metrics = {
            name: value
            for name, value in flattened(trial.last_result).items()
            if name.split("/")[0] not in ADDED
        }
        rows.append(
            {
                "trial_id": trial.trial_id,
                "status": trial.status,
                "training_iteration": trial.last_result.get("training_iteration"),
                "time_total_s": trial.last_result.get("time_total_s"),
                **metrics,
                **{f"config/{name}": value for name, value in flattened(trial.config).items()},
            }
        )
    _show(rows, sort, output, filter_op, info_keys, limit, desc)


def list_experiments(
    project_path: str,
    sort: Sequence[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: Sequence[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print a table of the searches below a folder; the arguments are those of ``list_trials``.

    Raises:
        TuneError: There is no search, or an argument is something else.
    """
    rows: list[Row] = []
    for name in sorted(os.listdir(project_path)):
        folder = os.path.join(project_path, name)
        if not os.path.exists(os.path.join(folder, JOURNAL)):
            continue
        trials = read_trials(os.path.abspath(folder))
        states = Counter(trial.status for trial in trials)
        rows.append(
            {
                "name": name,
                "total_trials": len(trials),
                "running_trials": states["RUNNING"],
                "terminated_trials": states["TERMINATED"],
                "error_trials": states["ERROR"],
                "last_updated": os.path.getmtime(os.path.join(folder, JOURNAL)),
            }
        )
    if not rows:
        raise TuneError(f"There is no search below {project_path}.")
    _show(rows, sort, output, filter_op, info_keys, limit, desc)


def add_note(path: str, filename: str = "note.txt") -> None:
    """Open a text file of a folder in ``$EDITOR`` (default: vi).

    Raises:
        TuneError: There is no such folder, or the editor failed.
    """
    if not os.path.isdir(path):
        raise TuneError(f"{path} is not a folder: give that of a search or of a trial.")
    editor = os.environ.get("EDITOR", "vi")
    try:
        ended = subprocess.run([*editor.split(), os.path.join(path, filename)], check=False)
    except OSError as error:
        raise TuneError(f"The editor {editor!r} did not start: {error}") from error
    if ended.returncode:
        raise TuneError(f"The editor {editor!r} ended with {ended.returncode}.")
    print(f"The note is in {os.path.join(path, filename)}")


def _show(
    rows: list[Row],
    sort: Sequence[str] | None,
    output: str | None,
    filter_op: str | None,
    columns: Sequence[str] | None,
    limit: int | None,
    desc: bool,
) -> None:
    known = list(dict.fromkeys(name for row in rows for name in row))
    names = list(columns or known)
    for name in [*names, *(sort or [])]:
        if name not in known:
            raise TuneError(f"There is no column {name!r}. There are: {', '.join(known)}.")
    if filter_op:
        rows = [row for row in rows if _holds(row, filter_op, known)]
    for name in reversed(sort or []):
        # Rows without the value come last, whichever way.
        has = sorted(
            (row for row in rows if row.get(name) is not None),
            key=lambda row: _key(row[name]),
            reverse=desc,
        )
        rows = has + [row for row in rows if row.get(name) is None]
    rows = [{name: row.get(name) for name in names} for row in rows[:limit]]
    table = [names, *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[n]) for line in table) for n in range(len(names))]
    for line in table:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    if output is not None:
        _write(rows, names, output)


def _key(value: object) -> tuple[int, Any]:
    """Numbers before texts, so that a column of both can be sorted."""
    is_number = isinstance(value, int | float)
    return (0, value) if is_number else (1, str(value))


def _holds(row: Row, condition: str, known: list[str]) -> bool:
    parts = condition.split(maxsplit=2)
    if len(parts) != 3 or parts[1] not in OPERATORS:
        raise TuneError(
            f"filter {condition!r} must be '<column> <operator> <value>', with one of "
            f"{', '.join(OPERATORS)}."
        )
    name, sign, text = parts
    if name not in known:
        raise TuneError(f"There is no column {name!r}. There are: {', '.join(known)}.")
    found = row.get(name)
    if found is None:
        return False
    try:
        return OPERATORS[sign](float(found), float(text))
    except (TypeError, ValueError):
        return OPERATORS[sign](str(found), text)


def _text(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _write(rows: list[Row], names: list[str], output: str) -> None:
    if output.endswith(".csv"):
        with open(output, "w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    elif output.endswith(".pkl"):
        from heliostat.core.platform.extras import required

        required("pandas", "A table as a .pkl", "tune").DataFrame(rows, columns=names).to_pickle(
            output
        )
    else:
        raise TuneError(f"output={output!r} must be a file that ends in .csv or .pkl.")
    print(f"The table is in {output}")
