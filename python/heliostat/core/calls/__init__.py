"""Tasks and actors as users write them: decorators, options, placement, graphs."""
