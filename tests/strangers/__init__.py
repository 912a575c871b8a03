"""Small programs as strangers wrote them: public bug reports, forum questions, pages of documentation.

Each is a function of a file below ``programs``, one file a theme, in our own words and code, with its
right answer beside it. A file is run as a script, so that its functions and classes are those of
``__main__``, as a stranger's are. The suite runs them all on Heliostat; ``make strangers`` does so with a
table, and ``--ray PYTHON`` runs them on the Ray of that interpreter, where the same answers must come.
"""
