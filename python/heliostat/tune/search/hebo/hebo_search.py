"""A search that asks HEBO."""

from __future__ import annotations

from heliostat.tune.aliases import Config
from heliostat.tune.search.library import Asked, LibrarySearcher, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer
from heliostat.tune.stopper import flattened


class HEBOSearch(LibrarySearcher):
    """Heteroscedastic evolutionary Bayesian optimization.

    Its releases that know today's pandas ask for NumPy before 1.25, and run with newer ones. Beside
    Tune it is installed by ``uv pip install "heliostat[tune,hebo]" --override newer.txt``, a file
    that says ``numpy>=1.26``.

    Args:
        space: A ``DesignSpace`` of HEBO, or a dict with Tune's domains. Default: ``param_space`` of the
            tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        evaluated_rewards: Their results, where they are known already.
        random_state_seed: Seed of numpy's and torch's generators.
        max_concurrent: How many suggestions are made at a time.
        kwargs: Options of HEBO.

    Raises:
        ImportError: HEBO is not installed.
        ValueError: ``evaluated_rewards`` are not as many as points.
    """

    modules = ("hebo.optimizers.hebo",)

    def __init__(
        self,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        evaluated_rewards: list[float] | None = None,
        random_state_seed: int | None = None,
        max_concurrent: int = 8,
        **kwargs: object,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate)
        if max_concurrent < 1:
            raise ValueError(f"max_concurrent={max_concurrent!r} must be a whole number from 1 up.")
        if evaluated_rewards and len(evaluated_rewards) != len(self._points):
            raise ValueError(
                f"There are {len(evaluated_rewards)} evaluated_rewards of {len(self._points)} points."
            )
        self._rewards, self._seed = list(evaluated_rewards or []), random_state_seed
        self._max_concurrent, self._options = max_concurrent, kwargs
        self._coming: list[Config] = []

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def _convert(self, domains: dict[str, Domain]) -> object:
        from hebo.design_space.design_space import DesignSpace

        return DesignSpace().parse([_parameter(name, one) for name, one in domains.items()])

    def _begin(self) -> None:
        from hebo.optimizers.hebo import HEBO

        if self._seed is not None:
            import numpy as np
            import torch

            np.random.seed(self._seed)
            torch.manual_seed(self._seed)
        self._optimizer = HEBO(space=self._space, **self._options)
        if self._rewards:
            points, self._points = self._points, []
            for point, reward in zip(points, self._rewards, strict=True):
                self._tell(flattened(point), self._loss({self._metric or "": reward}))

    def suggest(self, trial_id: str) -> Config | str | None:
        if len(self._open) >= self._max_concurrent:
            return None
        return super().suggest(trial_id)

    def _ask(self) -> Asked:
        if not self._coming:
            frame = self._optimizer.suggest(n_suggestions=self._max_concurrent)
            self._coming = frame.to_dict("records")
        values = self._coming.pop(0)
        return values, values

    def _tell(self, asked: object, loss: float | None) -> None:
        import numpy as np
        import pandas as pd

        if loss is not None:
            self._optimizer.observe(pd.DataFrame([asked]), np.array([loss]))


def _parameter(name: str, domain: Domain) -> dict[str, object]:
    if isinstance(domain, Categorical):
        return {"name": name, "type": "cat", "categories": list(domain.categories)}
    if isinstance(domain, Float) and domain.bell is None:
        kind, last = "pow" if domain.is_log else "num", domain.upper
        return {"name": name, "type": kind, "lb": domain.lower, "ub": last}
    if isinstance(domain, Integer):
        kind = "pow_int" if domain.is_log else "int"
        upper = int(domain.upper) if domain.step and domain.step > 1 else int(domain.upper) - 1
        return {"name": name, "type": kind, "lb": int(domain.lower), "ub": upper}
    raise unknown_domain("HEBOSearch", name, domain)
