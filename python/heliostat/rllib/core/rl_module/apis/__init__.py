"""The methods that algorithms need of modules."""

from __future__ import annotations

from heliostat.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI

__all__ = ["ValueFunctionAPI"]
