"""``BaseTrainer``: what all trainers have in common."""

from __future__ import annotations

import abc
import os
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from heliostat.util.annotations import RayDeprecationWarning

if TYPE_CHECKING:
    from heliostat.train.result import Result

GONE = "`{name}` belongs to the first generation of Ray Train and is not available. {instead}"


class BaseTrainer(abc.ABC):
    """Base class of trainers."""

    # Ray's first generation decides by these what a trainer may be given; subclasses of programs extend them.
    _scaling_config_allowed_keys: ClassVar[list[str]] = ["trainer_resources"]
    _fields_for_tuner_param_space: ClassVar[list[str]] = []
    _handles_checkpoint_freq: ClassVar[bool] = False
    _handles_checkpoint_at_end: ClassVar[bool] = False

    @abc.abstractmethod
    def fit(self) -> Result:
        """Run the training to its end."""

    @classmethod
    def restore(cls, path: str | os.PathLike[str], *_: Any, **__: Any) -> NoReturn:
        """Refused: run again with the same name and path.

        Args:
            path: Has no effect.

        Raises:
            DeprecationWarning: Always.
        """
        _warn()
        raise DeprecationWarning(GONE.format(name="restore", instead=_RESUME))

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], *_: Any, **__: Any) -> NoReturn:
        """Refused, like ``restore``.

        Args:
            path: Has no effect.

        Raises:
            DeprecationWarning: Always.
        """
        _warn()
        raise DeprecationWarning(GONE.format(name="can_restore", instead=_RESUME))


_RESUME = (
    "Run again with the same RunConfig(name=..., storage_path=...): the run resumes from its latest "
    "checkpoint."
)


def _warn() -> None:
    """Warn as Ray does, of the line that calls."""
    warnings.warn(
        f"The `restore` and `can_restore` APIs are deprecated. {_RESUME}",
        RayDeprecationWarning,
        stacklevel=3,
    )
