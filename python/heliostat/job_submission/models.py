"""The jobs API's details of a job, as Pydantic models with the fields of the dataclasses in ``types``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, create_model

from heliostat.job_submission import types
from heliostat.util.model_fields import model_fields

__all__ = ["DriverInfo", "JobDetails"]


class _Answer(BaseModel):
    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Any:
        """Make it from the answer of a server; fields that this release does not know are passed over.

        Args:
            told: The answer.

        Returns:
            The model.
        """
        return cls.model_validate(dict(told))


def _model(declared: type[Any], **models: Any) -> Any:
    """The model with a dataclass's name, docstring, fields and defaults; ``models``: types that differ."""
    return create_model(
        declared.__name__,
        __base__=_Answer,
        __module__=__name__,
        __doc__=declared.__doc__,
        **model_fields(declared, **models),
    )


DriverInfo = _model(types.DriverInfo)
JobDetails = _model(types.JobDetails, driver_info=DriverInfo | None)
