"""What `job list` prints into a terminal."""

from __future__ import annotations

import time

from heliostat.job_submission.command import listing
from heliostat.job_submission.types import JobDetails, JobStatus, JobType

NOW_MS = int(time.time() * 1000)


def job(submission_id: str, status: JobStatus, entrypoint: str, **more: object) -> JobDetails:
    return JobDetails.of(
        {
            "type": JobType.SUBMISSION,
            "submission_id": submission_id,
            "status": status,
            "entrypoint": entrypoint,
            "start_time": NOW_MS - 90_000,
            **more,
        }
    )


def test_a_line_a_job_and_why_one_failed() -> None:
    jobs = [
        job("nightly", JobStatus.RUNNING, "/opt/env/bin/python train.py --epochs 7"),
        job(
            "import",
            JobStatus.FAILED,
            "sh load.sh",
            end_time=NOW_MS - 86_000,
            message="The entry point failed with exit code 3.\nThe last lines of its log:\nno such table",
        ),
        job("waits", JobStatus.PENDING, "python later.py", start_time=None),
    ]
    lines = listing(jobs, 80, NOW_MS)
    assert [line.split()[0] for line in lines] == [
        *("JOB", "nightly", "import"),
        *("The", "table"),  # why
        "waits",
    ]
    assert "RUNNING" in lines[1]
    assert "1 min 30 s  python train.py --epochs 7" in lines[1]
    assert "4.0 s  sh load.sh" in lines[2]
    assert lines[3].startswith("  The entry point failed with exit code 3. The last lines")
    assert lines[5].split() == ["waits", "PENDING", "python", "later.py"]


def test_lines_fit_the_terminal() -> None:
    long = job(
        "raysubmit_" + "x" * 30,
        JobStatus.FAILED,
        "python run.py " + "--option " * 40,
        message="word " * 100,
    )
    for width in (60, 80, 140):
        lines = listing([long], width, NOW_MS)
        assert max(map(len, lines)) <= width, lines
