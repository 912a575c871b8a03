"""Training programs of many libraries, each through the same courses, compared with one process.

``work`` has the task that all solve and what happens to a run on its way, ``programs`` one function a
library, ``test_table`` the table: library x parallelism x course.
"""
