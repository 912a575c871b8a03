"""A stand-in for ``pymongoarrow``."""
