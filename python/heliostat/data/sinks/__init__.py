"""Sinks of rows: files on any filesystem."""
