"""An execution shared by several consumers: ``Dataset.streaming_split``."""
