"""Which NameServer is asked: one, for as long as it is connected, then the next in a ring.

Upstream: NettyRemotingClient.getAndCreateNameserverChannel.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from emulator.releases import ONE_NAMESRV_A_CALL, Release

_START_BELOW = 999  # where in the ring a client begins


class NameServers:
    """The ring of addresses, shuffled, and the one in use."""

    def __init__(self, addresses: Sequence[str], rng: random.Random, release: Release) -> None:
        self._ring = list(addresses)
        rng.shuffle(self._ring)
        self._index = rng.randrange(_START_BELOW)
        self._tries = 1 if release >= ONE_NAMESRV_A_CALL else len(self._ring)
        self.chosen: str | None = None

    def candidates(self, is_connected: Callable[[str], bool]) -> list[str]:
        """Whom one call may ask, in order, each only if none before could be connected."""
        if self.chosen is not None and is_connected(self.chosen):
            return [self.chosen]
        turn = range(1, self._tries + 1)
        return [self._ring[(self._index + step) % len(self._ring)] for step in turn]

    def asked(self, address: str) -> None:
        """*address* is asked now; the ring goes on behind it."""
        if address != self.chosen or self._tries == 1:
            self._index = self._ring.index(address)
        self.chosen = address
