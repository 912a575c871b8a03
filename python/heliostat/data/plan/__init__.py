"""The plan of a dataset before anything runs: operators, and what a map does to blocks."""
