"""``job submit|status|stop|delete|logs|list``: what the command line does with jobs."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import pprint
import shlex
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from heliostat.job_submission.client import JobSubmissionClient
from heliostat.job_submission.types import JobDetails, JobStatus
from heliostat.util.commands import exit_code, table, terminal_width

_LOOK_EVERY_S = 0.2
_REASON_LINES = 3
_RESOURCES = (
    ("--entrypoint-num-cpus", float, "CPUs to hold for the command itself"),
    ("--entrypoint-num-gpus", float, "GPUs to hold for the command itself"),
    ("--entrypoint-memory", int, "memory to hold for the command itself, in bytes"),
    ("--entrypoint-resources", str, "other resources to hold for it, as JSON"),
    ("--entrypoint-label-selector", str, "labels of the node where it is to run, as JSON"),
)


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    given = list(arguments)
    # The words behind `--` are the command, whatever they look like.
    at = given.index("--") if "--" in given else len(given)
    options, rest = _parser(program).parse_known_args(given[:at])
    command = [*rest, *given[at + 1 :]]
    if options.action is not _submit and command:
        _parser(program).error(f"unrecognized arguments: {' '.join(command)}")
    options.entrypoint = command
    return exit_code(lambda: options.action(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} job", description="Jobs of a cluster.")
    actions = parser.add_subparsers(required=True, metavar="submit|status|stop|delete|logs|list")

    def action(name: str, does: Any, help: str, *, takes_id: bool = True) -> Any:
        made = actions.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(action=does)
        if takes_id:
            made.add_argument("job_id", metavar="job-id", help="submission id or job id")
        made.add_argument(
            "--address",
            help="the head's http://host:8265, or the cluster's host:port [default: "
            "$RAY_API_SERVER_ADDRESS, $RAY_ADDRESS, or the cluster of this machine]",
        )
        made.add_argument("--headers", help="headers to send, as JSON [default: $RAY_JOB_HEADERS]")
        made.add_argument(
            "--verify", default="true", help="false: any certificate; a path: those to trust"
        )
        for hidden in ("--log-style", "--log-color"):
            made.add_argument(hidden, help=argparse.SUPPRESS)
        made.add_argument("-v", "--verbose", action="count", help=argparse.SUPPRESS)
        return made

    submit = action("submit", _submit, "Run a command on the cluster.", takes_id=False)
    submit.usage = f"{program} job submit [options] -- command ..."
    submit.add_argument("--submission-id", help="the job's id [default: made up]")
    submit.add_argument("--job-id", help=argparse.SUPPRESS)
    submit.add_argument(
        "--runtime-env", help="a file with the runtime environment, in YAML or JSON"
    )
    submit.add_argument("--runtime-env-json", help="the runtime environment, as JSON")
    submit.add_argument("--working-dir", help="the folder that the command runs in a copy of")
    submit.add_argument("--metadata-json", help="what is to be kept with the job, as JSON")
    for name, kind, what in _RESOURCES:
        submit.add_argument(name, type=kind, help=what)
    submit.add_argument("--no-wait", action="store_true", help="do not follow the job's log")
    action("status", _status, "Say how a job stands.")
    stop = action("stop", _stop, "Stop a job.")
    stop.add_argument("--no-wait", action="store_true", help="do not wait until it has ended")
    action("delete", _delete, "Forget a job that has ended.")
    logs = action("logs", _logs, "Print what a job has printed.")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    action("list", _list, "List all jobs.", takes_id=False)
    return parser


def _client(options: argparse.Namespace) -> JobSubmissionClient:
    headers = options.headers or os.environ.get("RAY_JOB_HEADERS")
    verify = {"true": True, "false": False}.get(options.verify.lower(), options.verify)
    parsed = _json("--headers", headers) if headers else None
    client = JobSubmissionClient(options.address, headers=parsed, verify=verify)
    print(f"Job submission server address: {client.get_address()}")
    return client


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"`{name}` is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"`{name}` must be a JSON object, not {text}")
    return found


def _environment(options: argparse.Namespace) -> dict[str, Any]:
    if options.runtime_env and options.runtime_env_json:
        raise ValueError("Only one of `--runtime-env` and `--runtime-env-json` can be given.")
    found: dict[str, Any] = {}
    if options.runtime_env:
        with open(options.runtime_env) as file:
            found = _mapping(options.runtime_env, file.read())
    elif options.runtime_env_json:
        found = _json("--runtime-env-json", options.runtime_env_json)
    if options.working_dir:
        found["working_dir"] = options.working_dir
    return found


def _mapping(path: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        try:
            import yaml
        except ImportError:
            raise ValueError(
                f"`--runtime-env` {path}: YAML needs the package PyYAML; JSON is read without it"
            ) from None
        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise ValueError(f"`--runtime-env` {path}: there is no mapping in it")
    return found


def _submit(options: argparse.Namespace) -> int:
    if not options.entrypoint:
        raise ValueError("There is no command: `job submit [options] -- command ...`")
    client = _client(options)
    job_id = client.submit_job(
        entrypoint=shlex.join(options.entrypoint),
        submission_id=options.submission_id or options.job_id,
        runtime_env=_environment(options),
        metadata=options.metadata_json and _json("--metadata-json", options.metadata_json),
        entrypoint_num_cpus=options.entrypoint_num_cpus,
        entrypoint_num_gpus=options.entrypoint_num_gpus,
        entrypoint_memory=options.entrypoint_memory,
        entrypoint_resources=options.entrypoint_resources
        and _json("--entrypoint-resources", options.entrypoint_resources),
        entrypoint_label_selector=options.entrypoint_label_selector
        and _json("--entrypoint-label-selector", options.entrypoint_label_selector),
    )
    _headline(f"Job '{job_id}' submitted successfully")
    name = os.path.basename(sys.argv[0]) or "heliostat"
    for text, command in (
        ("Query the logs of the job:", "logs"),
        ("Query the status of the job:", "status"),
        ("Request the job to be stopped:", "stop"),
    ):
        print(f"  {text}\n    {name} job {command} {job_id}")
    print(flush=True)
    if options.no_wait:
        return 0
    print("Tailing logs until the job exits (disable with --no-wait):", flush=True)
    return _follow(client, job_id)


def _headline(text: str) -> None:
    rule = "-" * len(text)
    print(f"\n{rule}\n{text}\n{rule}\n")


def _follow(client: JobSubmissionClient, job_id: str) -> int:
    async def follow() -> None:
        async for part in client.tail_job_logs(job_id):
            print(part, end="", flush=True)

    asyncio.run(follow())
    return 1 if _say_status(client, job_id) is JobStatus.FAILED else 0


def _say_status(client: JobSubmissionClient, job_id: str) -> JobStatus:
    info = client.get_job_info(job_id)
    if info.status is JobStatus.SUCCEEDED:
        _headline(f"Job '{job_id}' succeeded")
    elif info.status is JobStatus.STOPPED:
        print(f"Job '{job_id}' was stopped")
    elif info.status is JobStatus.FAILED:
        _headline(f"Job '{job_id}' failed")
        print(f"Status message: {info.message}")
    else:
        print(f"Status for job '{job_id}': {info.status}\nStatus message: {info.message}")
    return info.status


def _status(options: argparse.Namespace) -> int:
    _say_status(_client(options), options.job_id)
    return 0


def _stop(options: argparse.Namespace) -> int:
    client = _client(options)
    print(f"Attempting to stop job '{options.job_id}'")
    client.stop_job(options.job_id)
    if options.no_wait:
        return 0
    print(f"Waiting for job '{options.job_id}' to exit (disable with --no-wait):", flush=True)
    while not client.get_job_status(options.job_id).is_terminal():
        time.sleep(_LOOK_EVERY_S)
    _say_status(client, options.job_id)
    return 0


def _delete(options: argparse.Namespace) -> int:
    _client(options).delete_job(options.job_id)
    print(f"Job '{options.job_id}' deleted successfully")
    return 0


def _logs(options: argparse.Namespace) -> int:
    client = _client(options)
    if options.follow:
        _follow(client, options.job_id)
    else:
        print(client.get_job_logs(options.job_id), end="")
    return 0


def _list(options: argparse.Namespace) -> int:
    jobs = _client(options).list_jobs()
    width = terminal_width()
    if width is None:  # for programs: what Ray prints
        pprint.pprint(jobs)
    elif jobs:
        print("\n".join(listing(jobs, width, time.time() * 1000)))
    else:
        print("There are no jobs. To submit one: `job submit -- command ...`")
    return 0


def listing(jobs: Sequence[JobDetails], width: int, now_ms: float) -> list[str]:
    """A line for each job, the newest last, and below one that has failed the reason."""
    rows = [("JOB", "STATUS", "STARTED", "TOOK", "COMMAND")]
    for job in jobs:
        took = (
            ""
            if job.start_time is None
            else _span(((job.end_time or now_ms) - job.start_time) / 1000)
        )
        name = job.submission_id or job.job_id or ""
        rows.append((name, str(job.status), _when(job.start_time), took, _command(job.entrypoint)))
    head, *lines = table(rows, width, gives_way=(4,), to_right=(3,))
    shown = [head]
    for job, line in zip(jobs, lines, strict=True):
        shown.append(line)
        if job.status is JobStatus.FAILED and job.message:
            reason = textwrap.wrap(
                job.message, width - 2, max_lines=_REASON_LINES, placeholder=" …"
            )
            shown += [f"  {line}" for line in reason]
    return shown


def _command(entrypoint: str) -> str:
    """A command without the folders of its program, on one line."""
    program, *rest = " ".join(entrypoint.split()).split(" ", 1)
    return " ".join([program.rpartition("/")[2], *rest])


def _when(moment_ms: int | None) -> str:
    if moment_ms is None:
        return ""
    at = datetime.datetime.fromtimestamp(moment_ms / 1000)
    return f"{at:%H:%M:%S}" if at.date() == datetime.date.today() else f"{at:%Y-%m-%d %H:%M}"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def run() -> NoReturn:
    """The program: its first argument is what it is called."""
    program, *arguments = sys.argv[1:]
    sys.argv[0] = program
    sys.exit(main(arguments, program))


if __name__ == "__main__":
    run()
