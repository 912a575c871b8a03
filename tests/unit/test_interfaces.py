"""The interface for gloo and NCCL, from the node's address."""

from __future__ import annotations

import pytest
from heliostat.core.platform import network_interfaces

pytestmark = pytest.mark.heliostat_only("Ray leaves the interface to the user")


def test_loopback_is_found_by_both_its_addresses() -> None:
    assert network_interfaces.interface_of("127.0.0.1") == "lo"
    assert network_interfaces.interface_of("::1") in ("lo", None)  # None: a machine without IPv6


@pytest.mark.parametrize("address", ["", "no address", "192.0.2.1", "2001:db8::1"])
def test_an_address_that_no_interface_has(address: str) -> None:
    assert network_interfaces.interface_of(address) is None
    environment: dict[str, str] = {}
    network_interfaces.choose(environment, address)
    assert environment == {}


def test_loopback_is_not_named() -> None:
    environment: dict[str, str] = {}
    network_interfaces.choose(environment, "127.0.0.1")
    assert environment == {}


def test_what_the_user_has_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_interfaces, "interface_of", lambda _: "eth7")
    environment = {"GLOO_SOCKET_IFNAME": "ib0"}
    network_interfaces.choose(environment, "10.0.0.1")
    assert environment == {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "eth7"}
