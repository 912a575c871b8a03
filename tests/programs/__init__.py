"""Random programs with known answers; ``python -m tests.programs --help`` runs them (see ``hunt``)."""
