"""``BaseTrainer``: what all trainers have in common."""

from __future__ import annotations

import abc
import os
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from heliostat.train.result import Result

GONE = "`{name}` belongs to the first generation of Ray Train and is not available. {instead}"


class BaseTrainer(abc.ABC):
    """Base class of trainers."""

    @abc.abstractmethod
    def fit(self) -> Result:
        """Run the training to its end."""

    @classmethod
    def restore(cls, path: str | os.PathLike[str], *_: Any, **__: Any) -> NoReturn:
        """Refused (DeprecationWarning): run again with the same name and storage path."""
        raise DeprecationWarning(
            GONE.format(
                name="restore",
                instead="Run again with the same RunConfig(name=..., storage_path=...): the run "
                "resumes from its latest checkpoint.",
            )
        )

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], *_: Any, **__: Any) -> NoReturn:
        """Refused (DeprecationWarning), like ``restore``."""
        cls.restore(path)
