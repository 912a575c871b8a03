"""The Arrow type of Python objects, where Ray has it."""

from __future__ import annotations

from heliostat.data.tensors import PythonObjectType as ArrowPythonObjectType

__all__ = ["ArrowPythonObjectType"]
