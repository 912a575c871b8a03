"""The driver's side of a run: attempts, failures, what is recorded and what is returned."""
