"""Worker processes: the zygote that forks them, their set-up and their main loop."""
