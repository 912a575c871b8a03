"""Callbacks that report to the running trial, one module for each training library."""
