"""Where a run keeps its files: a local or shared folder, or any ``pyarrow.fs`` filesystem."""
