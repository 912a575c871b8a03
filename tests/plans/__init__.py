"""Random plans of datasets with known answers.

A plan is a source, some operators and a consumer, drawn from a seed. Each part gives the Python text
that a user would write and the answer that plain Python or pandas computes for the whole table. The
text uses only the public API, so the same plans run on Ray, which checks the expectations.
"""
