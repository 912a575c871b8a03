"""joblib on the cluster: ``register_ray()``, then ``joblib.parallel_backend("ray")``."""

from __future__ import annotations


def register_ray() -> None:
    """Make ``"ray"`` a backend of joblib."""
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as error:
        raise ImportError("To use the ray backend you must install joblib.") from error
    from heliostat.util.joblib.backend import RayBackend

    register_parallel_backend("ray", RayBackend)


__all__ = ["register_ray"]
