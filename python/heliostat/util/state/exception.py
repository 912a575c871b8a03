"""Errors of the state API."""

from __future__ import annotations


class RayStateApiException(Exception):
    """The state could not be had."""


__all__ = ["RayStateApiException"]
