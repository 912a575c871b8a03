"""The code in a replica's process."""
