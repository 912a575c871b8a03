"""Where rows go: files on any filesystem."""
