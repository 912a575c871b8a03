"""Searches over configurations: many trials of a function or class, the bad ones stopped early.

Names are exported lazily, so importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.result import Result
    from heliostat.tune.analysis import ExperimentAnalysis
    from heliostat.tune.callback import Callback
    from heliostat.tune.config import (
        CheckpointConfig,
        FailureConfig,
        ResumeConfig,
        RunConfig,
        SyncConfig,
        TuneConfig,
    )
    from heliostat.tune.context import TuneContext, get_checkpoint, get_context, report
    from heliostat.tune.error import TuneError
    from heliostat.tune.execution.placement_groups import PlacementGroupFactory
    from heliostat.tune.experiment import Experiment
    from heliostat.tune.progress_reporter import (
        CLIReporter,
        JupyterNotebookReporter,
        ProgressReporter,
    )
    from heliostat.tune.registry import register_env, register_trainable
    from heliostat.tune.result_grid import ResultGrid
    from heliostat.tune.schedulers import create_scheduler
    from heliostat.tune.search import create_searcher, grid_search
    from heliostat.tune.search.sample import (
        choice,
        lograndint,
        loguniform,
        qlograndint,
        qloguniform,
        qrandint,
        qrandn,
        quniform,
        randint,
        randn,
        sample_from,
        uniform,
    )
    from heliostat.tune.stopper import Stopper
    from heliostat.tune.trainable import Trainable, with_parameters, with_resources
    from heliostat.tune.tune import run, run_experiments
    from heliostat.tune.tuner import Tuner

_HOME = {
    "Checkpoint": "heliostat.train.checkpoint",
    "Result": "heliostat.train.result",
    "ExperimentAnalysis": "analysis",
    "Callback": "callback",
    "CheckpointConfig": "config",
    "FailureConfig": "config",
    "ResumeConfig": "config",
    "RunConfig": "config",
    "SyncConfig": "config",
    "TuneConfig": "config",
    "TuneContext": "context",
    "get_checkpoint": "context",
    "get_context": "context",
    "report": "context",
    "TuneError": "error",
    "PlacementGroupFactory": "execution.placement_groups",
    "Experiment": "experiment",
    "CLIReporter": "progress_reporter",
    "JupyterNotebookReporter": "progress_reporter",
    "ProgressReporter": "progress_reporter",
    "register_env": "registry",
    "register_trainable": "registry",
    "ResultGrid": "result_grid",
    "create_scheduler": "schedulers",
    "create_searcher": "search",
    "grid_search": "search",
    "choice": "search.sample",
    "lograndint": "search.sample",
    "loguniform": "search.sample",
    "qlograndint": "search.sample",
    "qloguniform": "search.sample",
    "qrandint": "search.sample",
    "qrandn": "search.sample",
    "quniform": "search.sample",
    "randint": "search.sample",
    "randn": "search.sample",
    "sample_from": "search.sample",
    "uniform": "search.sample",
    "Stopper": "stopper",
    "Trainable": "trainable",
    "with_parameters": "trainable",
    "with_resources": "trainable",
    "run": "tune",
    "run_experiments": "tune",
    "Tuner": "tuner",
}

# `tune.schedulers.ASHAScheduler` works after `from ray import tune` alone.
_PACKAGES = ("logger", "result_grid", "schedulers", "search", "stopper", "trainable")

__all__ = [
    # the search
    "CLIReporter",
    "Callback",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "TuneConfig",
    "TuneError",
    "Tuner",
    "create_scheduler",
    "create_searcher",
    "run",
    "run_experiments",
    # trainables
    "Checkpoint",
    "Trainable",
    "TuneContext",
    "get_checkpoint",
    "get_context",
    "register_env",
    "register_trainable",
    "report",
    "with_parameters",
    "with_resources",
    # search spaces
    "choice",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]


__getattr__, __dir__ = lazy.names(__name__, _HOME, _PACKAGES, "tune")
