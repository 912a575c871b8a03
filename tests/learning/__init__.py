"""Algorithms that learn, from seeds to a return: ``make learning``."""
