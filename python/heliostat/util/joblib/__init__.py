"""joblib on the cluster: ``register_ray()``, then ``joblib.parallel_backend("ray")``."""

from __future__ import annotations

from heliostat.core.platform.extras import required


def register_ray() -> None:
    """Make ``"ray"`` a backend of joblib."""
    register_parallel_backend = required(
        "joblib.parallel", "Jobs of joblib"
    ).register_parallel_backend
    from heliostat.util.joblib.backend import RayBackend

    register_parallel_backend("ray", RayBackend)


__all__ = ["register_ray"]
