"""Advertised names are resolved to the addresses in message ids."""

from __future__ import annotations

import pytest

from rocketmq_emulator.net.lookups import resolve_address
from rocketmq_emulator.net.transport import HostUnknown


@pytest.mark.parametrize("address", ["127.0.0.1:10911", "10.1.2.3:1", "[::1]:10911"])
async def test_an_ip_stays_as_it_is(address: str) -> None:
    assert await resolve_address(address) == address


async def test_a_name_becomes_its_ip() -> None:
    assert await resolve_address("localhost:10911") == "127.0.0.1:10911"


async def test_a_name_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(HostUnknown, match=r"no-such-host\.invalid"):
        await resolve_address("no-such-host.invalid:10911")
