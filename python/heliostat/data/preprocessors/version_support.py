"""Preprocessors whose bytes outlive a change of their class: its name, and the fields that it has."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import heliostat as ray
from heliostat.data.preprocessors.base import Preprocessor

if TYPE_CHECKING:
    from heliostat.data.aliases import Value

__all__ = ["SerializablePreprocessor", "SerializablePreprocessorBase", "UnknownPreprocessorError"]

_registered: dict[str, type[SerializablePreprocessorBase]] = {}


class UnknownPreprocessorError(ValueError):
    """Bytes are of a class that is not registered in this process.

    Examples:
        >>> from ray.data.preprocessors.version_support import UnknownPreprocessorError
        >>> UnknownPreprocessorError("org.example.gone").preprocessor_type
        'org.example.gone'
    """

    def __init__(self, preprocessor_type: str) -> None:
        self.preprocessor_type = preprocessor_type
        super().__init__(
            f"Unknown preprocessor type: {preprocessor_type}. Import the module whose class has "
            f"@SerializablePreprocessor(version=..., identifier={preprocessor_type!r}) first; there are "
            f"{sorted(_registered)}."
        )


class SerializablePreprocessorBase(Preprocessor):
    """A preprocessor that says itself what its bytes hold.

    ``serialize`` writes what ``_get_serializable_fields`` gives, what was learnt, and the id and version of
    the class; ``deserialize`` finds the class by its id and hands the fields, with the version that wrote
    them, to ``_set_serializable_fields``. A class is registered by :func:`SerializablePreprocessor`.

    Examples:
        >>> from ray.data.preprocessor import Preprocessor, SerializablePreprocessorBase
        >>> from ray.data.preprocessors.version_support import SerializablePreprocessor
        >>> @SerializablePreprocessor(version=2, identifier="org.example.times")
        ... class Times(SerializablePreprocessorBase):
        ...     _is_fittable = False
        ...     def __init__(self, factor):
        ...         super().__init__()
        ...         self.factor = factor
        ...     def _transform_pandas(self, df):
        ...         return df * self.factor
        ...     def _get_serializable_fields(self):
        ...         return {"factor": self.factor}
        ...     def _set_serializable_fields(self, fields, version):
        ...         self.factor = fields["factor"] if version >= 2 else fields["times"]
        >>> Preprocessor.deserialize(Times(3).serialize()).factor
        3
    """

    @abc.abstractmethod
    def _get_serializable_fields(self) -> dict[str, Value]:
        """The fields that make it again, by name."""

    @abc.abstractmethod
    def _set_serializable_fields(self, fields: dict[str, Value], version: int) -> None:
        """Take the fields that a class of that version gave."""

    def _get_stats(self) -> dict[str, Value]:
        return self.stats_

    def _set_stats(self, stats: dict[str, Value]) -> None:
        self.stats_ = stats

    def serialize(self) -> bytes:
        """Return its fields and what it has learnt as bytes, for :meth:`deserialize`."""
        data: bytes = ray.cloudpickle.dumps(
            {
                "type": self.get_preprocessor_class_id(),
                "version": self.get_version(),
                "fields": self._get_serializable_fields(),
                "stats": self._get_stats(),
            }
        )
        return data


Class = TypeVar("Class", bound=type[SerializablePreprocessorBase])


def SerializablePreprocessor(version: int, identifier: str) -> Callable[[Class], Class]:
    """Return a decorator that registers a class of preprocessors under an id.

    Args:
        version: The version of the fields that the class writes.
        identifier: The id, which stays when the class is renamed or moved. A class registered later under
            the same id takes the place of the one before.

    Raises:
        TypeError: The class does not derive from ``SerializablePreprocessorBase``.

    Examples:
        >>> from ray.data.preprocessors import MinMaxScaler
        >>> from ray.data.preprocessors.version_support import SerializablePreprocessor
        >>> try:
        ...     SerializablePreprocessor(version=1, identifier="org.example.scaler")(MinMaxScaler)
        ... except TypeError as error:
        ...     print("for SerializablePreprocessorBase" if "derive" in str(error) else error)
        for SerializablePreprocessorBase
    """

    def register(cls: Class) -> Class:
        if not issubclass(cls, SerializablePreprocessorBase):
            raise TypeError(
                f"@SerializablePreprocessor is for classes that derive from SerializablePreprocessorBase of "
                f"ray.data.preprocessor, not for {cls!r}."
            )
        cls.set_version(version)
        cls.set_preprocessor_class_id(identifier)
        _registered[identifier] = cls
        return cls

    return register


def restored(data: dict[str, Value]) -> Preprocessor:
    """The preprocessor of what ``SerializablePreprocessorBase.serialize`` wrote.

    Raises:
        UnknownPreprocessorError: Its class is not registered.
    """
    cls = _registered.get(data["type"])
    if cls is None:
        raise UnknownPreprocessorError(data["type"])
    made = cls.__new__(cls)
    Preprocessor.__init__(made)
    made._fitted = bool(data["stats"])
    made._set_serializable_fields(data["fields"], data["version"])
    made._set_stats(data["stats"])
    return made
