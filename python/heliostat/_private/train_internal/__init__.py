"""``ray.train._internal``."""
