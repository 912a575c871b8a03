"""The meeting point of a run's workers: one small actor, reached by one call per report.

``rendezvous`` and ``checkpoint_book`` are pure; ``actor`` is the shell around them.
"""
