"""Connectors that stand in more than one kind of pipeline."""
