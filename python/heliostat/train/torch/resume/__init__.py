"""State that is saved and loaded as shards, whatever the parallelism: ``resumable``."""
