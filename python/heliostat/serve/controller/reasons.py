"""Why a deployment is not up, in sentences."""

from __future__ import annotations

from heliostat.serve.controller.state import RUNNING, STARTING
from heliostat.serve.controller.view import DeploymentView, View


def of(view: View, name: str) -> tuple[list[str], list[str]] | None:
    """Return the machine's reasons why a deployment or application is not up, and the replicas that
    still start.

    ``name``: of an application, of a deployment, or ``application#deployment``. ``None``: nothing has it.
    """
    found = [
        one for one in view.deployments() if name in (one.id.app_name, one.id.name, one.id.key)
    ]
    apps = dict.fromkeys(one.id.app_name for one in found)
    if name in view.apps:
        apps.setdefault(name)
    if not apps:
        return None
    lines: list[str] = []
    for app in apps:
        row = view.app_of(app)
        if row is not None:
            lines.append(f"Application '{app}' is {row.status.value}. {row.message}".rstrip())
    starting: list[str] = []
    for known in found:
        lines += _deployment(known)
        starting += [one.id for one in known.of(STARTING)]
    return lines, starting


def _deployment(known: DeploymentView) -> list[str]:
    running = len(known.of(RUNNING))
    lines = [f"{known.id} is {known.status.value}: {running} of {known.target} replicas run."]
    if known.has_failed:
        lines.append(f"It was given up after {known.failures} failures, the last one:")
    elif known.failures:
        lines.append("A replica did not start, and is tried again:")
    missing = [
        one.name
        for one in known.spec.config.deployment_actors or ()
        if (known.spec.code_version, one.name)
        not in {(actor.version, actor.name) for actor in known.actors}
    ]
    if missing:
        lines.append(f"Its replicas start once its actors have: {', '.join(missing)}.")
    if known.message and running != known.target:
        lines.append(known.message)
    return lines
