"""Private names of Ray that its documentation of sources uses."""
