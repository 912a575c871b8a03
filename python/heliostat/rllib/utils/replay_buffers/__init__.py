"""Replay buffers of algorithms."""
