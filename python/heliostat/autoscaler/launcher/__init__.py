"""Clusters on machines that ssh reaches, as a YAML file describes them: ``ray up`` and what belongs to it."""
