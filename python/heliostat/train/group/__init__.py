"""The workers of a run: where they are placed, started, ranked and ended."""
