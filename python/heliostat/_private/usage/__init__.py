"""``ray._private.usage``."""
