"""The resources of trials."""
