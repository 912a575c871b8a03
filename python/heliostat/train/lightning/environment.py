"""The environment that Lightning asks for ranks."""

from __future__ import annotations

from heliostat.train.context import get_context
from heliostat.train.lightning.library import environments


class RayLightningEnvironment(environments.LightningEnvironment):  # type: ignore[misc] # without types
    """The ranks of the run; the processes are there already.

    Examples:
        >>> import lightning
        >>> from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment
        >>> def work():
        ...     strategy, environment = RayDDPStrategy(), RayLightningEnvironment()
        ...     trainer = lightning.Trainer(devices="auto", strategy=strategy, plugins=[environment])
        ...     ...  # trainer.fit(model, loader)
    """

    @property
    def creates_processes_externally(self) -> bool:
        """True: Lightning starts none."""
        return True

    def world_size(self) -> int:
        """Number of workers."""
        return get_context().get_world_size()

    def global_rank(self) -> int:
        """This worker's number."""
        return get_context().get_world_rank()

    def local_rank(self) -> int:
        """This worker's number on its node."""
        return get_context().get_local_rank()

    def node_rank(self) -> int:
        """This node's number."""
        return get_context().get_node_rank()

    def set_world_size(self, size: int) -> None:
        """Called by Lightning; has no effect, for the run decides.

        Args:
            size: The number.
        """

    def set_global_rank(self, rank: int) -> None:
        """Called by Lightning; has no effect, for the run decides.

        Args:
            rank: The number.
        """

    def teardown(self) -> None:
        """The variables stay: the training function may go on after Lightning."""
