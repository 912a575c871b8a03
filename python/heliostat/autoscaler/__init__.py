"""Asking for a larger cluster."""
