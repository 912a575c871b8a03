"""``metrics config|launch-prometheus|shutdown-prometheus``: a Prometheus that reads the nodes of a cluster.

Prometheus learns the nodes from the head's HTTP server, so that machines which join are read, too, and shows
the cluster's token to both. Its program has to be installed; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from heliostat.core.platform import settings
from heliostat.util.commands import exit_code
from heliostat.util.http import Server, server_url

PORT = 9090
# So long it may take until Prometheus has said what it lacks, in seconds.
_START_S = 2.0
_END_S = 30.0
# How often Prometheus asks which nodes there are.
_REFRESH = "10s"


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    options = _parser(program).parse_args(list(arguments))
    return exit_code(lambda: options.action(options))


def _parser(program: str) -> argparse.ArgumentParser:
    about = "A Prometheus that reads the measurements of all nodes."
    parser = argparse.ArgumentParser(prog=f"{program} metrics", description=about)
    commands = parser.add_subparsers(
        required=True, metavar="config|launch-prometheus|shutdown-prometheus"
    )

    def command(
        name: str, does: Callable[[argparse.Namespace], int], help: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(action=does, program=program)
        made.add_argument(
            "--folder", type=Path, help="for its files [default: prometheus in the temp dir]"
        )
        return made

    def of_cluster(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--address",
            help="the head's http://host:8265, or the cluster's host:port [default: "
            "$RAY_API_SERVER_ADDRESS, $RAY_ADDRESS, or the cluster of this machine]",
        )
        made.add_argument("--every", default="15s", help="how often nodes are read [15s]")

    config = command("config", _config, "Write the configuration, and print where it is.")
    of_cluster(config)
    launch = command("launch-prometheus", _launch, "Start Prometheus in the background.")
    of_cluster(launch)
    launch.add_argument("--port", type=int, default=PORT, help=f"where it listens [{PORT}]")
    command(
        "shutdown-prometheus", _shutdown, "End the Prometheus that `launch-prometheus` started."
    )
    return parser


def _folder(options: argparse.Namespace) -> Path:
    return options.folder or settings.temp_dir() / "prometheus"


def _write(options: argparse.Namespace) -> Path:
    """The configuration, in a folder that only this user reads: it has the token."""
    server = Server(server_url(options.address))
    server.ask(
        "GET", "/api/prometheus/sd"
    )  # an address that does not answer is no use to Prometheus
    folder = _folder(options)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    shown: list[str] = []
    _, _, token = server.headers.get("Authorization", "").partition(" ")
    if token:
        file = folder / "token"
        file.touch(mode=0o600)
        file.write_text(token)
        # Some releases send nothing before the token where the type is left to them.
        shown = ["authorization:", "  type: Bearer", f"  credentials_file: {json.dumps(str(file))}"]
    lines = [
        "global:",
        f"  scrape_interval: {options.every}",
        "scrape_configs:",
        "  - job_name: ray",
        *(f"    {line}" for line in shown),
        "    http_sd_configs:",
        f"      - url: {json.dumps(f'{server.url}/api/prometheus/sd')}",
        f"        refresh_interval: {_REFRESH}",
        *(f"        {line}" for line in shown),
    ]
    path = folder / "prometheus.yml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _config(options: argparse.Namespace) -> int:
    print(_write(options))
    return 0


def _launch(options: argparse.Namespace) -> int:
    binary = shutil.which("prometheus")
    if binary is None:
        raise RuntimeError(
            "Prometheus is not installed here: install it (Debian: `apt install prometheus`), or give "
            f"one that runs elsewhere the file that `{options.program} metrics config` writes."
        )
    folder = _folder(options)
    running = _running(folder)
    if running is not None:
        raise RuntimeError(
            f"A Prometheus of this folder runs already (pid {running}): end it with "
            f"`{options.program} metrics shutdown-prometheus`, or give another --folder."
        )
    _check_free(options.port)
    config = _write(options)
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{options.port}",
            ],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_START_S)
        said = log.read_text(errors="replace").strip().splitlines()
        raise RuntimeError(f"Prometheus has ended: {said[-1] if said else 'it said nothing.'}")
    (folder / "pid").write_text(str(process.pid))
    print(f"Prometheus runs at http://127.0.0.1:{options.port} (pid {process.pid}).")
    print(f"It reads the nodes every {options.every}; its log is {log}.")
    print(f"To end it: {options.program} metrics shutdown-prometheus")
    return 0


def _check_free(port: int) -> None:
    """Refuse a port that is taken: Prometheus looks at its data first, and would say so too late."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise RuntimeError(
                f"Prometheus cannot listen at 127.0.0.1:{port}: {error.strerror}. Give another --port."
            ) from None


def _running(folder: Path) -> int | None:
    """The Prometheus that was started with this folder, where it still runs."""
    try:
        pid = int((folder / "pid").read_text())
        # The process's number may be another one's by now.
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(folder / "prometheus.yml") in line else None


def _shutdown(options: argparse.Namespace) -> int:
    folder = _folder(options)
    pid = _running(folder)
    if pid is None:
        print(f"No Prometheus of {folder} runs.")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while _running(folder) is not None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"Prometheus (pid {pid}) has not ended within {_END_S:.0f} s.")
        time.sleep(0.05)
    (folder / "pid").unlink(missing_ok=True)
    print(f"Prometheus (pid {pid}) has ended.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
