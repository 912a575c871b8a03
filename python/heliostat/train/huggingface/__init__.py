"""Hugging Face libraries on the workers of a run; see ``transformers`` below.

`accelerate` needs nothing: it finds the process group and the device by the environment.
"""
