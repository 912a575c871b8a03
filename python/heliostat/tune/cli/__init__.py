"""The command ``tune``: searches and their trials, as their folders have them."""
