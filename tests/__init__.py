"""All tests, and what they share: the one name under which workers and child processes find them."""
