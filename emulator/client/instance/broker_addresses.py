"""Which address to use for which purpose: the addresses of all brokers in known routes.

Upstream: MQClientInstance.brokerAddrTable, findBrokerAddressInPublish,
findBrokerAddressInSubscribe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from protocol.names import MASTER_ID


class Found(NamedTuple):
    """An address to read from."""

    address: str
    is_slave: bool


class BrokerAddresses:
    """``broker name -> broker id -> address``, as the routes have it."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, str]] = {}

    def put(self, broker: str, addresses: Mapping[int, str]) -> None:
        self._table[broker] = dict(addresses)

    def names(self) -> list[str]:
        return list(self._table)

    def all(self) -> Iterator[tuple[str, int, str]]:
        """(broker name, broker id, address), in the order they became known."""
        for broker, addresses in self._table.items():
            for broker_id, address in addresses.items():
                yield broker, broker_id, address

    def has(self, address: str) -> bool:
        return any(address == known for _, _, known in self.all())

    def keep_only(self, addresses: Collection[str]) -> list[str]:
        """Forget every other address; returns those.  Upstream: cleanOfflineBroker."""
        gone = [address for _, _, address in self.all() if address not in addresses]
        kept = {
            broker: {n: address for n, address in known.items() if address in addresses}
            for broker, known in self._table.items()
        }
        self._table = {broker: known for broker, known in kept.items() if known}
        return gone

    # By purpose -----------------------------------------------------------------------

    def to_publish(self, broker: str) -> str | None:
        """The master; without one nothing can be written there."""
        return self._table.get(broker, {}).get(MASTER_ID)

    def to_subscribe(self, broker: str, broker_id: int, *, only_this: bool) -> Found | None:
        """The one asked for; if that is a slave, the next one; else any, unless *only_this*."""
        known = self._table.get(broker)
        if not known:
            return None
        wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
        for candidate in wanted:
            if candidate in known:
                return Found(known[candidate], is_slave=candidate != MASTER_ID)
        if only_this:
            return None
        any_id, address = next(iter(known.items()))
        return Found(address, is_slave=any_id != MASTER_ID)


def vip_channel(address: str) -> str:
    """The broker's second port, two below the first.  Upstream: MixAll.brokerVIPChannel."""
    host, _, port = address.rpartition(":")
    # Whoever connects to what is no address hears so.
    return f"{host}:{int(port) - 2}" if port.isdigit() and len(port) < 6 else address
