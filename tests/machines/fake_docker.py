"""What of `docker` the launcher needs, with folders as containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.machines.machines import Machine

# `exec` runs a command whose home is the container's; `rm` ends what runs with that home.
_PROGRAM = """#!/bin/bash
root={root}
echo "$*" >> $root/log
case $1 in
pull) [[ $2 != nowhere/* ]] || {{ echo "there is no image $2" >&2; exit 1; }}; echo "pulled $2" ;;
info) echo "map[runc:{{}}]" ;;
inspect)
    [ -d "$root/$4" ] || {{ echo "no such object: $4" >&2; exit 1; }}
    [[ $3 != *Labels* ]] && echo true || echo "true $(cat $root/$4/label)" ;;
rm)
    for one in $(grep -lsz "^HOME=$root/$3\\$" /proc/[0-9]*/environ); do
        kill -9 "$(cut -d/ -f3 <<< "$one")"
    done
    rm -rf "${{root:?}}/$3" ;;
run)
    while [ "$1" != infinity ]; do
        [ "$1" != --name ] || name=$2
        [ "$1" != --label ] || label=${{2#heliostat=}}
        shift
    done
    mkdir $root/$name && echo "$label" > $root/$name/label
    cp ~/.bash_profile $root/$name/ ;;
exec)
    shift; while [[ $1 == --* ]]; do shift; done
    [ -d "$root/$1" ] || {{ echo "no such container: $1" >&2; exit 1; }}
    export HOME=$root/$1; shift; cd "$HOME" && exec "$@" ;;
*) echo "fake docker has no $1" >&2; exit 2 ;;
esac
"""


def install(machines: Sequence[Machine]) -> None:
    """Give all of them such a `docker`."""
    for machine in machines:
        folder(machine).mkdir()
        program = machine.directory / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(_PROGRAM.format(root=folder(machine)))
        program.chmod(0o755)


def folder(machine: Machine) -> Path:
    """Where a machine's containers lie, a folder each, and a `log` of what was asked for."""
    return machine.directory / "containers"
