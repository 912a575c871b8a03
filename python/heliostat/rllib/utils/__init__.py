"""Utils of algorithms."""
