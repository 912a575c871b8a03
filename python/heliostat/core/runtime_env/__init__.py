"""Runtime environments: the files, packages and interpreters that a worker finds around it."""
