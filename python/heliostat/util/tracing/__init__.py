"""Traces of tasks and actors by OpenTelemetry; `setup_local_tmp_tracing` is a hook to begin with."""
