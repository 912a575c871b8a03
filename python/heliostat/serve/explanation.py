"""The text of ``heliostat why`` about an application or a deployment: the words of Serve's
controller.

Run as a program with the name; prints nothing where nothing has it.
"""

from __future__ import annotations

import sys

import heliostat
from heliostat.serve import specs


def main(name: str) -> None:
    """Ask the controller of the cluster that ADDRESS names."""
    heliostat.init(log_to_driver=False, logging_level="error")
    controller = heliostat.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
    sys.stdout.write(heliostat.get(controller.why.remote(name)) or "")


if __name__ == "__main__":
    main(sys.argv[1])
