"""The backend that joblib calls."""

from __future__ import annotations

from typing import Any

from joblib._parallel_backends import MultiprocessingBackend

import heliostat
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.util.multiprocessing.pool import Pool


class RayBackend(MultiprocessingBackend):  # type: ignore[misc] # joblib has no types
    """Runs joblib's batches in a :class:`heliostat.util.multiprocessing.Pool`."""

    def __init__(
        self, *args: Any, ray_remote_args: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._ray_remote_args = ray_remote_args

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of processes that ``n_jobs`` means: a negative number counts from the cluster's CPUs."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        begin_unless_begun()
        return max(1, int(heliostat.cluster_resources().get("CPU", 1)) + 1 + n_jobs)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: Any = None,
        require: Any = None,
        **_: Any,
    ) -> int:
        """Make the pool."""
        n_jobs = self.effective_n_jobs(n_jobs)
        self._pool: Pool | None = Pool(processes=n_jobs, ray_remote_args=self._ray_remote_args)
        self.parallel = parallel
        return n_jobs

    def terminate(self) -> None:
        """End the pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
        self.reset_batch_stats()


__all__ = ["RayBackend"]
