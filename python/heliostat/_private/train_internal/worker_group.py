"""``ray.train._internal.worker_group``: what backends of programs get, under Ray's file of it."""

from heliostat.train.group.worker_group import Worker, WorkerGroup

__all__ = ["Worker", "WorkerGroup"]
