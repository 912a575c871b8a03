"""Names that programs written for RLlib import from here."""
