"""Random programs with known answers; ``python -m programs --help`` runs them (see ``hunt``)."""
