"""Replica groups with torch: averaging, process groups that come and go, and taking a peer's state."""
