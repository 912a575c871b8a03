"""Names for the dictionaries that pass between the parts of a search; users choose what is in them."""

from __future__ import annotations

from typing import Any, TypeAlias

# A trial's configuration: values by the names of hyperparameters, nested as the user wrote them.
Config: TypeAlias = dict[str, Any]
# A report of a trial at one time: its metrics, and what Tune adds (``training_iteration``, times, ids).
Report: TypeAlias = dict[str, Any]
# The state that a searcher, scheduler or callback saves, to go on in another process.
State: TypeAlias = dict[str, Any]
# A search space: values, domains, and dictionaries of both.
Space: TypeAlias = dict[str, Any]
