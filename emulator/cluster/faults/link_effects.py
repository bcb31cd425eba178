"""Faults of links: rules of the virtual network, or held at the proxies before real nodes.

A rule asks by name which way is meant, whenever somebody joins: it also means who comes later.
The operator's machine is never meant, or a rule could not be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cluster.faults.held import Effect
from emulator.cluster.faults.naming import NO_CLIENTS, is_meant
from emulator.cluster.faults.verdicts import VERDICTS
from emulator.sim.rules import Rule

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held
    from emulator.cluster.faults.values import LinkFault
    from emulator.cluster.spec import ClusterSpec
    from emulator.sim.rules import Traffic


class LinkEffect(Effect):
    """At the world's proxies, or a rule of its network by the verb ``link``."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """It holds between all whom the fault means, now and later."""
        if (links := grip.world.links) is not None:
            held.blocks.enter_context(links.under(held.fault, held.tally))
            return
        traffic = traffic_of(held.fault, grip.world.spec)
        rule = Rule(traffic, VERDICTS[type(held.fault)](held.fault), held.tally)
        held.blocks.enter_context(grip.world.link(rule))

    async def end(self, grip: Grip, held: Held) -> None:
        """What was held arrives."""
        del grip  # the rule knows its network
        held.blocks.close()


def traffic_of(fault: LinkFault, spec: ClusterSpec) -> Traffic:
    """Which ways *fault* means."""
    if fault.between is None:
        inside = fault.around
        assert inside is not None, "a fault of a link has either between or around"

        def leaves(source: str, target: str) -> bool:
            return is_meant(spec, inside, source) and not is_meant(spec, inside, target)

        there = leaves
    else:
        left, right = fault.between

        def goes(source: str, target: str) -> bool:
            return is_meant(spec, left, source) and is_meant(spec, right, target)

        there = goes

    def meant(source: str, target: str) -> bool:
        if source in NO_CLIENTS or target in NO_CLIENTS:
            return False
        return there(source, target) or (not fault.one_way and there(target, source))

    return meant
