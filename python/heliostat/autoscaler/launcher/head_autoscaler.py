"""``ray autoscaler FILE``: makes, sets up and ends the machines of a cloud's cluster, beside its head.

``ray up`` has put FILE there, with all that was prepared in the cloud, and the key of the other machines.
There is one autoscaler for each cluster: a new one takes the place of the one before.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heliostat.autoscaler.head import HttpHead
from heliostat.autoscaler.launcher.cloud import CloudProvider, kinds_of
from heliostat.autoscaler.launcher.cluster import Cluster
from heliostat.autoscaler.launcher.config import Config, load
from heliostat.autoscaler.launcher.growing import Growing
from heliostat.autoscaler.launcher.providers import held
from heliostat.autoscaler.loop import Autoscaler
from heliostat.autoscaler.model import State
from heliostat.core.driver import address
from heliostat.core.platform import auth, settings

logger = logging.getLogger(__name__)

# How long an autoscaler may take to end, in seconds, before it is killed.
_END_S = 20.0
_END_LOOK_S = 0.1


class LocatedHead:
    """The head that runs on this machine, found again where it was started anew."""

    def __init__(self) -> None:
        self._head: HttpHead | None = None

    def state(self) -> State:
        """Return the state of the cluster, and the demands that wait."""
        with self._found() as head:
            return head.state()

    def drain(self, node_id: str, reason: str) -> None:
        """Have a node leave when what runs there has ended."""
        with self._found() as head:
            head.drain(node_id, reason)

    def report(self, report: Mapping[str, Any]) -> None:
        """Keep that for people to read."""
        with self._found() as head:
            head.report(report)

    @contextlib.contextmanager
    def _found(self) -> Iterator[HttpHead]:
        try:
            if self._head is None:
                found = address.resolve("auto", settings.temp_dir())
                if found is None or not found.webui_url:
                    raise OSError("no head with a dashboard runs here")
                self._head = HttpHead(found.webui_url, auth.token(create=False))
            yield self._head
        except OSError:
            self._head = None
            raise


def main(arguments: Sequence[str]) -> int:
    """Work until SIGTERM or SIGINT."""
    name, *rest = arguments
    parser = argparse.ArgumentParser(f"{name} autoscaler", description=__doc__, allow_abbrev=False)
    parser.add_argument("config", metavar="CLUSTER.YAML", help="the file that `up` has put here")
    parser.add_argument("--stop", action="store_true", help="end the one that runs")
    options = parser.parse_args(rest)
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        config = load(options.config)
        with _only_one(config.cluster_name):
            if not options.stop:
                _work(config)
    except (ValueError, RuntimeError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _work(config: Config) -> None:
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    cluster = Cluster(config, say=logger.info)
    provider = cluster.provider
    if not isinstance(provider, CloudProvider):
        raise RuntimeError(f"{config.path}: the machines of a list need no autoscaler.")
    growing = Growing(
        config,
        kinds_of(config),
        provider.cloud,
        addressed=provider.addressed,
        set_up=cluster.bring,
    )
    logger.info("Scales %s.", config.cluster_name)
    try:
        Autoscaler(LocatedHead(), growing).run(over.wait)
    finally:
        growing.close()
        logger.info("Ended.")
    # Machines that are being set up are looked after by the next one: their threads are not waited for.
    sys.stdout.flush()
    os._exit(0)


@contextlib.contextmanager
def _only_one(cluster_name: str) -> Iterator[None]:
    """Ends the autoscaler of that cluster which runs on this machine, and stands in its place."""
    until = time.monotonic() + _END_S

    def end(holder: str) -> None:
        number = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
        if holder.isdigit():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(holder), number)
        time.sleep(_END_LOOK_S)

    with held(f"{cluster_name}.autoscaler.lock", end):
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
