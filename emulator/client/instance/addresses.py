"""Which address to use for which purpose: of brokers, from known routes, and of NameServers.

Upstream: MQClientInstance.brokerAddrTable, findBrokerAddressInPublish,
findBrokerAddressInSubscribe; NettyRemotingClient.getAndCreateNameserverChannel.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from emulator.releases import ONE_NAMESRV_A_CALL, Release
from protocol.names import MASTER_ID

_START_BELOW = 999  # where in the ring of NameServers a client begins


class FindBrokerResult(NamedTuple):
    """An address to read from.  Upstream: FindBrokerResult."""

    address: str
    is_slave: bool


class BrokerAddresses:
    """``broker name -> broker id -> address``, as the routes have it."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, str]] = {}

    def put(self, broker: str, addresses: Mapping[int, str]) -> None:
        """Replace what is known of *broker*; *addresses* are by broker id."""
        self._table[broker] = dict(addresses)

    def all(self) -> Iterator[tuple[str, int, str]]:
        """(broker name, broker id, address), in the order they became known."""
        for broker, addresses in self._table.items():
            for broker_id, address in addresses.items():
                yield broker, broker_id, address

    def has(self, address: str) -> bool:
        """Whether *address* is that of any known broker."""
        return any(address == known for _, _, known in self.all())

    def keep_only(self, addresses: Collection[str]) -> None:
        """Remove every other address.  Upstream: cleanOfflineBroker."""
        kept = {
            broker: {n: address for n, address in known.items() if address in addresses}
            for broker, known in self._table.items()
        }
        self._table = {broker: known for broker, known in kept.items() if known}

    # By purpose -----------------------------------------------------------------------

    def to_publish(self, broker: str) -> str | None:
        """The master; without one nothing can be written there."""
        return self._table.get(broker, {}).get(MASTER_ID)

    def to_subscribe(
        self, broker: str, broker_id: int, *, only_this: bool
    ) -> FindBrokerResult | None:
        """That of *broker_id*; of a slave, or the next one's; else any, unless *only_this*."""
        known = self._table.get(broker)
        if not known:
            return None
        wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
        for candidate in wanted:
            if candidate in known:
                return FindBrokerResult(known[candidate], is_slave=candidate != MASTER_ID)
        if only_this:
            return None
        any_id, address = next(iter(known.items()))
        return FindBrokerResult(address, is_slave=any_id != MASTER_ID)


class NameServerRing:
    """The NameServers, shuffled, and the one in use: it is kept for as long as it is connected."""

    def __init__(self, addresses: Sequence[str], rng: random.Random, release: Release) -> None:
        self._ring = list(addresses)
        rng.shuffle(self._ring)
        self._index = rng.randrange(_START_BELOW)
        self._tries_one = release >= ONE_NAMESRV_A_CALL
        self._tries = 1 if self._tries_one else len(self._ring)
        self.chosen: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of them, in the order in which they are tried."""
        return tuple(self._ring)

    def replace(self, addresses: Sequence[str], rng: random.Random) -> str | None:
        """Use *addresses* instead; the one that was chosen and is none of them, if there was.

        Upstream: NettyRemotingClient.updateNameServerAddressList.
        """
        self._ring = list(addresses)
        rng.shuffle(self._ring)
        if not self._tries_one:
            self._tries = len(self._ring)
        if self.chosen is None or self.chosen in self._ring:
            return None
        left, self.chosen = self.chosen, None
        return left

    def candidates(self, is_connected: Callable[[str], bool]) -> list[str]:
        """The servers one call tries in turn, each only if none before could be connected."""
        if not self._ring:
            return []
        if self.chosen is not None and is_connected(self.chosen):
            return [self.chosen]
        turn = range(1, self._tries + 1)
        return [self._ring[(self._index + step) % len(self._ring)] for step in turn]

    def choose(self, address: str) -> None:
        """Use *address* from now on; the next candidates are those after it."""
        changes = address != self.chosen or self._tries == 1
        if changes and address in self._ring:  # else the ring was replaced since
            self._index = self._ring.index(address)
        self.chosen = address


def vip_channel(address: str) -> str:
    """The broker's second port, two below the first.  Upstream: MixAll.brokerVIPChannel."""
    host, _, port = address.rpartition(":")
    # A text that is no address stays as it is: connecting to it raises the error.
    return f"{host}:{int(port) - 2}" if port.isdigit() and len(port) < 6 else address
