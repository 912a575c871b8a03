"""Serve's controller: which replicas there are to be, and who is told."""
