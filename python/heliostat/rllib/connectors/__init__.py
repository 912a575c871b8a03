"""Pieces between environments, modules and learners, and pipelines of them."""
