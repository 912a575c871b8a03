"""Sources of rows: values in memory, and files."""
