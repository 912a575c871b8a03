"""What trials take of the cluster."""
