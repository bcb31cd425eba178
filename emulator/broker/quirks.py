"""A broker's bugs by name (``emulator.quirks``); those of handlers are among them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from emulator.quirks import quirks_of

if TYPE_CHECKING:
    from emulator.broker.broker import Broker

LOST_EVERY = 3


def switch_on(names: Iterable[str], broker: Broker) -> None:
    """Those of *names* that are a broker's; called once, when its outlets are connected."""
    for name in quirks_of("broker", names):
        if name in SWITCHES:
            SWITCHES[name](broker)


def _lose_bells(broker: Broker) -> None:
    ring, count = broker.store.ring, 0

    def ring_most(bell: Hashable, news: Any) -> None:
        nonlocal count
        count += 1
        if count % LOST_EVERY:
            ring(bell, news)

    broker.store.ring = ring_most


SWITCHES: Mapping[str, Callable[[Broker], None]] = {"lose_bells": _lose_bells}
