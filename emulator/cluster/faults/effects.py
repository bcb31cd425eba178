"""A fault that holds, and what faults of nodes, drives and links do by a world's verbs.

``Effect`` is the base of all effects.  The faults of one world share one record of what holds at
each node, so faults of one node may begin and end in any order: a node comes back when the last
fault that keeps it down has ended, and only if it ran before the first one; a pause also holds
for the process that a restart brings; clock errors add up; a drive outlives the processes of its
machine.  A rule of a link asks by name which direction is meant, so it also holds for clients
that join later; the operator's machine is never meant, or a rule could not be taken back.
A fault names nodes, or ``brokers``, ``name_servers``, ``clients``, or a consumer group for its
members (``<group>-1``, ``<group>-2`` …).  The name alone decides whether a node is meant.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from rocketmq_emulator.clocks.clock import ClockError
from rocketmq_emulator.cluster.fault_values import (
    VERDICTS,
    FailingFlush,
    Fault,
    FullDisk,
    SlowDisk,
)
from rocketmq_emulator.cluster.world import UnknownNode, maybe_await
from rocketmq_emulator.facts import FaultActed
from rocketmq_emulator.facts.journal import WORLD_NODE
from rocketmq_emulator.faults.links_and_drives import (
    DriveFault,
    FailingFlushes,
    NoRoom,
    Rule,
    SlowFlushes,
    Tally,
)
from rocketmq_emulator.text.suggestions import nearest

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import AnyFault, LinkFault, Nodes
    from rocketmq_emulator.cluster.reply_rules import ServerCall
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.cluster.world import World
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.faults.links_and_drives import DriveCondition, Traffic


T = TypeVar("T")


class ActiveFault:
    """One fault, from its beginning to its end.

    ``until_ms`` is when its time is up, if it has one.  ``tally`` counts what it did; rules
    of links share it.  ``placed`` has what it left at which node, as a rule's id; ``blocks`` ends
    what holds in a block of the world: rules of links, troubles of drives.
    """

    def __init__(
        self,
        fault_id: int,
        fault: AnyFault,
        nodes: tuple[str, ...],
        *,
        since_ms: int,
        until_ms: int | None,
        note: Callable[[Fact], object],
    ) -> None:
        self.fault_id = fault_id
        self.fault: Any = fault  # its effect knows which one it is
        self.nodes = nodes
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.tally = Tally(lambda what: note(FaultActed(fault_id, what)))
        self.is_over = False
        self.placed: dict[str, Any] = {}
        self.blocks = ExitStack()

    def acted(self, what: str, times: int = 1) -> None:
        """It changed what happened; the first time is a fact."""
        self.tally.add(what, times)

    @property
    def acted_count(self) -> int:
        """How often it did."""
        return self.tally.count


class PendingUndo(NamedTuple):
    """What is left of a fault that ended while its node could not be asked."""

    undo: Callable[[], Awaitable[None]]
    ends_with_process: bool  # it is gone when that process ends


class FaultContext:
    """What the faults of *world* do to its nodes together."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down: dict[str, list[ActiveFault]] = {}  # by node, those that keep it down
        self.restart_at_end: set[str] = set()  # it ran when the first of those began
        self.still: dict[str, list[ActiveFault]] = {}
        self.paused_before: set[str] = set()  # it was paused before the first of those began
        self.clocks: dict[str, dict[int, ClockError]] = {}  # by node, then by fault
        self.busy: dict[tuple[str, str], list[ActiveFault]] = {}  # by broker and pool
        self.read_only: dict[tuple[str, str], list[ActiveFault]] = {}  # by broker and topic
        self.perms: dict[tuple[str, str], int] = {}  # of those, as they were before
        self.pending_undo: dict[str, list[PendingUndo]] = {}  # to be done when the node can answer
        self.start_counts: dict[str, int] = {}  # how often a node was started

    def can_answer(self, name: str) -> bool:
        """Does the node run, and does nobody hold it still?"""
        return self.world.is_running(name) and not self.world.is_paused(name)

    async def ask(self, name: str, call: ServerCall[T]) -> T | None:
        """The node's answer to *call*; None if that process is gone, or stands still."""
        life = self.start_counts.get(name)
        try:
            result = await maybe_await(self.world.call_server(name, call))
        except Exception:
            if self.can_answer(name) and self.start_counts.get(name) == life:
                raise
            return None
        return result if self.start_counts.get(name) == life else None


class Effect(ABC):
    """What a kind of fault does in every world that can do it; it waits as its world does."""

    @abstractmethod
    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """From now on it holds; what it did before an error is undone by ``end``."""

    @abstractmethod
    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """What it changed is as before."""

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """As ``end``, while the nodes are about to end: nothing that ends with them matters."""
        await self.end(context, held)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:  # noqa: B027  # most need not
        """The node has been started, and *held* holds still."""

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:  # noqa: B027  # most need not
        """The node stood still and goes on."""

    async def recount(self, context: FaultContext, held: ActiveFault) -> None:  # noqa: B027  # most know it
        """Bring ``acted_count`` up to date where only the nodes know it."""


def remove_holder(holds: dict[T, list[ActiveFault]], what: T, held: ActiveFault) -> bool:
    """Is *held* the last that held *what*?"""
    holding = holds.get(what, [])
    if held not in holding:
        return False  # it did not come so far when it began
    holding.remove(held)
    if holding:
        return False
    del holds[what]
    return True


# A node: down, paused, or with a wrong clock ------------------------------------------


ACTED_TEXTS = {
    "kill": "killed a process",
    "stop": "stopped a process",
    "power_off": "cut the power",
}


class DownEffect(Effect):
    """The process ends by a verb of the world, and is started at the end."""

    def __init__(self, verb: Literal["kill", "stop", "power_off"]) -> None:
        self._verb: Literal["kill", "stop", "power_off"] = verb

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """End what runs; a power that goes takes a dead node's memory too."""
        for name in held.nodes:
            runs = context.world.is_running(name)
            if runs:
                context.restart_at_end.add(name)
            context.down.setdefault(name, []).append(held)
            if runs or self._verb == "power_off":
                await maybe_await(getattr(context.world, self._verb)(name))
                held.acted(ACTED_TEXTS[self._verb])

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Those that no other fault keeps down are started together."""
        free = [name for name in held.nodes if remove_holder(context.down, name, held)]
        back = [name for name in free if name in context.restart_at_end]
        context.restart_at_end.difference_update(back)
        if back:
            await maybe_await(context.world.start(*back))

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """Nothing is started."""
        for name in held.nodes:
            remove_holder(context.down, name, held)
            context.restart_at_end.discard(name)


class PauseEffect(Effect):
    """The process stands still."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Those that run; one that is dead stands still when it is started."""
        for name in held.nodes:
            if name not in context.still and context.world.is_paused(name):
                context.paused_before.add(name)
            context.still.setdefault(name, []).append(held)
            await self.on_node_started(context, held, name)

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """A node that was paused by hand before stays so."""
        for name in held.nodes:
            if not remove_holder(context.still, name, held):
                continue
            if name in context.paused_before:
                context.paused_before.remove(name)
            else:
                await maybe_await(context.world.resume(name))

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """It was started: it stands still again."""
        if context.can_answer(name):
            await maybe_await(context.world.pause(name))
            held.acted("paused a process")


class ClockEffect(Effect):
    """The wall clock is wrong by so much more: ahead, or drifting since the fault began."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Through restarts, too."""
        fault = held.fault
        error = ClockError(getattr(fault, "ms", 0), getattr(fault, "ppm", 0), held.since_ms)
        for name in held.nodes:
            context.clocks.setdefault(name, {})[held.fault_id] = error
            await self.on_node_started(context, held, name)
            held.acted("changed a clock")

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """The clock shows what it would have shown without this fault."""
        for name in held.nodes:
            if context.clocks.get(name, {}).pop(held.fault_id, None) is not None:
                await self.on_node_started(context, held, name)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """The errors of all faults of this clock add up."""
        del held
        total = ClockError()
        for error in context.clocks[name].values():
            total = total.plus(error)
        await maybe_await(context.world.add_clock_error(name, total))


# Its drive ----------------------------------------------------------------------------


TROUBLES: Mapping[type[Fault], Callable[[Any], DriveCondition]] = {
    FullDisk: lambda fault: NoRoom(fault.free_bytes),
    SlowDisk: lambda fault: SlowFlushes(fault.flush_ms, fault.bytes_per_s),
    FailingFlush: lambda fault: FailingFlushes(fault.probability),
}


class DriveEffect(Effect):
    """A trouble of the drive, by the world's verb ``drive``."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """At each of the nodes, running or not."""
        for name in held.nodes:
            condition = TROUBLES[type(held.fault)](held.fault)
            held.blocks.enter_context(context.world.drive(name, DriveFault(condition, held.tally)))

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """The drive is as good as before; what a fault refused was not written."""
        del context  # each block knows its drive
        held.blocks.close()


# Links --------------------------------------------------------------------------------


class LinkEffect(Effect):
    """At the world's proxies, or a rule of its network by the verb ``link``."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """It holds between all whom the fault means, now and later."""
        if (links := context.world.links) is not None:
            held.blocks.enter_context(links.under(held.fault, held.tally))
            return
        traffic = traffic_of(held.fault, context.world.spec)
        rule = Rule(traffic, VERDICTS[type(held.fault)](held.fault), held.tally)
        held.blocks.enter_context(context.world.link(rule))

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """What was held arrives."""
        del context  # the rule knows its network
        held.blocks.close()


def traffic_of(fault: LinkFault, spec: ClusterSpec) -> Traffic:
    """Which ways *fault* means."""
    if fault.between is None:
        inside = fault.around
        assert inside is not None, "a fault of a link has either between or around"

        def leaves(source: str, target: str) -> bool:
            return is_targeted(spec, inside, source) and not is_targeted(spec, inside, target)

        there = leaves
    else:
        left, right = fault.between

        def goes(source: str, target: str) -> bool:
            return is_targeted(spec, left, source) and is_targeted(spec, right, target)

        there = goes

    def meant(source: str, target: str) -> bool:
        if source in NO_CLIENTS or target in NO_CLIENTS:
            return False
        return there(source, target) or (not fault.one_way and there(target, source))

    return meant


# Which nodes a name in a fault means --------------------------------------------------


OPERATOR = "operator"  # the virtual machine from which rules are set: no fault cuts it off
NO_CLIENTS = (OPERATOR, WORLD_NODE)

SELECTORS: Mapping[str, Callable[[ClusterSpec, str], bool]] = {
    "brokers": lambda spec, name: name in spec.broker_names,
    "name_servers": lambda spec, name: name in spec.name_server_names,
    "clients": lambda spec, name: (
        name not in (*spec.name_server_names, *spec.broker_names, *NO_CLIENTS)
    ),
}


def is_targeted(spec: ClusterSpec, wanted: Nodes, name: str) -> bool:
    """Does *wanted*, a name or several, mean the node *name*?"""
    if not isinstance(wanted, str):
        return any(is_targeted(spec, one, name) for one in wanted)
    if (selects := SELECTORS.get(wanted)) is not None:
        return selects(spec, name)
    return name == wanted or re.fullmatch(rf"{re.escape(wanted)}-\d+", name) is not None


def targeted_names(spec: ClusterSpec, wanted: Nodes, known: Iterable[str]) -> tuple[str, ...]:
    """Those of the *known* nodes, in their order.  Raises ``UnknownNode`` for a name of nobody.

    ``clients`` may be nobody yet.
    """
    known = tuple(known)
    for one in (wanted,) if isinstance(wanted, str) else wanted:
        if one not in SELECTORS and not any(is_targeted(spec, one, name) for name in known):
            raise UnknownNode(one, known, near=nearest(one, (*known, *SELECTORS)))
    return tuple(name for name in known if is_targeted(spec, wanted, name))
