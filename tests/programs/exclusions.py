"""Patterns that programs keep clear of because a known fault is being mended, each with its date.

An entry goes as soon as its fault is mended: the next hunt then shows whether it is.
"""

from __future__ import annotations

# 2026-11-22: a worker that ended with its placement group is given to the next task before its
# process is gone. Programs make no groups.
NO_GROUPS = True

# 2026-11-22: a worker ends with the process that leased it, also when it runs nothing for it, and
# takes along what it made for others. Whatever a task owns may be lost.
TASKS_LOSE_WHAT_THEY_OWN = True

# 2026-11-22: a worker may keep references of an error that it raised until its next collection. Objects
# that a worker holds do not count as left.
WORKERS_KEEP_REFERENCES = True

# 2026-11-22: a task that is cancelled in the moment when it begins may run on. Programs wait until a
# call that hangs runs before they cancel it.
CANCEL_ONLY_WHAT_RUNS = True
