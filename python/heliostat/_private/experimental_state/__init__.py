"""``ray.experimental.state``."""
