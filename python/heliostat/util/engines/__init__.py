"""Engines of language models: what Serve answers with, and what datasets go through."""
