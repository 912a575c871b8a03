"""The one door of the libraries above the core: what they use of it beyond the public API."""
