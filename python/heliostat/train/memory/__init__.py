"""Copies of a run's state in the memory of the nodes it runs on."""
