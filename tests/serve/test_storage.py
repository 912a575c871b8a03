"""What a controller of Serve leaves for the next one."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.heliostat_only("It is our controller's")

Written = dict[bytes, bytes]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Each write, in order; ``entries`` of the module are what there is."""
    from heliostat.serve.controller import storage

    log: list[tuple[str, bytes]] = []
    entries: Written = {}

    def put(key: bytes, value: bytes, namespace: str) -> bool:
        log.append(("put", key))
        entries[key] = value
        return True

    def delete(key: bytes, namespace: str) -> bool:
        log.append(("del", key))
        return entries.pop(key, None) is not None

    serving: Any = storage.serving
    monkeypatch.setattr(serving, "kv_put", put)
    monkeypatch.setattr(serving, "kv_get", lambda key, namespace: entries.get(key))
    monkeypatch.setattr(serving, "kv_del", delete)
    monkeypatch.setattr(
        serving,
        "kv_keys",
        lambda prefix, namespace: [key for key in entries if key.startswith(prefix)],
    )
    monkeypatch.setattr(storage, "entries", entries, raising=False)
    return log


def _storage() -> tuple[Any, Written]:
    from heliostat.serve.controller import storage

    return storage.Storage(), storage.entries  # type: ignore[attr-defined] # the fixture's


def test_a_large_part_is_written_once_before_the_state_that_has_it(
    written: list[tuple[str, bytes]],
) -> None:
    store, entries = _storage()
    code = b"x" * 100_000
    for count in range(3):
        store.save({"code": code, "again": [code], "count": count})
    parts = [key for what, key in written if what == "put" and key.startswith(b"serve-part-")]
    assert len(parts) == 1
    assert written[0] == ("put", parts[0]), "before the state"
    assert len(entries[b"serve-state"]) < 1000
    later, _ = _storage()
    assert later.load() == {"code": code, "again": [code], "count": 2}
    written.clear()
    later.save({"code": bytes(bytearray(code)), "count": 3})
    assert written == [("put", b"serve-state")], "equal bytes are the same part"


def test_parts_that_no_state_has_any_more_are_removed(written: list[tuple[str, bytes]]) -> None:
    store, entries = _storage()
    store.save([b"a" * 5000, b"b" * 5000])
    store.save([b"b" * 5000])
    assert [what for what, _ in written] == ["put", "put", "put", "put", "del"]
    assert written[-2][1] == b"serve-state", "the state goes first"
    assert len(entries) == 2
    entries[b"serve-part-orphan"] = b"of a controller that died"
    later, _ = _storage()
    assert later.load() == [b"b" * 5000]
    assert len(entries) == 2
    later.clear()
    assert entries == {}


def test_without_a_state_nothing_is_loaded(written: list[tuple[str, bytes]]) -> None:
    assert _storage()[0].load() is None
    assert written == []
