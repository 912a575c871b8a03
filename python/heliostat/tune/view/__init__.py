"""How a search is seen: a table in the terminal while it runs, a page in its folder at the end."""
