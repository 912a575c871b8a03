"""The code inside a worker: the actor, its session, uploads and the control thread."""
