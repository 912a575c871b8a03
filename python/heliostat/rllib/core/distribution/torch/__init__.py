"""Distributions of torch."""
