"""Ray's own paths to some names: ``ray.train.v2.api.data_parallel_trainer`` and others."""
