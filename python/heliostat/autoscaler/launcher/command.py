"""``up``, ``down``, ``exec``, ``attach``, ``submit``, ``rsync-up``, ``rsync-down``, ``get-head-ip``,
``get-worker-ips`` and ``monitor``."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from heliostat.autoscaler.launcher.beside_head import log_file
from heliostat.autoscaler.launcher.checks import ConfigError
from heliostat.autoscaler.launcher.cluster import Cluster, ClusterError, in_the_background
from heliostat.autoscaler.launcher.config import load
from heliostat.autoscaler.launcher.remote import RemoteError
from heliostat.core.errors import AuthenticationError

_LINES = 100


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    name, *given = arguments
    # Arguments behind `--` are a script's own.
    own = given.index("--") if name == "submit" and "--" in given else len(given)
    options = _parser(name, program).parse_intermixed_args(given[:own])
    if name == "submit":
        options.script_args += given[own + 1 :]
    options.program = program
    try:
        return _COMMANDS[name][1](options)
    except (
        AuthenticationError,
        ClusterError,
        ConfigError,
        RemoteError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser(name: str, program: str) -> argparse.ArgumentParser:
    about = _COMMANDS[name][0]
    parser = argparse.ArgumentParser(f"{program} {name}", description=about, allow_abbrev=False)
    add = parser.add_argument
    add("config", metavar="CLUSTER.YAML", help="the file that describes the cluster")
    add("-n", "--cluster-name", help="instead of the file's `cluster_name`")
    # Accepted for the sake of scripts: nothing here is styled, cached or counted.
    for ignored in ("--log-style", "--log-color"):
        add(ignored, help=argparse.SUPPRESS)
    for ignored in ("--no-config-cache", "--disable-usage-stats"):
        add(ignored, action="store_true", help=argparse.SUPPRESS)
    add("-v", "--verbose", action="count", help=argparse.SUPPRESS)
    if name in ("up", "down"):
        add("-y", "--yes", action="store_true", help="do not ask")
    if name == "up":
        add("--min-workers", type=int, help="instead of the file's")
        add("--max-workers", type=int, help="instead of the file's")
        add("--no-restart", action="store_true", help="leave running what runs")
        add("--restart-only", action="store_true", help="set nothing up")
        add("--redirect-command-output", action="store_true", help="into a file, which is named")
        shells = parser.add_mutually_exclusive_group()
        shells.add_argument(
            "--use-login-shells", action="store_true", help="commands run as in a login [default]"
        )
        shells.add_argument(
            "--use-normal-shells", action="store_true", help="commands run by `bash -c`"
        )
    if name == "down":
        add("--workers-only", action="store_true", help="leave the head")
        add(
            "--keep-min-workers",
            action="store_true",
            help="leave the head, and as many workers as the file asks for at least",
        )
    if name in ("exec", "submit", "attach"):
        add("--start", action="store_true", help="start the cluster first if it is not up")
        add("--screen", action="store_true", help="in a screen, which goes on without you")
        add("--tmux", action="store_true", help="in tmux, which goes on without you")
        add(
            "-p",
            "--port-forward",
            type=int,
            action="append",
            default=[],
            metavar="PORT",
            help="a port of the machine that becomes one of this one; may be given several times",
        )
    if name in ("exec", "submit"):
        add("--stop", action="store_true", help="stop the cluster when the command has ended")
    if name == "exec":
        add(
            "--run-env",
            choices=("auto", "host", "docker"),
            default="auto",
            help="on the machine itself, or in its container, which is usual where the file has one",
        )
        add("cmd", metavar="COMMAND", help="what the head's shell runs")
    if name == "attach":
        add("-N", "--new", action="store_true", help="a further screen or tmux")
        add("--node-ip", help="another machine than the head")
    if name == "submit":
        add("--args", help=argparse.SUPPRESS)
        add("--extra-screen-args", default="", help="further arguments of screen")
        add("script", help="the Python program on this machine")
        add("script_args", nargs="*", help="its arguments; those with a dash behind `--`")
    if name in ("rsync-up", "rsync-down"):
        add("source", nargs="?", help="what is copied [default: the file mounts]")
        add("target", nargs="?", help="where to")
    if name == "rsync-up":
        add("-A", "--all-nodes", action="store_true", help="to all machines, not only the head")
    if name == "monitor":
        add("--lines", type=int, default=_LINES, help=f"that many of before [{_LINES}]")
    return parser


def _cluster(options: argparse.Namespace, **more: object) -> Cluster:
    config = load(
        options.config,
        cluster_name=options.cluster_name,
        min_workers=getattr(options, "min_workers", None),
        max_workers=getattr(options, "max_workers", None),
    )
    return Cluster(config, **more)  # type: ignore[arg-type] # as its own signature says


def _confirmed(options: argparse.Namespace, question: str) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise RuntimeError(f"{question} Say --yes where nobody can be asked.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _up(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        more: dict[str, object] = {"is_login_shell": not options.use_normal_shells}
        if options.redirect_command_output:
            import tempfile

            file = stack.enter_context(
                tempfile.NamedTemporaryFile("w", prefix="ray-up-", suffix=".log", delete=False)
            )
            print(f"What the commands print is in {file.name}")
            more["say"] = lambda line: print(line, file=file, flush=True)
        cluster = _cluster(options, **more)
        if options.no_restart and options.restart_only:
            raise ValueError("--no-restart and --restart-only exclude each other.")
        for note in cluster.notes():
            print(note, file=sys.stderr)
        name = cluster.config.cluster_name
        question = f"Cluster {name!r} will be started."
        if cluster.provider.is_up():
            question = (
                f"Cluster {name!r} is up. It will be started again, and what runs there ends."
            )
            if options.no_restart:
                question = f"Cluster {name!r} is up. What runs there goes on."
        if not _confirmed(options, question):
            return 1
        cluster.up(no_restart=options.no_restart, restart_only=options.restart_only)
    head = cluster.head().host
    others = f"with {len(cluster.provider.workers())} further machines"
    if cluster.grows:
        others = "and further machines come as they are needed"
    print(f"Cluster {name!r} is up: its head is {head.address}, {others}.")
    for verb, rest, what in (
        ("exec", " 'ray status'", "what it has"),
        ("submit", " SCRIPT.py", "runs a script there"),
        ("attach", "", "a shell on the head"),
        ("attach", " -p 8265", "the same, and its page at http://localhost:8265"),
        ("down", "", "stops it"),
    ):
        line = f"{options.program} {verb} {shlex.quote(options.config)}{rest}"
        print(f"  {line:<50}  {what}")
    return 0


def _down(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    which = "The workers of cluster" if options.workers_only else "Cluster"
    name = cluster.config.cluster_name
    if not _confirmed(options, f"{which} {name!r} will be stopped."):
        return 1
    cluster.down(workers_only=options.workers_only, keep_min_workers=options.keep_min_workers)
    print(f"{which} {name!r} is stopped.")
    return 0


def _ports(options: argparse.Namespace) -> list[tuple[int, int]]:
    return [(port, port) for port in options.port_forward]


def _ready(options: argparse.Namespace) -> Cluster:
    """The cluster, started if that was asked for and it is not up."""
    if options.screen and options.tmux:
        raise ValueError("--screen and --tmux exclude each other.")
    if getattr(options, "stop", False) and (options.screen or options.tmux):
        raise ValueError(
            "--stop waits for the command's end here: leave out --screen and --tmux, "
            "or end the command with `; ray stop`."
        )
    cluster = _cluster(options)
    if options.start and not cluster.provider.is_up():
        cluster.up()
    return cluster


def _in_the_background(options: argparse.Namespace, command: str, extra: str = "") -> str:
    """The command within what was asked for, which goes on when the connection ends."""
    if options.tmux:
        return in_the_background("tmux", command)
    return in_the_background("screen", command, extra) if options.screen else command


def _exec(options: argparse.Namespace) -> int:
    cluster = _ready(options)
    return _run(options, cluster, options.cmd, run_env=options.run_env)


def _run(
    options: argparse.Namespace,
    cluster: Cluster,
    command: str,
    extra: str = "",
    run_env: str = "auto",
) -> int:
    told = _in_the_background(options, command, extra)
    code = cluster.run_here(cluster.head_in(run_env), told, _ports(options))
    if options.stop:
        cluster.down()
    return code


def _submit(options: argparse.Namespace) -> int:
    script = Path(options.script).expanduser()
    if not script.is_file():
        raise ValueError(f"There is no file {options.script} on this machine.")
    if options.args and options.script_args:
        raise ValueError("Give a script's arguments behind `--` or by --args, not both.")
    cluster = _ready(options)
    target = f"~/{script.name}"
    cluster.copy(str(script), target, down=False, remotes=[cluster.head()])
    rest = options.args or shlex.join(options.script_args)
    return _run(
        options, cluster, f"python ~/{shlex.quote(script.name)} {rest}", options.extra_screen_args
    )


def _attach(options: argparse.Namespace) -> int:
    if options.new and not (options.screen or options.tmux):
        raise ValueError("--new goes with --screen or --tmux.")
    cluster = _ready(options)
    command = None
    if options.tmux:
        command = "tmux new" if options.new else "tmux attach || tmux new"
    elif options.screen:
        command = "screen -L" if options.new else "screen -L -xRR"
    return cluster.run_here(cluster.machine(options.node_ip), command, _ports(options))


def _rsync_up(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    remotes = [cluster.head()]
    if options.all_nodes:
        remotes += cluster.workers()
    cluster.copy(options.source, options.target, down=False, remotes=remotes)
    return 0


def _rsync_down(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    cluster.copy(options.source, options.target, down=True, remotes=[cluster.head()])
    return 0


def _head_ip(options: argparse.Namespace) -> int:
    print(_cluster(options).head().host.address)
    return 0


def _worker_ips(options: argparse.Namespace) -> int:
    for remote in _cluster(options).workers():
        print(remote.host.address)
    return 0


def _monitor(options: argparse.Namespace) -> int:
    if options.lines < 0:
        raise ValueError(f"--lines is {options.lines}: write a number of 0 or more.")
    cluster = _cluster(options)
    files = '"${RAY_TMPDIR:-/tmp}"/ray/session_latest/logs/node.log'
    if cluster.grows:
        files += f" {log_file(cluster.config.cluster_name)}"
    return cluster.run_here(
        cluster.head(), f"tail -n {options.lines} --follow=name --retry {files}"
    )


_COMMANDS: dict[str, tuple[str, Callable[[argparse.Namespace], int]]] = {
    "up": ("Start a cluster, or bring it up to date with its file.", _up),
    "down": ("Stop a cluster.", _down),
    "exec": ("Run a command on a cluster's head.", _exec),
    "attach": ("Open a shell on a cluster's head, or on another machine.", _attach),
    "submit": ("Copy a script to a cluster's head and run it there.", _submit),
    "rsync-up": ("Copy files to a cluster.", _rsync_up),
    "rsync-down": ("Copy files from a cluster's head.", _rsync_down),
    "get-head-ip": ("Print the address of a cluster's head.", _head_ip),
    "get-worker-ips": ("Print the addresses of a cluster's workers.", _worker_ips),
    "monitor": ("Follow the logs of a cluster's head and autoscaler.", _monitor),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
