"""A fault that holds, and the effects of faults of nodes, drives and links, by a world's verbs.

``Effect`` is the base of all effects.  The faults of one world share a ``FaultContext``, so
faults of the same node may begin and end in any order: a node is started again when the last
fault that keeps it down has ended, and only if it ran before the first one; a pause also holds
for a restarted process; clock errors add up; a drive outlasts the processes of its machine.
A rule of a link selects source and target by name, so it also holds for clients that join later;
it never affects the operator's machine, or a rule could not be removed.
A fault names nodes, or a set of them as ``brokers``, ``masters``, ``slaves`` and ``clients``, or a
consumer group for its members (``<group>-1``, ``<group>-2`` …).  The name alone decides whether a
node is affected.
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
    Bandwidth,
    FailingFlush,
    Fault,
    FullDisk,
    Lag,
    SlowDisk,
    SlowLink,
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

    ``until_ms`` is the time of its end, if it has a duration.  ``tally`` counts its effects; rules
    of links share it.  ``placed`` maps a node to what the fault set there, as a rule's id;
    ``blocks`` closes the world's context managers: rules of links, conditions of drives.
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
        self.fault: Any = fault  # one of AnyFault; its effect knows the type
        self.nodes = nodes
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.tally = Tally(lambda what: note(FaultActed(fault_id, what)))
        self.is_over = False
        self.placed: dict[str, Any] = {}
        self.blocks = ExitStack()

    def acted(self, what: str, times: int = 1) -> None:
        """Count that the fault took effect; the first time is noted as a fact."""
        self.tally.add(what, times)

    @property
    def acted_count(self) -> int:
        """How often the fault took effect."""
        return self.tally.count


class PendingUndo(NamedTuple):
    """An undo that waits, because the fault ended while its node could not answer."""

    undo: Callable[[], Awaitable[None]]
    ends_with_process: bool  # needless once the process has ended


class FaultContext:
    """The state that the faults of *world* share, by node."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held: dict[int, ActiveFault] = {}  # by id: the faults that hold
        self.down: dict[str, list[ActiveFault]] = {}  # by node, the faults that keep it down
        self.restart_at_end: set[str] = set()  # nodes that ran when the first one began
        self.still: dict[str, list[ActiveFault]] = {}  # by node, the faults that pause it
        self.paused_before: set[str] = set()  # nodes paused before the first one
        self.clocks: dict[str, dict[int, ClockError]] = {}  # by node, then by fault
        self.busy: dict[tuple[str, str], list[ActiveFault]] = {}  # by broker and pool
        self.rules: dict[tuple[str, int], ActiveFault] = {}  # by node and id: who set it last
        self.read_only: dict[tuple[str, str], list[ActiveFault]] = {}  # by broker and topic
        self.perms: dict[tuple[str, str], int] = {}  # perm before the first of those faults
        self.perm_calls: dict[tuple[str, str], int] = {}  # how often a fault has set it
        self.pending_undo: dict[str, list[PendingUndo]] = {}  # by node, run when it can answer
        self.start_counts: dict[str, int] = {}  # how often a node was started

    def can_answer(self, name: str) -> bool:
        """Whether the node runs and is not paused."""
        return self.world.is_running(name) and not self.world.is_paused(name)

    async def ask(self, name: str, call: ServerCall[T]) -> T | None:
        """The node's answer to *call*; None if its process has ended or is paused."""
        life = self.start_counts.get(name)
        try:
            result = await maybe_await(self.world.call_server(name, call))
        except Exception:
            if self.can_answer(name) and self.start_counts.get(name) == life:
                raise
            return None
        return result if self.start_counts.get(name) == life else None

    async def undo_leftovers(self, name: str) -> None:
        """Undo faults that ended while the node could not answer, if it can now."""
        if self.can_answer(name):
            for leftover in self.pending_undo.pop(name, ()):
                await leftover.undo()


class Effect(ABC):
    """The effect of a kind of fault in every world; it waits only as its world's verbs do."""

    @abstractmethod
    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Carry out the fault; if this raises, ``end`` undoes the part already done."""

    @abstractmethod
    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Undo the changes of the fault."""

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """As ``end``, when the nodes are about to end: only undo changes that outlast them."""
        await self.end(context, held)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:  # noqa: B027  # most do nothing
        """Called when the node was started while *held* holds."""

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:  # noqa: B027  # most do nothing
        """Called when the node was resumed while *held* holds."""

    async def recount(self, context: FaultContext, held: ActiveFault) -> None:  # noqa: B027  # most do nothing
        """Update ``acted_count`` from the nodes, if only they count it."""


def remove_holder(holds: dict[T, list[ActiveFault]], what: T, held: ActiveFault) -> bool:
    """Remove *held* from the holders of *what*; returns whether it was the last."""
    holding = holds.get(what, [])
    if held not in holding:
        return False  # its begin failed before this
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
    """Ends the process by a verb of the world, and starts it at the end of the fault."""

    def __init__(self, verb: Literal["kill", "stop", "power_off"]) -> None:
        self._verb: Literal["kill", "stop", "power_off"] = verb

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """End running nodes; a power loss also affects the drive of a dead node."""
        for name in held.nodes:
            runs = context.world.is_running(name)
            if runs:
                context.restart_at_end.add(name)
            context.down.setdefault(name, []).append(held)
            if runs or self._verb == "power_off":
                await maybe_await(getattr(context.world, self._verb)(name))
                held.acted(ACTED_TEXTS[self._verb])

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Start together the nodes that no other fault keeps down."""
        free = [name for name in held.nodes if remove_holder(context.down, name, held)]
        back = [name for name in free if name in context.restart_at_end]
        context.restart_at_end.difference_update(back)
        if back:
            await maybe_await(context.world.start(*back))

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """As ``end``, without starting nodes."""
        for name in held.nodes:
            remove_holder(context.down, name, held)
            context.restart_at_end.discard(name)


class PauseEffect(Effect):
    """Pauses the process."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Pause running nodes; a dead node is paused when it is started."""
        for name in held.nodes:
            if name not in context.still and context.world.is_paused(name):
                context.paused_before.add(name)
            context.still.setdefault(name, []).append(held)
            await self.on_node_started(context, held, name)

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Resume the nodes, except those paused before the first such fault."""
        for name in held.nodes:
            if not remove_holder(context.still, name, held):
                continue
            if name in context.paused_before:
                context.paused_before.remove(name)
            else:
                await maybe_await(context.world.resume(name))

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Pause the new process."""
        if context.can_answer(name):
            await maybe_await(context.world.pause(name))
            held.acted("paused a process")


class ClockEffect(Effect):
    """Adds to the error of the wall clock: an offset, or a drift since the fault began."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Add the fault's error to the nodes' clocks; it outlasts restarts."""
        fault = held.fault
        error = ClockError(getattr(fault, "ms", 0), getattr(fault, "ppm", 0), held.since_ms)
        for name in held.nodes:
            context.clocks.setdefault(name, {})[held.fault_id] = error
            await self.on_node_started(context, held, name)
            held.acted("changed a clock")

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Subtract the fault's error from the nodes' clocks."""
        for name in held.nodes:
            if context.clocks.get(name, {}).pop(held.fault_id, None) is not None:
                await self.on_node_started(context, held, name)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the sum of the errors of all faults of this clock."""
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
    """A condition of the drive, by the world's verb ``drive``."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Set the condition at each node's drive, whether the node runs or not."""
        for name in held.nodes:
            condition = TROUBLES[type(held.fault)](held.fault)
            held.blocks.enter_context(context.world.drive(name, DriveFault(condition, held.tally)))

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Remove the condition; data that the drive refused was not written."""
        del context  # each block holds its drive
        held.blocks.close()


# Links --------------------------------------------------------------------------------


class LinkEffect(Effect):
    """A rule at the world's proxies, or in its network by the verb ``link``."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Set the rules; they select by name, so they also affect nodes that join later."""
        for fault in self.links_of(held.fault, context.world.spec):
            if (links := context.world.links) is not None:
                held.blocks.enter_context(links.under(fault, held.tally))
                continue
            traffic = traffic_of(fault, context.world.spec)
            rule = Rule(traffic, VERDICTS[type(fault)](fault), held.tally)
            held.blocks.enter_context(context.world.link(rule))

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Remove the rule; held bytes arrive."""
        del context  # the block holds its network
        held.blocks.close()

    def links_of(self, fault: Any, spec: ClusterSpec) -> Iterable[LinkFault]:  # noqa: ANN401  # as in ActiveFault
        """The faults of links of which *fault* consists: itself."""
        del spec
        return (fault,)


class LagEffect(LinkEffect):
    """Links that are slow or narrow from each master to its slaves, one way."""

    def links_of(self, fault: Lag, spec: ClusterSpec) -> Iterable[LinkFault]:
        """A slow link, a narrow one, or both, to each slave that the fault names."""
        for slave in spec.slave_names:
            if not is_selected(spec, fault.node, slave):
                continue
            way = spec.master_of(slave)[0], slave
            if fault.ms or fault.jitter_ms:
                yield SlowLink(between=way, one_way=True, ms=fault.ms, jitter_ms=fault.jitter_ms)
            if fault.bytes_per_s is not None:
                yield Bandwidth(between=way, one_way=True, bytes_per_s=fault.bytes_per_s)


def traffic_of(fault: LinkFault, spec: ClusterSpec) -> Traffic:
    """A predicate: whether *fault* affects bytes from a source to a target, by name."""
    if fault.between is None:
        inside = fault.around
        assert inside is not None, "a fault of a link has either between or around"

        def leaves(source: str, target: str) -> bool:
            return is_selected(spec, inside, source) and not is_selected(spec, inside, target)

        there = leaves
    else:
        left, right = fault.between

        def goes(source: str, target: str) -> bool:
            return is_selected(spec, left, source) and is_selected(spec, right, target)

        there = goes

    def meant(source: str, target: str) -> bool:
        if source in NO_CLIENTS or target in NO_CLIENTS:
            return False
        return there(source, target) or (not fault.one_way and there(target, source))

    return meant


# Names in faults -------------------------------------------------------------------


OPERATOR = "operator"  # the virtual machine that sets rules: no fault affects it
NO_CLIENTS = (OPERATOR, WORLD_NODE)

SELECTORS: Mapping[str, Callable[[ClusterSpec, str], bool]] = {
    "brokers": lambda spec, name: name in spec.broker_names,
    "masters": lambda spec, name: name in spec.master_names,
    "slaves": lambda spec, name: name in spec.slave_names,
    "name_servers": lambda spec, name: name in spec.name_server_names,
    "controllers": lambda spec, name: name in spec.controller_names,
    "clients": lambda spec, name: name not in (*spec.node_names, *NO_CLIENTS),
}


def is_selected(spec: ClusterSpec, wanted: Nodes, name: str) -> bool:
    """Whether *wanted*, a name or several, includes the node *name*."""
    if not isinstance(wanted, str):
        return any(is_selected(spec, one, name) for one in wanted)
    if (selects := SELECTORS.get(wanted)) is not None:
        return selects(spec, name)
    if name in spec.broker_names:  # broker-a-1 is a slave, no member of a group broker-a
        return name == wanted
    return name == wanted or re.fullmatch(rf"{re.escape(wanted)}-\d+", name) is not None


def targeted_names(spec: ClusterSpec, wanted: Nodes, known: Iterable[str]) -> tuple[str, ...]:
    """The *known* nodes that *wanted* includes, in their order.

    Raises ``UnknownNode`` for a name that matches none; a selector as ``clients`` may match none.
    """
    known = tuple(known)
    for one in (wanted,) if isinstance(wanted, str) else wanted:
        if one not in SELECTORS and not any(is_selected(spec, one, name) for name in known):
            raise UnknownNode(one, known, near=nearest(one, (*known, *SELECTORS)))
    return tuple(name for name in known if is_selected(spec, wanted, name))
