"""The cluster's key-value store under Ray's name for it (contract F14.12)."""

from __future__ import annotations

import pytest
import ray

pytestmark = [pytest.mark.contract("F14.12"), pytest.mark.usefixtures("ray_start")]


def test_values_are_kept_listed_and_forgotten() -> None:
    from ray.experimental import internal_kv as kv

    assert kv._internal_kv_initialized()
    assert kv._internal_kv_get("kv-test-a") is None
    assert kv._internal_kv_put("kv-test-a", "one") is False
    assert kv._internal_kv_put(b"kv-test-a", b"two", overwrite=False) is True
    assert kv._internal_kv_get(b"kv-test-a") == b"one"
    assert kv._internal_kv_put("kv-test-a", "two") is True
    assert kv._internal_kv_get("kv-test-a") == b"two"
    assert kv._internal_kv_exists("kv-test-a")
    kv._internal_kv_put("kv-test-b", "three", namespace=b"other")
    assert not kv._internal_kv_exists("kv-test-b")
    assert kv._internal_kv_get("kv-test-b", namespace=b"other") == b"three"
    kv._internal_kv_put("kv-test-c", "four")
    assert sorted(kv._internal_kv_list("kv-test-")) == [b"kv-test-a", b"kv-test-c"]

    @ray.remote
    def there() -> object:
        return kv._internal_kv_get("kv-test-c")

    assert ray.get(there.remote()) == b"four"
    assert kv._internal_kv_del("kv-test-nothing") == 0
    assert kv._internal_kv_del("kv-test-", del_by_prefix=True) == 2
    assert kv._internal_kv_list("kv-test-") == []
