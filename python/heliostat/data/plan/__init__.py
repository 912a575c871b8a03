"""What a dataset is made of before anything runs: operators, and what a map does to blocks."""
