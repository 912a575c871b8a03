"""Placement groups: resources reserved together, before what uses them exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heliostat.core.platform import labels

if TYPE_CHECKING:
    from heliostat._heliostat import ObjectRef, PlacementGroupID
    from heliostat.core.native_types import GroupRow

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroup:
    """A handle to reserved bundles of resources; it can be passed to tasks and actors.

    Made by :func:`placement_group`, or from the id of a group that is there already.

    Args:
        id: The group's id.
        bundle_cache: What its bundles reserve. Default: asked of the cluster when it is needed.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 0.5}, {"CPU": 0.5}], strategy="PACK")
        >>> group.wait(timeout_seconds=60)
        True
        >>> group.bundle_count, group.bundle_specs[0]
        (2, {'CPU': 0.5})
        >>> remove_placement_group(group)
    """

    def __init__(
        self, id: PlacementGroupID, bundle_cache: Sequence[Mapping[str, float]] | None = None
    ) -> None:
        self.id = id
        self.bundle_cache = None if bundle_cache is None else [dict(b) for b in bundle_cache]
        self._created: ObjectRef | None = None
        self._ready: ObjectRef | None = None
        self._is_asked = True

    @staticmethod
    def empty() -> PlacementGroup:
        """A handle to no group."""
        from heliostat._heliostat import PlacementGroupID

        return PlacementGroup(PlacementGroupID(PlacementGroupID.nil().binary()), [])

    @property
    def is_empty(self) -> bool:
        """Whether this is not a group."""
        return self.id.is_nil()

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources that each bundle reserves, by name. Raises ``ValueError`` for a forgotten
        group.
        """
        if self.bundle_cache is None:
            from heliostat import _heliostat

            row = _heliostat.get_group(self.id)
            if row is None:
                raise ValueError(
                    f"Placement group {self.id.hex()} is not known: it was removed long ago, or "
                    "belongs to another cluster."
                )
            self.bundle_cache = row["bundles"]
        return [dict(bundle) for bundle in self.bundle_cache]

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self.bundle_specs)

    def ready(self) -> ObjectRef:
        """A reference to this group that is ready when every bundle is reserved.

        ``get`` of it raises ``TaskPlacementGroupRemoved`` when the group is removed before.
        """
        from heliostat import _heliostat

        # A wait that is not over serves everyone who asks: who polls leaves nothing behind.
        if self._ready is None or (self._is_asked and _heliostat.is_ready(self._ready)):
            self._ready = _heliostat.await_group(self.id, _Handle(self))
        self._is_asked = True
        return self._ready

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until every bundle is reserved.

        Args:
            timeout_seconds: Seconds to wait. Default 30; 0: look and return.

        Returns:
            Whether they are.

        Raises:
            TaskPlacementGroupRemoved: The group was removed.
        """
        from heliostat import _heliostat

        ref = self.ready()
        if timeout_seconds <= 0 and placement_group_table(self).get("state") == "CREATED":
            return True  # the answer to `ready` may still be on its way
        done, _ = _heliostat.wait([ref], num_returns=1, timeout=max(0.0, float(timeout_seconds)))
        if done:
            _heliostat.get(ref)
        return bool(done)

    def _is_known(self) -> None:
        """Return once the control service has the group: no handle may be faster than that."""
        if self._created is not None:
            from heliostat import _heliostat

            _heliostat.get(self._created)
            self._created = None

    def __reduce__(self) -> tuple[Any, ...]:
        self._is_known()
        return (PlacementGroup, (self.id, self.bundle_cache))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and bool(self.id == other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"


class _Handle:
    """Stands in a promise for the group, which the control service knows when the promise is kept."""

    def __init__(self, group: PlacementGroup) -> None:
        self._parts = (group.id, group.bundle_cache)

    def __reduce__(self) -> tuple[Any, ...]:
        return (PlacementGroup, self._parts)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Reserve bundles of resources together, all of them or none; returns at once.

    A group that fits nowhere waits until resources come free or a node joins.

    Args:
        bundles: what each bundle reserves: quantities by resource name, ``memory`` in bytes.
        strategy: where they go: ``"PACK"`` (default: few nodes), ``"SPREAD"`` (many),
            ``"STRICT_PACK"`` (one), ``"STRICT_SPREAD"`` (a node each).
        name: for :func:`get_placement_group`; unique in the namespace.
        lifetime: ``None``: the group ends with the job, or with the detached actor that made it;
            ``"detached"``: only by :func:`remove_placement_group`.
        bundle_label_selector: for each bundle, what the labels of its node must be.
        topology_strategy: ``{label: "STRICT_PACK" | "PACK"}``: the nodes share the label's value.

    Returns:
        A handle. ``ray.get(group.ready())`` waits until the bundles are reserved.

    Raises:
        ValueError: an argument makes no sense.
        TypeError: the name is not a text.
        RaySystemError: the name is taken.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
        >>> group.wait(timeout_seconds=60)
        True
        >>> remove_placement_group(group)
    """
    from heliostat import _heliostat
    from heliostat.core import session

    if not isinstance(name, str):
        raise TypeError(f"The name of a placement group is a str, not {name!r}.")
    if strategy is None:
        strategy = "PACK"
    selectors = check_arguments(
        bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector, topology_strategy
    )
    session.ensure()
    job = _heliostat.JobID(bytes.fromhex(_heliostat.session()["job_id"]))
    group = PlacementGroup(
        _heliostat.PlacementGroupID.of(job),
        [{k: float(v) for k, v in bundle.items() if v} for bundle in bundles],
    )
    assert group.bundle_cache is not None
    group._created = _heliostat.create_group(
        {
            "group_id": group.id,
            "strategy": strategy,
            "bundles": group.bundle_cache,
            "labels": selectors,
            "name": name,
            "detached": lifetime == "detached",
            "target": _soft_target_node_id or "",
            "topology": topology_strategy or {},
        }
    )
    # Asked at once, so that the answer is often here before anyone waits for it.
    group._ready = _heliostat.await_group(group.id, _Handle(group))
    group._is_asked = False
    if name:
        group._is_known()  # the name may be taken
    return group


def check_arguments(
    bundles: Any,
    strategy: Any,
    lifetime: Any,
    target: Any,
    selectors: Any,
    topology: Any,
) -> list[dict[str, str]]:
    """Refuse what makes no sense; returns the label selector of each bundle."""
    check_bundles(bundles)
    if strategy not in STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy}. It is one of {', '.join(STRATEGIES)}."
        )
    if lifetime not in (None, "detached"):
        raise ValueError(f"Placement group `lifetime` is None or 'detached', not {lifetime!r}.")
    if target is not None:
        if strategy != "STRICT_PACK":
            raise ValueError(
                f"_soft_target_node_id goes with the strategy STRICT_PACK, not with {strategy}"
            )
        if not (isinstance(target, str) and len(target) == 56 and _is_hex(target)):
            raise ValueError(f"Invalid hex ID of _soft_target_node_id: {target!r}")
    if not isinstance(topology, dict | None):
        raise ValueError(f"`topology_strategy` must be a dict, got {type(topology).__name__}.")
    for label, how in (topology or {}).items():
        if how not in STRATEGIES:
            raise ValueError(
                f"Invalid topology strategy {how!r} for label {label!r}. "
                f"It is one of {', '.join(STRATEGIES)}."
            )
        if how not in ("PACK", "STRICT_PACK"):
            raise NotImplementedError(
                f"topology_strategy {how!r} for label {label!r}: Heliostat groups nodes by a label "
                "(PACK, STRICT_PACK), it does not spread over its values yet"
            )
    if selectors is None:
        return []
    if not isinstance(selectors, list) or len(selectors) != len(bundles):
        raise ValueError(
            f"Invalid bundle label selector {selectors}. `bundle_label_selector` must be a list as "
            "long as `bundles`."
        )
    for selector in selectors:
        labels.check_selector(selector)
    return [dict(selector) for selector in selectors]


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def check_bundles(bundles: Any) -> None:
    """Refuse what is not a non-empty list of non-empty bundles."""
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError(
            "Bundles must be a non-empty list of resource dictionaries, for example "
            '`[{"CPU": 1.0}, {"GPU": 1.0}]`. Got an empty list.'
        )
    for bundle in bundles:
        if not isinstance(bundle, dict) or not all(
            isinstance(name, str) and isinstance(amount, int | float)
            for name, amount in bundle.items()
        ):
            raise ValueError(
                "Bundles must be a non-empty list of resource dictionaries, for example "
                f'`[{{"CPU": 1.0}}, {{"GPU": 1.0}}]`. Got {bundle!r}.'
            )
        if not any(bundle.values()):
            raise ValueError(
                "Bundles cannot be an empty dictionary or resources with only 0 values. "
                f"Bundles: {bundles}"
            )
        if any(quantity < 0 for quantity in bundle.values()):
            raise ValueError(f"The quantities of a bundle cannot be negative: {bundle!r}")


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give the bundles back. Tasks and actors that run in them are killed; returns at once.

    Args:
        placement_group: The group.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 1}])
        >>> ray.get(group.ready()) is not None
        True
        >>> remove_placement_group(group)
        >>> ray.util.placement_group_table(group)["state"]
        'REMOVED'
    """
    from heliostat import _heliostat

    _heliostat.remove_group(placement_group.id)
    placement_group._ready = None


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Look up the placement group of that name in this namespace.

    Args:
        placement_group_name: Its name.

    Returns:
        A handle.

    Raises:
        ValueError: There is no such group.

    Examples:
        >>> from ray.util import get_placement_group, placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 0.5}], name="pair", strategy="PACK")
        >>> group.wait(timeout_seconds=60)
        True
        >>> get_placement_group("pair").bundle_specs
        [{'CPU': 0.5}]
        >>> remove_placement_group(group)
    """
    from heliostat import _heliostat

    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    row = _heliostat.get_group(None, placement_group_name)
    if row is None:
        raise ValueError(f"Failed to look up placement group with name: {placement_group_name}")
    return PlacementGroup(row["group_id"], row["bundles"])


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the state of the group (``{}``: nothing is known), or of every group by its hex id.

    A group: ``placement_group_id``, ``name``, ``bundles`` (by index), ``bundles_to_node_id`` (by
    index; ``""``: none yet), ``strategy``, ``state`` (``PENDING``, ``PREPARED``, ``CREATED``,
    ``RESCHEDULING``, ``REMOVED``), ``stats``, and ``why``: what it waits for, in a sentence. Some
    removed groups are remembered.

    Args:
        placement_group: The group. Default: all.

    Returns:
        A dictionary of the group; without argument, one such dictionary a group by its hex id.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, placement_group_table, remove_placement_group
        >>> group = placement_group([{"CPU": 1}], name="one")
        >>> group.wait(60)
        True
        >>> row = placement_group_table(group)
        >>> row["name"], row["state"]
        ('one', 'CREATED')
        >>> remove_placement_group(group)
    """
    return table_of(None if placement_group is None else placement_group.id)


def table_of(group_id: PlacementGroupID | None) -> dict[str, Any]:
    """The row of one group, as :func:`placement_group_table` has it."""
    from heliostat import _heliostat

    if group_id is None:
        return {row["group_id"].hex(): _entry(row) for row in _heliostat.list_groups()}
    row = _heliostat.get_group(group_id)
    return {} if row is None else _entry(row)


def _entry(row: GroupRow) -> dict[str, Any]:
    places = {i: row["places"].get(i, "") for i in range(len(row["bundles"]))}
    ended = {"CREATED": "FINISHED", "REMOVED": "REMOVED"}
    waits = "INFEASIBLE" if row["infeasible"] else "QUEUED"
    return {
        "placement_group_id": row["group_id"].hex(),
        "name": row["name"],
        "bundles": dict(enumerate(row["bundles"])),
        "bundles_to_node_id": places,
        "strategy": row["strategy"],
        "state": row["state"],
        "stats": {
            "end_to_end_creation_latency_ms": float(row["took_ms"]),
            "scheduling_latency_ms": float(row["took_ms"]),
            "scheduling_attempt": row["attempts"],
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": ended.get(row["state"], waits),
        },
        "why": row["why"],
    }


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the caller runs in; ``None`` on a driver.

    Examples:
        >>> import ray
        >>> from ray.util import get_current_placement_group, placement_group, remove_placement_group
        >>> from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        >>> group = placement_group([{"CPU": 1}])
        >>> @ray.remote(num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        ... def inside():
        ...     return get_current_placement_group().bundle_specs
        >>> ray.get(inside.remote())
        [{'CPU': 1.0}]
        >>> get_current_placement_group() is None  # a driver is in none
        True
        >>> remove_placement_group(group)
    """
    from heliostat import _heliostat
    from heliostat.core import session

    session.ensure()
    hexed = _heliostat.current().placement_group_id
    if hexed is None:
        return None
    return PlacementGroup(_heliostat.PlacementGroupID(bytes.fromhex(hexed)))


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Refuse an index that names no bundle; -1 stands for any.

    Args:
        placement_group: The group.
        bundle_index: An index from 0; -1: any.

    Raises:
        ValueError: There is no such bundle.

    Examples:
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.placement_group import check_placement_group_index
        >>> group = placement_group([{"CPU": 1}])
        >>> check_placement_group_index(group, 0)
        >>> try:
        ...     check_placement_group_index(group, 1)
        ... except ValueError:
        ...     print("there is one bundle, 0")
        there is one bundle, 0
        >>> remove_placement_group(group)
    """
    if placement_group.is_empty:
        if bundle_index != -1:
            raise ValueError("If placement group is not set, the value of bundle index must be -1.")
    elif not -1 <= bundle_index < placement_group.bundle_count:
        raise ValueError(
            f"placement group bundle index {bundle_index} is invalid. "
            f"Valid placement group indexes: 0-{placement_group.bundle_count - 1}"
        )
