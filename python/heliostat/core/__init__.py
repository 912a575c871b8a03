"""Tasks, actors, objects: the part that everything else is built on."""
