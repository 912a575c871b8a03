"""The files of a search: a journal that everything can be read back from, and a folder for each trial.

The journal is a sequence of pickles, written before anything else is done about what they say. Its last
record may be torn when the process died: reading stops there. A trial's folder has, as on Ray, its
configuration (params.json, params.pkl), its reports (result.json, a line each) and its error (error.txt).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import pickle
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from heliostat.tune.aliases import Config, Report
from heliostat.tune.error import TuneTypeError
from heliostat.tune.logger.columns import as_json
from heliostat.tune.logger.files import complete, named
from heliostat.tune.runner.mirror import JOURNAL, TUNER, Mirror
from heliostat.tune.runner.trial import TERMINATED, Trial
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.train.storage.arrow import ArrowStorage

logger = logging.getLogger("heliostat")

SEARCHER = "searcher-state.pkl"
RESULTS = (
    "results"  # the record of reports of a trial; earlier releases wrote one "result" for each
)
CLOSED = "closed"  # the record with which a search ends that was not killed
BUFFER = 1 << 20
LOCK = ".lock"


class FolderTaken(Exception):
    """Another search uses the folder; the text says which process."""


def alone(folder: str) -> IO[str]:
    """Make a folder, and hold it until what is returned is closed, or the process ends.

    Raises:
        FolderTaken: Another search has it.
        OSError: The folder cannot be made or written.
    """
    os.makedirs(folder, exist_ok=True)
    file = open(os.path.join(folder, LOCK), "a+")  # noqa: SIM115 # held by the caller
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(200).strip() or "its process is not known"
        file.close()
        raise FolderTaken(holder) from None
    except OSError:  # a network mount that knows no locks
        pass
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}")
        file.flush()
    return file


class Store:
    """Writes the files of one search.

    An ``OSError`` of its methods has the name of the file.
    """

    def __init__(self, folder: str, storage: ArrowStorage | None = None) -> None:
        self.folder, self.storage = folder, storage
        self._mirror = Mirror(folder, storage) if storage is not None else None
        self._journal: Any = None
        self.has_results = True  # whether trials' folders have their reports
        self.has_tables = False  # whether they have them as tables, too
        self._taken: list[Report] = []  # reports of one trial that follow on each other
        self._taken_of = ""

    def begin(self, settings: Mapping[str, object], goes_on: bool) -> None:
        """Begin a journal, or go on with the one that is there."""
        from heliostat import cloudpickle

        os.makedirs(self.folder, exist_ok=True)
        journal = os.path.join(self.folder, JOURNAL)
        was_killed = False
        if goes_on:
            was_killed = _cut_torn_end(journal) != CLOSED
        elif os.path.exists(journal):
            # An earlier search of the same name: what it found stays beside.
            stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(os.path.getmtime(journal)))
            kept = f"{journal}.{stamp}"
            os.replace(journal, kept)
            logger.warning(
                "%s has an earlier search, whose journal is now %s: Tuner.restore() knows the new search. "
                "Give each its own RunConfig(name=...) to keep both.",
                self.folder,
                kept,
            )
        _write(os.path.join(self.folder, TUNER), cloudpickle.dumps(settings))
        # A flush is one write, during which other threads may run.
        self._journal = open(journal, "ab", BUFFER)  # noqa: SIM115 # closed by close()
        if self._mirror is not None:
            self._mirror.begin(is_there=goes_on)
        if was_killed and self.has_results:
            _complete(self.folder, self.has_tables)

    def checkpoint_path(self, trial: Trial, name: str) -> str:
        """The path of a trial's checkpoint."""
        if self.storage is not None:
            return self.storage.join(trial.folder, name)
        return os.path.join(self.folder, trial.folder, name)

    def remove_checkpoint(self, path: str) -> None:
        """Remove one that is no longer wanted."""
        if self.storage is None or not path.startswith(self.storage.join("")):
            shutil.rmtree(path, ignore_errors=True)
            return
        try:
            self.storage.delete(path.removeprefix(self.storage.join("")))
        except OSError as error:
            logger.warning("The checkpoint %s is not removed: %s", path, error)

    def _record(self, kind: str, trial_id: str, value: object) -> None:
        self._record_taken()
        self._append(kind, trial_id, value)

    def _append(self, kind: str, trial_id: str, value: object) -> None:
        record = pickle.dumps((kind, trial_id, value))
        with named(self._journal):
            self._journal.write(record)

    def _record_taken(self) -> None:
        """Write the reports that were taken, in one record."""
        taken, self._taken = self._taken, []
        if not taken:
            return
        try:
            self._append(RESULTS, self._taken_of, taken)
        except (OSError, MemoryError):
            raise
        except Exception:  # a metric that cannot be pickled is kept as text
            self._append(RESULTS, self._taken_of, [_picklable(one) for one in taken])

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._record_taken()
        with named(self._journal):
            self._journal.flush()

    def sync(self) -> None:
        """Bring the journal to the disk: it outlives the loss of power, too."""
        self.flush()
        with named(self._journal):
            os.fsync(self._journal.fileno())

    def added(self, trial: Trial) -> None:
        """A trial is new."""
        from heliostat import cloudpickle

        folder = os.path.join(self.folder, trial.folder)
        os.makedirs(folder, exist_ok=True)
        try:
            config = cloudpickle.dumps(trial.config)
        except Exception as error:
            raise TuneTypeError(_unpicklable(trial.config, error)) from error
        about = (
            config,
            cloudpickle.dumps(trial.evaluated_params),
            trial.trainable_name,
            trial.experiment_tag,
            trial.folder,
            trial.custom_name,
        )
        self._record("trial", trial.trial_id, about)
        _write(os.path.join(folder, "params.pkl"), config)
        _write(os.path.join(folder, "params.json"), as_json(trial.config).encode())

    def reported(self, trial: Trial, result: Report, is_changed: bool = False) -> None:
        """A trial has reported; or what it reported last was changed."""
        kept = result.copy()
        kept.pop("config", None)
        if is_changed:
            self._record("changed", trial.trial_id, _picklable(kept))
            return
        if self._taken_of != trial.trial_id:
            self._record_taken()
            self._taken_of = trial.trial_id
        self._taken.append(kept)

    def configured(self, trial: Trial) -> None:
        """A trial has another configuration."""
        from heliostat import cloudpickle

        config = cloudpickle.dumps(trial.config)
        self._record("config", trial.trial_id, (config, trial.experiment_tag))
        _write(os.path.join(self.folder, trial.folder, "params.pkl"), config)
        path = os.path.join(self.folder, trial.folder, "params.json")
        _write(path, as_json(trial.config).encode())

    def checkpointed(self, trial: Trial) -> None:
        """The list of a trial's checkpoints has changed, or it goes on from one of another trial."""
        came = (trial.restore_iteration, trial.restore_total_s, trial.restore_counts)
        self._record(
            "checkpoints", trial.trial_id, (trial.checkpoint_path, trial.checkpoints, *came)
        )

    def begun(self, trial: Trial, actor_id: str, resources: dict[str, float]) -> None:
        """A trial has an actor, which may have to wait for its resources."""
        self._record("begun", trial.trial_id, (actor_id, resources))

    def status(self, trial: Trial) -> None:
        """A trial has begun, failed or ended."""
        if trial.stopped_by:
            self._record("stopped", trial.trial_id, trial.stopped_by)
        self._record("status", trial.trial_id, (trial.status, trial.num_failures, trial.error_text))
        self.flush()

    def failed(self, trial: Trial) -> None:
        """A trial has failed."""
        folder = os.path.join(self.folder, trial.folder)
        _write(os.path.join(folder, "error.txt"), trial.error_text.encode())
        with contextlib.suppress(Exception):
            _write(os.path.join(folder, "error.pkl"), pickle.dumps(trial.error))

    def close(self, is_complete: bool = True) -> None:
        """Close the journal.

        Args:
            is_complete: Whether all that it has of reports is in the trials' folders, too.
        """
        journal = self._journal
        if journal is None:
            return
        try:
            self._record_taken()
            if is_complete:
                with named(journal):
                    pickle.dump((CLOSED, "", None), journal)
        finally:
            self._journal = None
            with named(journal):
                journal.close()
        if self._mirror is not None:
            self._mirror.close()


def _picklable(result: Report) -> Report:
    """A report, where it cannot be pickled as text."""
    try:
        pickle.dumps(result)
    except Exception:
        told: Report = json.loads(as_json(result))
        return told
    return result


def _unpicklable(config: Config, error: Exception) -> str:
    """Return a sentence about the value that cannot be pickled."""
    from heliostat import cloudpickle

    for name, value in flattened(config).items():
        try:
            cloudpickle.dumps(value)
        except Exception as its_error:
            return (
                f"param_space[{name!r}], a {type(value).__name__}, cannot be pickled, and so it cannot reach "
                f"the process of a trial: {its_error}. Make it in the trainable, from values that can."
            )
    return f"The configuration of a trial cannot be pickled: {error}."


def pickled(value: object) -> bytes:
    """A setting for the file; empty where it cannot be pickled, so that a restored search lacks it."""
    from heliostat import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception:
        return b""
    return data


def unpickled(data: bytes, name: str) -> Any:
    """A setting from the file; None, with a warning, where it was lost."""
    try:
        return pickle.loads(data)
    except Exception as error:
        logger.warning("%s of the search cannot be restored and is left out: %r", name, error)
        return None


def read_settings(folder: str) -> dict[str, Any]:
    """Read the settings that the search was begun with."""
    with open(os.path.join(folder, TUNER), "rb") as file:
        settings: dict[str, Any] = pickle.load(file)
    return settings


def read_trials(folder: str) -> list[Trial]:
    """The trials of a search, as its journal has them."""
    trials: dict[str, Trial] = {}
    for kind, trial_id, value in _records(os.path.join(folder, JOURNAL)):
        trial = trials.get(trial_id)
        if kind == "trial":
            config, chosen, name, tag, sub, custom = value
            trials[trial_id] = Trial(
                name,
                config=pickle.loads(config),
                trial_id=trial_id,
                evaluated_params=pickle.loads(chosen),
                experiment_tag=tag,
                folder=sub,
                custom_name=custom,
                local_experiment_path=folder,
            )
        elif trial is None:
            continue
        elif kind == RESULTS:
            trial.last_result = value[-1]
        elif kind in ("result", "changed"):
            trial.last_result = value
        elif kind == "config":
            trial.config, trial.experiment_tag = pickle.loads(value[0]), value[1]
        elif kind == "checkpoints":
            trial.checkpoint_path, trial.checkpoints = value[:2]
            trial.restore_iteration, trial.restore_total_s = value[2:4] or _came(trial)
            trial.restore_counts = value[4] if len(value) > 4 else {}
        elif kind == "stopped":
            trial.stopped_by = value
        elif kind == "status":
            trial.status, trial.num_failures, trial.error_text = value
    for trial in trials.values():
        if trial.checkpoint_path is not None:
            trial.checkpoint_path = _moved(trial.checkpoint_path, folder)
        trial.checkpoints = [(_moved(path, folder), row) for path, row in trial.checkpoints]
        if trial.last_result:
            trial.last_result["config"] = trial.config
            if trial.status == TERMINATED:
                trial.last_result["done"] = True
        if trial.status == "ERROR":
            trial.error = _error(os.path.join(folder, trial.folder), trial.error_text)
    return list(trials.values())


def _moved(path: str, folder: str) -> str:
    """The path of a checkpoint now, if its search was moved or copied since it was written down."""
    if not os.path.isabs(path) or path.startswith(os.path.join(folder, "")):
        return path
    here = os.path.join(folder, *path.split(os.sep)[-2:])  # of a trial's folder
    return here if os.path.isdir(here) else path


def _came(trial: Trial) -> tuple[int, float]:
    """The iteration and time of a trial at its latest checkpoint, in a journal without them."""
    last = trial.checkpoints[-1][1] if trial.checkpoints else {}
    return int(last.get("training_iteration", 0)), float(last.get("time_total_s", 0.0))


def _records(path: str) -> Iterator[Any]:
    with open(path, "rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return


def _cut_torn_end(path: str) -> str:
    """Cut the journal behind its last whole record, since a torn one makes the rest unreadable;
    return the kind of the last whole record.
    """
    last = ""
    with open(path, "r+b") as file:
        whole = 0
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                last = pickle.load(file)[0]
                whole = file.tell()
        file.truncate(whole)
    return last


def _complete(folder: str, has_tables: bool) -> None:
    """Write reports that the journal has into the files of trials that a killed process left behind."""
    configs: dict[str, Config] = {}
    folders: dict[str, str] = {}
    reports: dict[str, list[Report]] = {}
    for kind, trial_id, value in _records(os.path.join(folder, JOURNAL)):
        if kind == "trial":
            configs[trial_id], folders[trial_id] = pickle.loads(value[0]), value[4]
        elif kind == "config":
            configs[trial_id] = pickle.loads(value[0])
        elif kind in (RESULTS, "result"):
            config = configs.get(trial_id)
            rows = ({**one, "config": config} for one in (value if kind == RESULTS else [value]))
            reports.setdefault(trial_id, []).extend(rows)
        elif kind == "changed":
            reports[trial_id][-1] = {**value, "config": configs.get(trial_id)}
    for trial_id, made in reports.items():
        complete(os.path.join(folder, folders[trial_id]), made, has_tables)


def _error(folder: str, text: str) -> BaseException:
    with contextlib.suppress(Exception), open(os.path.join(folder, "error.pkl"), "rb") as file:
        error: BaseException = pickle.load(file)
        return error
    return RuntimeError(text.strip().splitlines()[-1] if text.strip() else "the trial failed")


def _write(path: str, data: bytes) -> None:
    with open(f"{path}.part", "wb") as file:
        file.write(data)
    os.replace(f"{path}.part", path)
