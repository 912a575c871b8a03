"""joblib on the cluster: ``register_ray()``, then ``joblib.parallel_backend("ray")``."""

from __future__ import annotations

from heliostat.core.platform.extras import required


def register_ray() -> None:
    """Make ``"ray"`` a backend of joblib.

    Examples:
        >>> import joblib
        >>> from ray.util.joblib import register_ray
        >>> register_ray()
        >>> with joblib.parallel_config("ray", n_jobs=2):
        ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in [-1, -2])
        [1, 2]
    """
    register_parallel_backend = required(
        "joblib.parallel", "Jobs of joblib"
    ).register_parallel_backend
    from heliostat.util.joblib.backend import RayBackend

    register_parallel_backend("ray", RayBackend)


__all__ = ["register_ray"]
