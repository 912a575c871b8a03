"""A stand-in for ``delta-sharing``: it asks the server of the profile as the package does."""
