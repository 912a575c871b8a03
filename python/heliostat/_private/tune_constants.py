"""``ray.tune.constants``, and constants of ``ray.tune.experiment.trial``."""

from __future__ import annotations

__all__ = ["RAY_TUNE_CALLBACKS_ENV_VAR"]

RAY_TUNE_CALLBACKS_ENV_VAR = "RAY_TUNE_CALLBACKS"


class ExportFormat:
    """Names of formats for ``Trainable.export_model``."""

    CHECKPOINT, MODEL, ONNX, H5 = "checkpoint", "model", "onnx", "h5"

    @staticmethod
    def validate(formats: list[str]) -> None:
        """Write each name in the list as it stands here.

        Raises:
            TuneError: One is not known.
        """
        from heliostat.tune.error import TuneError

        known = (
            ExportFormat.CHECKPOINT,
            ExportFormat.MODEL,
            ExportFormat.ONNX,
            ExportFormat.H5,
        )
        for place, name in enumerate(formats):
            formats[place] = name.strip().lower()
            if formats[place] not in known:
                raise TuneError(
                    f"Unsupported import/export format: {name}. Known are {', '.join(known)}."
                )
