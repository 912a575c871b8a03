"""Chaos: a cluster of machines of namespaces, random faults, and a workload whose every answer is known.

``faults`` draws and injects the faults, ``workload`` is the driver, ``run`` judges what came of it.
"""
