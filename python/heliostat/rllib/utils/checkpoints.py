"""Objects that are saved into folders, with a folder below for each of their parts."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

from heliostat import cloudpickle
from heliostat.core.platform.version import RAY_VERSION

Self = TypeVar("Self", bound="Checkpointable")


class Checkpointable:
    """Base of what has a state: modules, learners, runners, connectors, algorithms.

    A folder has ``rllib_checkpoint.json`` or ``metadata.json``, the object's class and arguments, the state
    of the object itself, and a folder for each part that :meth:`get_checkpointable_components` names.
    """

    METADATA_FILE_NAME = "metadata.json"
    CLASS_AND_CTOR_ARGS_FILE_NAME = "class_and_ctor_args.pkl"
    STATE_FILE_NAME = "state"

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the state, of which ``components`` and ``not_components`` choose parts."""
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned."""
        raise NotImplementedError

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such an object."""
        return (), {}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the parts that are saved into folders of their own, with the folders' names."""
        return []

    def get_metadata(self) -> dict[str, Any]:
        """Return what the folder says of itself."""
        return {
            "class_and_ctor_args_file": self.CLASS_AND_CTOR_ARGS_FILE_NAME,
            "state_file": self.STATE_FILE_NAME,
            "ray_version": RAY_VERSION,
            "checkpoint_version": "2.1",
        }

    def save_to_path(
        self, path: str | Path | None = None, *, state: dict[str, Any] | None = None
    ) -> str:
        """Save into a folder.

        Args:
            path: The folder. Default: a new temporary one.
            state: What is saved. Default: the object's state.

        Returns:
            The folder.
        """
        folder = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="checkpoint_"))
        folder.mkdir(parents=True, exist_ok=True)
        parts = self.get_checkpointable_components()
        if state is None:
            state = self.get_state(not_components=[name for name, _ in parts])
        (folder / self.METADATA_FILE_NAME).write_text(json.dumps(self.get_metadata(), default=str))
        made = {"class": type(self), "ctor_args_and_kwargs": self.get_ctor_args_and_kwargs()}
        (folder / self.CLASS_AND_CTOR_ARGS_FILE_NAME).write_bytes(cloudpickle.dumps(made))
        (folder / f"{self.STATE_FILE_NAME}.pkl").write_bytes(cloudpickle.dumps(state))
        for name, part in parts:
            part.save_to_path(folder / name)
        return str(folder)

    def restore_from_path(self, path: str | Path, *, component: str | None = None) -> None:
        """Take over what :meth:`save_to_path` wrote.

        Args:
            path: The folder.
            component: The one part that is restored, as ``"learner_group/learner/rl_module"``.

        Raises:
            FileNotFoundError: The folder has no state of such an object.
            ValueError: There is no such component.
        """
        folder = Path(os.fspath(path))
        if component is not None:
            name, _, rest = component.partition("/")
            parts = dict(self.get_checkpointable_components())
            if name not in parts:
                raise ValueError(
                    f"There is no part {name!r}: there are {', '.join(sorted(parts))}."
                )
            parts[name].restore_from_path(folder / name, component=rest or None)
            return
        file = folder / f"{self.STATE_FILE_NAME}.pkl"
        if not file.exists():
            raise FileNotFoundError(
                f"{folder} has no {file.name}, so it is not a checkpoint of a {type(self).__name__}."
            )
        self.set_state(pickle.loads(file.read_bytes()))
        for name, part in self.get_checkpointable_components():
            if (folder / name).is_dir():
                part.restore_from_path(folder / name)

    @classmethod
    def from_checkpoint(cls: type[Self], path: str | Path, **kwargs: Any) -> Self:
        """Make the object that :meth:`save_to_path` wrote.

        Args:
            path: The folder.
            kwargs: Arguments that replace those it was made with.

        Returns:
            The object.

        Raises:
            FileNotFoundError: The folder has no such object.
            ValueError: It has one of another class.
        """
        folder = Path(os.fspath(getattr(path, "path", path)))
        file = folder / cls.CLASS_AND_CTOR_ARGS_FILE_NAME
        if not file.exists():
            raise FileNotFoundError(f"{folder} has no {file.name}, so it is not a checkpoint.")
        made = pickle.loads(file.read_bytes())
        if not issubclass(made["class"], cls):
            raise ValueError(
                f"{folder} is a checkpoint of a {made['class'].__name__}, not of a {cls.__name__}: "
                f"call {made['class'].__name__}.from_checkpoint()."
            )
        arguments, keywords = made["ctor_args_and_kwargs"]
        found: Self = made["class"](*arguments, **{**keywords, **kwargs})
        found.restore_from_path(folder)
        return found


def chosen(
    name: str,
    components: str | Collection[str] | None,
    not_components: str | Collection[str] | None,
) -> bool:
    """Whether a part is among those that a caller of ``get_state`` asks for."""
    if isinstance(components, str):
        components = [components]
    if isinstance(not_components, str):
        not_components = [not_components]
    if not_components is not None and name in not_components:
        return False
    return components is None or any(c == name or c.startswith(f"{name}/") for c in components)
