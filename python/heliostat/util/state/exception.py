"""The errors of the state API."""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """A part of the cluster did not answer."""


class RayStateApiException(Exception):
    """The state of the cluster could not be had."""


class ServerUnavailable(RayStateApiException):
    """No cluster can be asked."""
