"""Helpers of tests: imported by them and by their workers, as ``tests.helpers``."""
