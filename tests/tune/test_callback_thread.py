"""Loggers beside the loop: nothing is lost, and what a killed process left out is made up for (F11.08)."""

from __future__ import annotations

import csv
import json
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from heliostat.tune.logger.columns import made_of
from heliostat.tune.logger.events import EventFile, Templates, summary_event
from heliostat.tune.logger.files import CSVLoggerCallback, ResultFiles
from heliostat.tune.runner import arrivals, callback_thread
from heliostat.tune.runner.arrivals import Arrivals
from heliostat.tune.runner.callback_thread import CallbackThread
from heliostat.tune.runner.store import Store, read_trials
from heliostat.tune.runner.trial import Trial
from ray import tune

pytestmark = pytest.mark.contract("F11.08")


class Slow(tune.Callback):
    """Hears in the thread; it waits until it may go on."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.may_go_on = threading.Event()

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
    ) -> None:
        assert self.may_go_on.wait(60)
        self.heard.append(result["n"])


def tell(line: CallbackThread, n: int) -> None:
    line.tell("on_trial_result", iteration=0, trials=[], trial=None, result={"n": n})


def test_a_full_line_holds_up_who_tells_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_thread, "LINE", 10)
    monkeypatch.setattr(callback_thread, "BATCH", 3)
    first, second = Slow(), Slow()
    line = CallbackThread([first], CallbackThread([second]))
    told = threading.Thread(target=lambda: [tell(line, n) for n in range(100)])
    told.start()
    told.join(0.2)
    assert told.is_alive()  # those that wait are ten, and a batch
    first.may_go_on.set()
    second.may_go_on.set()
    told.join(60)
    line.drain()
    assert first.heard == second.heard == list(range(100))
    tell(line, 100)
    line.close()
    line.check()
    assert first.heard[-1] == second.heard[-1] == 100


def test_a_logger_that_raises_ends_the_search_and_others_hear_all() -> None:
    class Raises(Slow):
        def on_trial_result(self, **about: Any) -> None:
            raise OSError("the server is gone")

    heard = Slow()
    heard.may_go_on.set()
    line = CallbackThread([Raises(), heard])
    tell(line, 1)
    line.drain()
    with pytest.raises(OSError, match="the server is gone"):
        line.check()
    tell(line, 2)
    line.close()
    line.check()
    assert heard.heard == [1, 2]


def test_answers_come_in_order_from_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "GATHER_S", 0.0)

    class Ref:
        def _on_completed(self, callback: Any) -> None:
            self.callback = callback

    come = Arrivals()
    refs = [Ref() for _ in range(3)]
    for ref in refs:
        come.expect(ref)
    assert come.take(0.0) == []
    later = threading.Timer(0.05, refs[2].callback, ("third",))
    later.start()
    assert come.take(60) == [(refs[2], "third")]
    refs[0].callback("first")
    refs[1].callback(ValueError("second"))
    assert [ref for ref, _ in come.take(60)] == refs[:2]
    later.join()


def test_what_a_killed_process_left_out_is_written_when_its_search_goes_on(tmp_path: Path) -> None:
    trial = Trial(
        "f", trial_id="t0", config={"x": 1}, folder="trial", local_experiment_path=str(tmp_path)
    )
    results, table = ResultFiles(), CSVLoggerCallback()
    killed = Store(str(tmp_path))
    killed.begin({}, goes_on=False)
    killed.added(trial)
    for n in range(5):
        report = {"score": n, "training_iteration": n + 1, "text": "a\nb", "config": trial.config}
        killed.reported(trial, report)
        if n == 3:
            report["score"] = 33
            killed.reported(trial, report, is_changed=True)
        if n < 2:
            results.log_trial_result(0, trial, report)
            table.log_trial_result(0, trial, report)
    trial.config = {"x": 2}
    killed.configured(trial)
    killed.reported(trial, {"score": 5, "training_iteration": 6, "text": "", "config": {"x": 2}})
    killed.flush()
    results.on_left(None)
    table.on_experiment_end([])
    with open(tmp_path / "trial" / "result.json", "a") as file:
        file.write('{"score": 2, "trai')
    with open(tmp_path / "trial" / "progress.csv", "a") as file:
        file.write('2,3,"a\n')

    killed._journal.close()  # as the end of the process does, which closes no search

    again = Store(str(tmp_path))
    again.begin({}, goes_on=True)
    rows = [
        json.loads(line) for line in (tmp_path / "trial" / "result.json").read_text().splitlines()
    ]
    assert [row["score"] for row in rows] == [0, 1, 2, 33, 4, 5]
    assert [row["config"]["x"] for row in rows] == [1, 1, 1, 1, 1, 2]
    with open(tmp_path / "trial" / "progress.csv", newline="") as file:
        cells = list(csv.DictReader(file))
    assert [(row["score"], row["text"]) for row in cells[:5]] == [
        (str(n), "a\nb") for n in (0, 1, 2, 33, 4)
    ]
    assert cells[5]["training_iteration"] == "6"
    assert read_trials(str(tmp_path))[0].last_result["score"] == 5

    # A table that was not begun is made where the search has tables, and only there.
    for has_tables in (False, True):
        again._journal.close()
        (tmp_path / "trial" / "progress.csv").unlink(missing_ok=True)
        again = Store(str(tmp_path))
        again.has_tables = has_tables
        again.begin({}, goes_on=True)
        assert (tmp_path / "trial" / "progress.csv").exists() == has_tables
    with open(tmp_path / "trial" / "progress.csv", newline="") as file:
        assert [row["score"] for row in csv.DictReader(file)] == ["0", "1", "2", "33", "4", "5"]

    # A search that was closed is not looked through again.
    again.close()
    (tmp_path / "trial" / "result.json").unlink()
    again.begin({}, goes_on=True)
    again.close()
    assert not (tmp_path / "trial" / "result.json").exists()


def test_texts_made_of_many_reports_are_those_of_each(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    config = {"x": 1, "lr": [0.1, {"deep": None}]}
    plain = [
        {"score": n / 3, "n": n, "text": "50 %", "done": n == 3, "none": None, "config": config}
        for n in range(4)
    ]
    mixed: list[dict[str, Any]] = [
        {**plain[0], "score": float("nan"), "text": 'a "b", c\n'},
        {**plain[1], "score": float("-inf"), "text": ""},
        {**plain[2], "score": 7, "text": "é", "done": 1},
        {"score": np.float64(0.5), "n": np.int64(3), "list": np.arange(2), "config": {"x": 2}},
        {"score": {"in": 1, "deep": {"er": 2.5}}, "n": True, 3: "a key that is no text"},
        {"score": {"in": 1, "deep": {"er": 2.5}}, "n": 1, "config": config},
    ]
    for reports in (plain, mixed, plain + mixed, plain[:1]):
        for report, made in zip(reports, made_of(reports), strict=True):
            assert made.line == json.dumps(report, default=lambda value: value.tolist()) + "\n"
            if made.names is not None:
                (cells,) = csv.reader([made.row])
                kept = {name: one for name, one in report.items() if name != "config"}
                assert dict(zip(made.names, cells, strict=True)) == {
                    name: "" if one is None else str(one) for name, one in kept.items()
                }
            if made.tags is not None:
                pairs = zip(made.tags, made.numbers, strict=True)
                assert dict(pairs) == {
                    name: one for name, one in report.items() if type(one) in (int, float)
                }
    assert [made.names is None for made in made_of(mixed)] == [False] * 4 + [True] * 2
    assert [made.tags is None for made in made_of(mixed)] == [
        True
    ] * 6  # NaN, 1 for True, deep ones
    assert made_of(plain)[1].tags == ("score", "n")


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def events_in(data: bytes) -> list[bytes]:
    """What records hold, by the format of TensorBoard's files."""

    def masked(part: bytes) -> bytes:
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    found = []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        assert data[8:12] == masked(data[:8])
        event, data = data[12 : 12 + size], data[12 + size :]
        assert data[:4] == masked(event)
        found.append(event)
        data = data[4:]
    return found


def message() -> Any:
    """The class of an event, as TensorBoard declares it."""
    pytest.importorskip("google.protobuf", reason="it reads what was written")
    from google.protobuf import descriptor_pb2 as pb
    from google.protobuf import descriptor_pool, message_factory

    file = pb.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")
    declared = {
        "Value": [("tag", 1, 9, 1, ""), ("simple_value", 2, 2, 1, "")],
        "Summary": [("value", 1, 11, 3, ".t.Value")],
        "Event": [
            ("wall_time", 1, 1, 1, ""),
            ("step", 2, 3, 1, ""),
            ("file_version", 3, 9, 1, ""),
            ("summary", 5, 11, 1, ".t.Summary"),
        ],
    }
    for name, fields in declared.items():
        made = file.message_type.add(name=name)
        for field, number, kind, label, type_name in fields:
            made.field.add(
                name=field, number=number, type=kind, label=label, type_name=type_name or None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Event"))


def test_records_of_tensorboard_are_made_many_at_a_time(tmp_path: Path) -> None:
    assert crc32c(b"123456789") == 0xE3069283
    file = EventFile(str(tmp_path))
    templates = Templates()
    reports = [(1.5e9 + n, n - 1, (n * 0.5, -1e300 if n == 2 else n)) for n in range(4)]
    for record in templates.records(("score", "in/é" * 50), reports):
        file.file.write(record)
    file.add(summary_event(1 << 40, b""))
    file.file.close()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    events = [message().FromString(data) for data in events_in(path.read_bytes())]
    assert events[0].file_version == "brain.Event:2"
    assert [event.step for event in events[1:]] == [-1, 0, 1, 2, 1 << 40]
    assert [event.wall_time for event in events[1:5]] == [one[0] for one in reports]
    values = [[(one.tag, one.simple_value) for one in event.summary.value] for event in events[1:5]]
    assert values[1] == [("score", 0.5), ("in/é" * 50, 1.0)]
    assert values[2][1][1] == float("-inf")
