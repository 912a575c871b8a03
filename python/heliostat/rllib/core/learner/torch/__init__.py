"""Learners of torch."""
