"""The command line of ``tune``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from heliostat.tune.cli import commands
from heliostat.tune.error import TuneError


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "add-note":
            commands.add_note(options.path, options.filename)
        else:
            is_trials = options.command in ("list-trials", "ls")
            shown = commands.list_trials if is_trials else commands.list_experiments
            shown(
                options.path,
                options.sort and options.sort.split(","),
                options.output,
                options.filter_op,
                options.columns and options.columns.split(","),
                options.limit,
                options.desc,
            )
    except (TuneError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def cli() -> None:
    """The entry point of the command."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tune", description="Searches and their trials.")
    kinds = parser.add_subparsers(dest="command", required=True)
    tables = (
        ("list-trials", "ls", "the trials of the search in a folder"),
        ("list-experiments", "lsx", "the searches below a folder"),
    )
    for name, short, what in tables:
        table = kinds.add_parser(name, aliases=[short], help=what, description=what)
        table.add_argument("path")
        table.add_argument("--sort", help="columns to sort by, with commas")
        table.add_argument("--output", "-o", help="a .csv or .pkl for the table")
        table.add_argument("--filter", dest="filter_op", help="a condition such as 'score >= 0.9'")
        table.add_argument("--columns", help="the columns, with commas")
        table.add_argument("--limit", type=int, help="how many rows")
        table.add_argument(
            "--desc",
            nargs="?",
            const=True,
            default=False,
            type=lambda text: text.lower() in ("1", "true", "yes"),
            help="the largest first",
        )
    note = kinds.add_parser("add-note", help="edit a note beside a search or a trial")
    note.add_argument("path")
    note.add_argument("--filename", default="note.txt")
    return parser


if __name__ == "__main__":
    cli()
