"""Storage of a run's files: a local or shared folder, or any ``pyarrow.fs`` filesystem."""
