"""Offline of algorithms."""
