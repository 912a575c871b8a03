"""The entries of all ranks for one report, looked at together. Pure."""

from __future__ import annotations

from heliostat.train.coordinator.attempt import ranks_text
from heliostat.train.messages import ReportEntry


def failed(entries: dict[int, ReportEntry]) -> str:
    """Why there is no checkpoint, though some ranks have stored their files; "" where there is one."""
    reasons = {rank: entry.failed for rank, entry in sorted(entries.items()) if entry.failed}
    if not reasons:
        return ""
    ranks = sorted(reasons)
    return f"{ranks_text(ranks)} could not store the shards: {reasons[ranks[0]]}"


def differing_steps(entries: dict[int, ReportEntry]) -> str:
    """Return the complaint that the ranks report different steps; "" when they do not."""
    ranks: dict[int, list[int]] = {}
    for rank, entry in sorted(entries.items()):
        if entry.step is not None:
            ranks.setdefault(entry.step, []).append(rank)
    if len(ranks) <= 1:
        return ""
    said = ", ".join(f"{ranks_text(r)} step {step}" for step, r in sorted(ranks.items()))
    return (
        f"The ranks report different steps: {said}. Some rank reports more often than the others; "
        "every rank has to report after the same steps."
    )


def uneven(entries: dict[int, ReportEntry], returned: list[int]) -> str:
    """Return the complaint that ranks seem to report differently often; "" when they do not.

    Reports are matched by their number, and nobody but the training function knows what belongs
    together, so that it is not an error. ``returned``: ranks that have reported before, and returned.
    """
    if returned:
        who, others = ranks_text(sorted(entries)), ranks_text(returned)
        have = "has" if len(returned) == 1 else "have"
        what = f"{who} reported more often than {others}, which {have} returned"
    else:
        ranks: dict[int, list[int]] = {}
        for rank, entry in sorted(entries.items()):
            step = entry.metrics.get("step")
            if isinstance(step, int) and (entry.staged or entry.external):
                ranks.setdefault(step, []).append(rank)
        if len(ranks) <= 1:
            return ""
        said = ", ".join(f"{ranks_text(r)} of step {step}" for step, r in sorted(ranks.items()))
        what = f"one checkpoint has files of different steps: {said}"
    return (
        f"{what[0].upper()}{what[1:]}. Reports are matched by their number: call report() equally often on "
        "every rank, with checkpoint=None where there is none."
    )


def nans(entries: dict[int, ReportEntry]) -> str:
    """Return which ranks have a metric that is NaN while others have a number; "" when none has."""
    found: dict[str, list[int]] = {}
    for rank, entry in sorted(entries.items()):
        for name, value in entry.metrics.items():
            if isinstance(value, float) and value != value:
                found.setdefault(name, []).append(rank)
    for name, ranks in found.items():
        if len(ranks) < len(entries):
            return (
                f"{name} is NaN on {ranks_text(ranks)} only: look at the samples of "
                f"{'that rank' if len(ranks) == 1 else 'those ranks'}. What rank 0 reports is kept."
            )
    return ""
