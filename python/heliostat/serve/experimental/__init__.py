"""Routers of calls, for ``request_router_config``: by turns, by sessions, by one count for all processes."""
