"""A wall clock that is off, for one program and what it starts: a library before the C library.

A namespace of times moves the monotonic clocks only; who sets the computer's clock sets it for all.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

DAY_S = 86_400

SOURCE = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    const char *off = getenv("CLOCK_IS_OFF_S");
    if (!failed && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += atol(off);
    return failed;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
"""


def why_not() -> str:
    """Why no clock can be off here; empty when one can."""
    return "" if shutil.which("cc") else "not installed: a C compiler"


class Clocks:
    """Makes environments in which the clock is off."""

    def __init__(self, folder: Path) -> None:
        source, self.library = folder / "clock.c", folder / "clock.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.library, source], check=True)

    def off(self, seconds: float) -> dict[str, str]:
        """The variables of a program whose clock is ahead by that."""
        return {"LD_PRELOAD": str(self.library), "CLOCK_IS_OFF_S": str(int(seconds))}
