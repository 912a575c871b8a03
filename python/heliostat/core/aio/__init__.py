"""References as futures, and actors whose calls run on an event loop."""
