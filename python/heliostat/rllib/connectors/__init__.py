"""Connectors of algorithms."""
