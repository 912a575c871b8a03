"""The run of a search: trials as state, the loop that drives them, and the files that it leaves."""
