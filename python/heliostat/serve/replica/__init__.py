"""What runs in a replica's process."""
