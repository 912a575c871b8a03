"""Whoever listens on the wire between machines: everything that any of them sends is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.helpers import harness
from tests.machines.machines import Machine

LISTENER = """
import select, socket, sys
from pathlib import Path

out, *links = sys.argv[1:]
taps = []
for link in links:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, 33, 512 << 20)  # SO_RCVBUFFORCE
    tap.bind((link, 0))
    taps.append(tap)
with open(out, "wb") as kept:
    print("ready", flush=True)
    watched = [*taps, sys.stdin]
    while True:
        ready = select.select(watched, [], [])[0]
        for tap in ready:
            if tap is sys.stdin:
                continue
            packet = tap.recv(1 << 17)
            kept.write(packet)
        if ready == [sys.stdin]:
            break
dropped = 0
for tap in taps:
    # PACKET_STATISTICS: what there was no room for would have been heard by others.
    dropped += int.from_bytes(tap.getsockopt(263, 6, 8)[4:8], sys.byteorder)
print(f"dropped={dropped}", flush=True)
"""


class Listener:
    """Keeps what the machines send: ``with Listener(*machines) as heard: …; heard.has(b"…")``."""

    def __init__(self, *machines: Machine) -> None:
        field = machines[0].field
        self.path = field.directory / "wire"
        enter = ["ip", "netns", "exec", field.bridge, sys.executable, "-c", LISTENER]
        self.process = subprocess.Popen(
            [*enter, str(self.path), *(machine.link for machine in machines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=harness.clean_env(),
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self) -> bytes:
        """All that was sent so far; the listener has ended."""
        said, _ = self.process.communicate(timeout=120)
        assert said == "dropped=0\n", said
        return Path(self.path).read_bytes()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=120)
