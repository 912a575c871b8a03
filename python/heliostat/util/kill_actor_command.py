"""``kill-actor``: end a named actor from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import heliostat
from heliostat.util import list_named_actors
from heliostat.util.commands import add_address, exit_code, session


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} kill-actor",
        description="End a named actor: after the calls that it has got, or at once with --force.",
        allow_abbrev=False,
    )
    parser.add_argument("--name", required=True, help="the actor's name")
    parser.add_argument(
        "--namespace", help="the actor's namespace [default: the only one with the name]"
    )
    parser.add_argument(
        "--force", action="store_true", help="kill its process, whatever it is doing"
    )
    parser.add_argument(
        "--no-restart",
        action="store_true",
        help="with --force: it is not started again, whatever its max_restarts say",
    )
    add_address(parser)
    options = parser.parse_args(arguments)
    if options.no_restart and not options.force:
        parser.error(
            "--no-restart goes with --force: an actor that is asked to end is not restarted."
        )
    return exit_code(lambda: _act(options))


def _act(options: argparse.Namespace) -> int:
    with session(options.address):
        namespace = _namespace(options.name, options.namespace)
        actor = heliostat.get_actor(options.name, namespace=namespace)
        if options.force:
            heliostat.kill(actor, no_restart=options.no_restart)
            print(f"Killed actor {options.name!r} of namespace {namespace!r}.")
        else:
            # A request of a driver that has ended is dropped, so this one stays.
            print("Waits for the calls that the actor has got; --force does not.", flush=True)
            heliostat.wait([actor.__ray_terminate__.remote()])
            print(f"Actor {options.name!r} of namespace {namespace!r} has ended.")
    return 0


def _namespace(name: str, wanted: str | None) -> str:
    """The one namespace that has an actor of that name; ``ValueError`` where it is not the only one."""
    found = sorted(
        row["namespace"]
        for row in list_named_actors(all_namespaces=True)
        if row["name"] == name and wanted in (None, row["namespace"])
    )
    if len(found) == 1:
        return str(found[0])
    if found:
        spaces = ", ".join(map(repr, found))
        raise ValueError(
            f"There are actors {name!r} in the namespaces {spaces}: choose with --namespace."
        )
    where = "any namespace" if wanted is None else f"the namespace {wanted!r}"
    raise ValueError(f"There is no actor {name!r} in {where}. `list actors` shows those there are.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
