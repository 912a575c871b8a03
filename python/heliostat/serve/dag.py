"""The input of an application that is a graph, under the name that Serve has for it."""

from heliostat.dag import InputNode

__all__ = ["InputNode"]
