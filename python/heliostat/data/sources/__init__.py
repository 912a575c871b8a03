"""Where rows come from: values in memory, and files."""
