"""The objects that errors leave behind in a worker.

An error keeps the frames that it came through, and so every reference in them. Where such a frame holds the
error too, both stay until Python collects, and an idle worker does not: objects would stay for as long as the
worker is idle. So a worker that has raised collects once nothing runs in it.
"""

from __future__ import annotations

import gc
import threading
import time

from heliostat import _heliostat

# Seconds from the end of a call to the collection: most workers are busy again before.
_QUIET_S = 0.1
# A collection is followed by a pause of so many times its own length.
_PAUSE_FACTOR = 100

_lock = threading.Lock()
_timer: threading.Timer | None = None
_pause_s = _QUIET_S


def collect_soon() -> None:
    """Collect in a moment, unless that is due already. Called when a call has ended."""
    global _timer
    with _lock:
        if _timer is None:
            _timer = threading.Timer(_pause_s, _collect)
            _timer.daemon = True
            _timer.start()


def _collect() -> None:
    global _timer, _pause_s
    with _lock:
        _timer = None  # first: a call that ends from here on asks for a collection of its own
    if _heliostat._runs_calls():
        # The heap may be large and its owner busy: the end of the next call asks again.
        _heliostat._note_error()
        if not _heliostat._runs_calls():  # its end came before the note
            collect_soon()
    elif gc.isenabled():
        began = time.monotonic()
        gc.collect()
        _pause_s = max(_QUIET_S, _PAUSE_FACTOR * (time.monotonic() - began))
