"""Views of a search: a table in the terminal while it runs, a page in its folder at the end."""
