"""The control thread of a worker: sends stacks when asked, and ends the function from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import heliostat as ray
from heliostat.train.errors import AttemptEnded
from heliostat.train.messages import SAVE
from heliostat.train.steps.clock import StepClock
from heliostat.train.worker.stack_reader import own_place, stacks_of_children

# Real-time signals are used by nobody else; it only serves to interrupt blocking system calls.
_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CALLERS = tuple(os.path.join(_OWN_FOLDER, "worker", name) for name in ("actor.py", "control.py"))
_TIMING = os.path.join(_OWN_FOLDER, "torch", "timing.py")


class Control:
    """Runs beside the training function for one attempt."""

    def __init__(
        self,
        coordinator: Any,
        number: int,
        rank: int,
        incarnation: int = 0,
        clock: StepClock | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._incarnation = incarnation
        self._place = own_place(ray.get_runtime_context().get_node_id())
        self._number = number
        self._rank = rank
        self._thread_id = threading.get_ident()
        self._running = False
        self._interrupts = False
        # Says how many steps will have been made, when the ranks are asked to save.
        self.on_save: Callable[[int], int | None] = lambda _: None
        # Asked here, so that the coordinator knows of this worker before the function can hang.
        self._command = self._ask()
        # A call that was made may not have left yet, and stays where it is if the function stops this
        # process; the answer to the next one says that it has. Without a coordinator the driver acts.
        with contextlib.suppress(Exception):
            ray.get(coordinator.is_dismissed.remote(number))
        threading.Thread(target=self._listen, name="train-control", daemon=True).start()

    def guard(self, call: Callable[[], Any]) -> Any:
        """Run ``call``; AttemptEnded is raised in it when the attempt is ended from outside."""
        previous: Any = None
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and _SIGNAL is not None:
            previous = signal.signal(_SIGNAL, self._interrupt)
            self._interrupts = True
        self._running = True
        try:
            return call()
        finally:
            self._running = False
            if self._interrupts and _SIGNAL is not None:
                self._interrupts = False
                signal.signal(_SIGNAL, previous if previous is not None else signal.SIG_DFL)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        if self._running:
            self._running = False
            raise AttemptEnded("the attempt is over")

    def _ask(self) -> Any:
        beat = self._clock.beat() if self._clock is not None else None
        return self._coordinator.control.remote(
            self._number, self._rank, self._incarnation, beat, self._place
        )

    def _listen(self) -> None:
        while True:
            try:
                command = ray.get(self._command)
                if command.startswith(SAVE):
                    self._answer_save(int(command.removeprefix(SAVE)))
                elif command not in ("again", "stack"):
                    break
                if command == "stack":
                    text = self._stack()
                    ray.get(self._coordinator.stack.remote(self._number, self._rank, text))
                self._command = self._ask()
            except Exception:
                # The coordinator is gone; the driver deals with that.
                return
        if self._running and self._interrupts and _SIGNAL is not None:
            signal.pthread_kill(self._thread_id, _SIGNAL)

    def _answer_save(self, round_: int) -> None:
        made = self.on_save(round_)
        ray.get(self._coordinator.save_asked.remote(self._number, self._rank, round_, made))

    def _stack(self) -> str:
        """The stack of the training function without its callers, and those of processes it forked."""
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return "(the training function has ended)"
        frames = traceback.extract_stack(frame)
        first = 0
        for i, entry in enumerate(frames):
            if entry.filename in _CALLERS:
                first = i + 1
        # The code that takes the times of steps stands between the function and torch, and is neither.
        shown = [entry for entry in frames[first:] if entry.filename != _TIMING]
        text = "".join(traceback.StackSummary.from_list(shown).format())
        return text + stacks_of_children(self._place)
