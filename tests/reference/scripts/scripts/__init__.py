"""The local package that the worker-group notebook imports its helpers from."""
