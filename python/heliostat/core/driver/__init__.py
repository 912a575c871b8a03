"""The driver: its start and end, the cluster it chooses, its job, and what it prints."""
