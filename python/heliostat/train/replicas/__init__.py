"""Replica groups: training that goes on within the step when a worker dies. No torch in here."""
