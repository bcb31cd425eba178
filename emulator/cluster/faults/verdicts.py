"""What a network does about a fault of links: verdicts, whichever network carries them out.

The virtual network has rules; before nodes on real ports there may be proxies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from emulator.cluster.faults.values import (
    Bandwidth,
    CutLink,
    Fault,
    LinkFault,
    Partition,
    RefuseConnections,
    SlowLink,
    StallLink,
)
from emulator.sim.rules import Cut, Refuse, Separate, Slow, Stall, Throttle, Verdict
from emulator.sim.tally import Tally

VERDICTS: Mapping[type[Fault], Callable[[Any], Verdict]] = {
    SlowLink: lambda fault: Slow(fault.ms, fault.jitter_ms, fault.distribution),
    Bandwidth: lambda fault: Throttle(fault.bytes_per_s),
    Partition: lambda _: Separate(),
    StallLink: lambda _: Stall(),
    RefuseConnections: lambda _: Refuse(),
    CutLink: lambda _: Cut(),
}


class Proxies(Protocol):
    """What stands before the nodes of a cluster on real ports: see ``TcpLinks``."""

    def under(self, fault: LinkFault, tally: Tally) -> AbstractContextManager[Tally]:
        """Inside the block *fault* holds; *tally* counts what it does."""

    def client_names(self) -> tuple[str, ...]:
        """How clients that are connected now may be called in faults."""
