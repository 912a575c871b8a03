"""What runs inside a worker: the actor, its session, uploads and the control thread."""
