"""Debugging: breakpoints in workers, stacks, memory, spans, and values that cannot be pickled."""
