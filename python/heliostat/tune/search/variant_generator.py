"""From a search space to configurations: grids multiplied out, domains drawn, functions called last."""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Config
from heliostat.tune.error import TuneError, TuneValueError
from heliostat.tune.search.sample import Categorical, Domain, Function, Unresolved, generator
from heliostat.tune.stopper import flattened

_Value = TypeVar("_Value")

GRID = "grid_search"
Path = tuple[Hashable, ...]


class RecursiveDependencyError(TuneError):
    """Functions of ``sample_from`` ask for each other's values."""


def grid_search(values: Iterable[_Value]) -> dict[str, Iterable[_Value]]:
    """Try each of the values, with each combination of other grids.

    Args:
        values: The values.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.grid_search([1, 2])
        {'grid_search': [1, 2]}
    """
    return {GRID: values}


def unresolved(space: object, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The grids and domains in a space, with where they are."""
    if isinstance(space, Domain) or _is_grid(space):
        yield path, space
    elif _is_evaluated(space):
        yield path, _evaluated(space)
    elif isinstance(space, Mapping):
        for key, value in space.items():
            yield from unresolved(value, (*path, key))
    elif isinstance(space, list | tuple):
        for index, value in enumerate(space):
            yield from unresolved(value, (*path, index))


def _is_evaluated(value: object) -> bool:
    """Whether it is ``{"eval": "an expression of spec"}``, the older way to write ``sample_from``."""
    return type(value) is dict and len(value) == 1 and isinstance(value.get("eval"), str)


def _evaluated(value: Any) -> Function:
    """The function that an expression of ``spec``, ``random`` and ``np`` stands for."""

    def function(spec: object) -> object:
        known = {"random": random, "np": required("numpy", "Search spaces", "tune"), "spec": spec}
        return eval(value["eval"], known)  # it is the program's own text

    return Function(function)


def _is_grid(value: object) -> bool:
    if isinstance(value, Domain):
        return value.is_grid()
    if not (isinstance(value, Mapping) and len(value) == 1 and GRID in value):
        return False
    if not isinstance(value[GRID], Iterable) or isinstance(value[GRID], str | bytes):
        raise TuneError(f"Grid search expected list of values, got: {value[GRID]!r}")
    return True


def _grid_values(value: Any) -> list[object]:
    """The values of ``grid_search`` or of ``choice(...).grid()``."""
    return list(value.categories if isinstance(value, Categorical) else value[GRID])


def _grids(found: Iterable[tuple[Path, object]]) -> list[tuple[Path, list[object]]]:
    """The grids among what was found, by name and not by where a dict has them, as on Ray."""
    grids = [(path, _grid_values(value)) for path, value in found if _is_grid(value)]
    return sorted(grids, key=lambda grid: [(type(part).__name__, part) for part in grid[0]])


def grid_size(space: object) -> int:
    """The number of configurations that one sample of the space makes."""
    size = 1
    for _, value in unresolved(space):
        if _is_grid(value):
            size *= len(_grid_values(value))
    return size


def variants(
    space: Mapping[str, object], random_state: object = None, constant_grid_search: bool = False
) -> Iterator[tuple[Config, dict[Path, object]]]:
    """Yield the variants of a sample: each combination of the grids, with the values chosen in it."""
    rng = generator(random_state)
    found = list(unresolved(space))
    grids = _grids(found)
    domains = [(path, value) for path, value in found if not _is_grid(value)]
    plain = [(path, domain) for path, domain in domains if not domain.is_function()]
    shared = (
        {path: domain.sample(random_state=rng) for path, domain in plain}
        if constant_grid_search
        else None
    )
    # The first name changes fastest.
    for values in itertools.product(*(values for _, values in reversed(grids))):
        config: Config = copied(space)
        chosen: dict[Path, object] = {}
        for (path, _), value in zip(reversed(grids), values, strict=True):
            _put(config, path, value)
            chosen[path] = value
        for path, domain in plain:
            value = domain.sample(random_state=rng) if shared is None else shared[path]
            _put(config, path, value)
            chosen[path] = value
        _call_functions(config, [pair for pair in domains if pair[1].is_function()], chosen)
        yield from _nested(config, chosen, rng)


def generate_variants(
    unresolved_spec: Mapping[str, object],
    constant_grid_search: bool = False,
    random_state: object = None,
) -> Iterator[tuple[dict[Path, object], Config]]:
    """Each combination of a space's grids, for searchers that walk a space themselves.

    Args:
        unresolved_spec: The space.
        constant_grid_search: Whether the combinations share what is drawn.
        random_state: A seed, a numpy generator, or None for numpy's global one.

    Yields:
        The values that were chosen, by the keys that lead to them, and the space with them in place.
    """
    for config, chosen in variants(unresolved_spec, random_state, constant_grid_search):
        yield chosen, config


def _call_functions(
    config: Config, waiting: list[tuple[Path, Domain]], chosen: dict[Path, object]
) -> None:
    """Functions may use each other's values: those that lack one are called again."""
    while waiting:
        later = []
        for path, domain in waiting:
            try:
                value = domain.sample(config)
            except Unresolved as error:
                later.append((path, domain, error))
                continue
            except Exception as error:
                raise TuneValueError(
                    f"sample_from of {flat_name(path)!r} raised {type(error).__name__}: {error}"
                ) from error
            _put(config, path, value)
            chosen[path] = value
        if len(later) == len(waiting):
            path, _, unknown = later[0]
            kind: type[TuneError] = RecursiveDependencyError
            if all(isinstance(error.__cause__, KeyError | AttributeError) for _, _, error in later):
                kind = TuneValueError  # no function of the space would give it
            raise kind(
                f"sample_from of {flat_name(path)!r} asks for a value that is not there: {unknown}"
            ) from unknown
        waiting = [(path, domain) for path, domain, _ in later]


def _nested(
    config: Config, chosen: dict[Path, object], rng: object
) -> Iterator[tuple[Config, dict[Path, object]]]:
    """A value that was chosen may be a space of its own."""
    if next(unresolved(config), None) is None:
        yield config, chosen
        return
    for deeper, more in variants(config, rng):
        yield deeper, {**{path: _at(deeper, path) for path in chosen}, **more}


def _at(config: Any, path: Path) -> Any:
    for key in path:
        config = config[key]
    return config


def copied(space: object) -> Any:
    """The same containers anew; values stay the same objects."""
    if isinstance(space, Domain):
        return space
    if type(space) is dict:
        return {key: copied(value) for key, value in space.items()}
    if type(space) is list:
        return [copied(value) for value in space]
    if type(space) is tuple:
        return tuple(copied(value) for value in space)
    return copy.copy(space) if isinstance(space, Mapping) else space


def _put(config: Any, path: Path, value: object) -> None:
    *way, last = path
    for key in way:
        inner = config[key]
        if isinstance(inner, tuple):
            inner = list(inner)
            config[key] = inner
        config = inner
    config[last] = value


def parse_spec_vars(
    spec: Mapping[str, object],
) -> tuple[list[tuple[Path, object]], list[tuple[Path, Domain]], list[tuple[Path, list[object]]]]:
    """Return the constants, the domains and the grids of a space, each with the keys that lead to it.

    Grids are pairs of their keys and the list of their values.
    """
    found = list(unresolved(spec))
    grids = _grids(found)
    domains = [(path, value) for path, value in found if not _is_grid(value)]
    return list(_constants(spec, {path for path, _ in found})), domains, grids


def _constants(space: object, choices: set[Path], path: Path = ()) -> Iterator[tuple[Path, object]]:
    if path in choices:
        return
    if isinstance(space, Mapping):
        for key, value in space.items():
            yield from _constants(value, choices, (*path, key))
    elif isinstance(space, list | tuple):
        for index, value in enumerate(space):
            yield from _constants(value, choices, (*path, index))
    else:
        yield path, space


def format_vars(resolved_vars: Mapping[Path, object]) -> str:
    """Return chosen values as a short text, such as ``lr=0.1000,layers=2``, for names of folders."""
    return formatted(resolved_vars)


def paths_of(config: Mapping[str, object]) -> dict[Path, object]:
    """The values of a configuration, by the keys that lead to them."""
    return {tuple(name.split("/")): value for name, value in flattened(config).items()}


def flat_name(path: Path) -> str:
    return "/".join(map(str, path))


def nested(flat: Mapping[str, object]) -> Config:
    """``{"a/b": 1}`` as ``{"a": {"b": 1}}``."""
    made: Config = {}
    for name, value in flat.items():
        *way, last = name.split("/")
        inner = made
        for key in way:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return made


def experiment_tag(index: int, chosen: Mapping[Path, object]) -> str:
    """A short name of a configuration, such as ``3_lr=0.1000,layers=2``."""
    values = formatted(chosen)
    return f"{index}_{values}" if values else str(index)


def formatted(chosen: Mapping[Path, object]) -> str:
    """Values with their names, in letters that the name of a folder may have."""
    paths = sorted(chosen, key=lambda path: [str(part) for part in path])
    return ",".join(f"{_plain(path[-1])}={_plain(chosen[path])}" for path in paths)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return re.sub("[^a-zA-Z0-9_-]+", "_", str(value)).strip("_")
