"""The faults of one world: those that it supports, and those that hold now.

``TABLE`` has one row per fault: its effect, and whether each kind of world supports it.
``refusal_of`` uses the table alone, so a scenario is refused when it is loaded.  A world in real
time supports the faults marked ``with_links`` only if its nodes are behind proxies.

``FaultRegister`` begins, lists and ends faults, and writes them to the world's journal.  It waits
only for the world's verbs, so in a world whose verbs block, its coroutines never suspend.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from rocketmq_emulator.cluster.fault_values import (
    AnyFault,
    Fault,
    FaultState,
    Lag,
    LinkFault,
    word_of,
)
from rocketmq_emulator.cluster.faults.effects import (
    SELECTORS,
    ActiveFault,
    ClockEffect,
    DownEffect,
    DriveEffect,
    Effect,
    FaultContext,
    LagEffect,
    LinkEffect,
    PauseEffect,
    is_selected,
    targeted_names,
)
from rocketmq_emulator.cluster.faults.server_effects import (
    AnswerEffect,
    BusyEffect,
    PermissionEffect,
    UnregisteredEffect,
    hinders,
    rule_applied,
)
from rocketmq_emulator.cluster.world import CannotDo, WorldKind
from rocketmq_emulator.facts import FaultBegan, FaultEnded
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import Reason
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.cluster.world import World
    from rocketmq_emulator.facts import Fact


Support: TypeAlias = Literal["yes", "with_links", "no"]


class FaultRow(NamedTuple):
    """A fault's effect, and whether each kind of world supports it."""

    effect: Effect
    processes: Support
    embedded: Support
    virtual: Support = "yes"

    def can(self, world: WorldKind) -> Support:
        """Whether *world* supports the fault."""
        found: Support = getattr(self, world)
        return found


CLOCK = ClockEffect()
LINK = LinkEffect()
DRIVE = DriveEffect()

TABLE: Mapping[str, FaultRow] = {
    "kill": FaultRow(DownEffect("kill"), "yes", "yes"),
    "stop": FaultRow(DownEffect("stop"), "yes", "yes"),
    "pause": FaultRow(PauseEffect(), "yes", "yes"),
    "power_off": FaultRow(DownEffect("power_off"), "no", "no"),
    "clock_jump": FaultRow(CLOCK, "yes", "yes"),
    "clock_drift": FaultRow(CLOCK, "yes", "yes"),
    "busy": FaultRow(BusyEffect(), "yes", "yes"),
    "full_disk": FaultRow(DRIVE, "no", "no"),
    "slow_disk": FaultRow(DRIVE, "no", "no"),
    "failing_flush": FaultRow(DRIVE, "no", "no"),
    "slow_link": FaultRow(LINK, "with_links", "with_links"),
    "bandwidth": FaultRow(LINK, "with_links", "with_links"),
    "partition": FaultRow(LINK, "with_links", "with_links"),
    "stall": FaultRow(LINK, "with_links", "with_links"),
    "refuse": FaultRow(LINK, "with_links", "with_links"),
    "cut": FaultRow(LINK, "with_links", "with_links"),
    "lag": FaultRow(LagEffect(), "with_links", "with_links"),
    "read_only": FaultRow(PermissionEffect(), "yes", "yes"),
    "unregistered": FaultRow(UnregisteredEffect(), "yes", "yes"),
    "answer": FaultRow(AnswerEffect(), "yes", "yes"),
}


class CannotBegin(CannotDo):
    """A fault that this world cannot begin; nothing has changed."""

    def __init__(self, world: WorldKind, text: str) -> None:
        super().__init__(world, "begin_fault", text, text=text)


PROCESS_FAULTS = ("kill", "stop", "pause")  # also for clients that run in the world


def refusal_of(
    fault: Fault,
    world: WorldKind,
    spec: ClusterSpec,
    *,
    has_links: bool = False,
    clients: Collection[str] = (),
) -> str | None:
    """Why a cluster of *spec* in *world* cannot do *fault*; None if it can.

    In the virtual world any name may be a client's, because clients may start later; in other
    worlds *clients* are the clients that run as processes of that world.
    """
    return (
        refusal_of_word(word_of(fault), world, has_links=has_links)
        or _unknown_server(fault, world, spec, clients)
        or _link_of_controller(fault, world, spec)
    )


def refusal_of_word(word: str, world: WorldKind, *, has_links: bool = False) -> str | None:
    """Why *world* cannot do faults of this *word*; None if it can."""
    can = TABLE[word].can(world) if word in TABLE else "no"
    if can == "no":
        ways = [kind for kind in WORLDS if word in TABLE and TABLE[word].can(kind) != "no"]
        return f"the {world} world cannot do {word}: use {' or '.join(ways)}"
    if can == "with_links" and not has_links:
        how = "`rmqemu up --with-links`, Cluster(with_links=True)"
        return f"{word} needs proxies in front of the nodes: start the cluster with them ({how})"
    return None


def _link_of_controller(fault: Fault, world: WorldKind, spec: ClusterSpec) -> str | None:
    """The error text if *fault* hurts links of controllers where these have no proxies."""
    if world == "virtual" or not isinstance(fault, LinkFault):
        return None
    ends = [end for end in (fault.around, *(fault.between or ())) if end is not None]
    if any(is_selected(spec, end, name) for end in ends for name in spec.controller_names):
        return (
            f"{word_of(fault)}: controllers have no proxies in the {world} world, so their links "
            "cannot be hurt: pause a controller, or use the virtual world"
        )
    return None


def _unknown_server(
    fault: Fault, world: WorldKind, spec: ClusterSpec, clients: Collection[str]
) -> str | None:
    """The error text if *fault* names a server that the cluster does not have."""
    known = {
        "broker": (*spec.broker_names, "brokers", "masters", "slaves"),
        "name_server": (*spec.name_server_names, "name_servers"),
    }
    if world != "virtual":
        known["node"] = (*spec.node_names, *(name for name in SELECTORS if name != "clients"))
    if isinstance(fault, Lag):
        known["node"] = (*spec.slave_names, "slaves") if spec.slaves else ()
    for field, names in known.items():
        given = getattr(fault, field, None)
        if given is not None and given not in names:
            if word_of(fault) in PROCESS_FAULTS and any(
                is_selected(spec, given, name) for name in clients
            ):
                continue
            if not names:
                return f"{word_of(fault)}: the cluster has no slaves: start it with slaves=1"
            advice = did_you_mean(given, names)
            return f"{word_of(fault)}: there is no {field} named {given!r}; {advice}"
    return None


WORLDS: tuple[WorldKind, ...] = ("processes", "embedded", "virtual")


# Faults that hold --------------------------------------------------------------------


FAULTS_MAX = 1_000  # holding at the same time
FOR_MS_MAX = 365 * 24 * 3_600_000


class UnknownFault(Misuse):
    """No fault with this id was ever begun."""


class FaultRegister:
    """The faults of *world*, with ids from 1 upwards.  *note* writes to its journal."""

    def __init__(self, world: World, note: Callable[[Fact], object]) -> None:
        self._context = FaultContext(world)
        self._note = note
        self._held = self._context.held
        self._ids = itertools.count(1)
        self._last_id = 0

    async def begin(
        self, fault: AnyFault, known: Iterable[str], now_ms: int, for_ms: int | None
    ) -> int:
        """Begin *fault*; returns its id.

        Raises ``CannotBegin``, ``UnknownNode`` or the error of its effect, which is then undone.
        """
        world = self._context.world
        check_duration(for_ms)
        word = word_of(fault)
        if text := refusal_of_word(word, world.kind, has_links=world.has_links):
            raise CannotBegin(world.kind, text)
        nodes = targeted_names(world.spec, nodes_of(fault), known)
        clients = world.client_names
        if text := refusal_of(
            fault, world.kind, world.spec, has_links=world.has_links, clients=clients
        ):
            raise CannotBegin(world.kind, text)
        if not isinstance(fault, LinkFault) and world.kind != "virtual":
            nodes = tuple(name for name in nodes if name in (*world.node_names, *clients))
        if len(self._held) >= FAULTS_MAX:
            raise CannotBegin(world.kind, f"{FAULTS_MAX} faults hold already: end some of them")
        fault_id = next(self._ids)  # in one step: threads may begin faults at the same time
        until_ms = None if for_ms is None else now_ms + for_ms
        held = ActiveFault(
            fault_id, fault, nodes, since_ms=now_ms, until_ms=until_ms, note=self._note
        )
        self._last_id = max(self._last_id, fault_id)
        self._held[fault_id] = held
        self._note(FaultBegan(held.fault_id, msgspec.json.encode(fault).decode(), nodes))
        try:
            await effect_of(held).begin(self._context, held)
        except BaseException:
            await self.end(held.fault_id, "removed")
            raise
        return held.fault_id

    async def end(self, fault_id: int, reason: Reason) -> bool:
        """End a fault; returns whether it held until now.  Raises ``UnknownFault``."""
        if not 1 <= fault_id <= self._last_id:
            raise UnknownFault(f"there is no fault {fault_id}: {self._last_id} have begun so far")
        held = self._held.pop(fault_id, None)
        if held is None:
            return False
        held.is_over = True
        try:
            await effect_of(held).end(self._context, held)
        finally:
            self._note(FaultEnded(fault_id, reason, held.acted_count))
        if hinders(held):
            for name in held.nodes:
                await self._context.undo_leftovers(name)
        return True

    async def end_all(self, reason: Reason) -> tuple[int, ...]:
        """End all, the latest first; returns their ids.  Raises the last error at the end."""
        ids = tuple(self._held)
        failure: Exception | None = None
        for fault_id in reversed(ids):
            try:
                await self.end(fault_id, reason)
            except Exception as error:  # noqa: BLE001  # the others must end too
                failure = error
        if failure is not None:
            raise failure
        return ids

    def drop_all(self) -> None:
        """Note the end of all faults without undoing them: the world itself has ended."""
        for fault_id, held in self._held.items():
            self._note(FaultEnded(fault_id, "run ended", held.acted_count))
        self._held.clear()

    async def end_with_world(self) -> None:
        """End all faults before the nodes end: undo changes that outlast them, start no node."""
        for fault_id, held in reversed([*self._held.items()]):
            del self._held[fault_id]
            held.is_over = True
            try:
                await effect_of(held).end_with_world(self._context, held)
            finally:
                self._note(FaultEnded(fault_id, "run ended", held.acted_count))

    async def recount(self) -> None:
        """Update the counts that only the nodes know."""
        for held in [*self._held.values()]:
            await effect_of(held).recount(self._context, held)

    def states(self, now_ms: int) -> tuple[FaultState, ...]:
        """The faults that hold, in the order in which they began."""
        return tuple(
            FaultState(
                fault_id=held.fault_id,
                fault=held.fault,
                nodes=held.nodes,
                since_ms=held.since_ms,
                left_ms=None if held.until_ms is None else max(held.until_ms - now_ms, 0),
                acted_count=held.acted_count,
            )
            for held in [*self._held.values()]
        )

    # Events of the nodes ----------------------------------------------------------------

    async def started(self, names: Iterable[str]) -> None:
        """Apply the faults that hold to these nodes, which were just started."""
        for name in names:
            left = self._context.pending_undo.pop(name, [])
            self._context.pending_undo[name] = [one for one in left if not one.ends_with_process]
            await self._context.undo_leftovers(name)
            self._context.start_counts[name] = self._context.start_counts.get(name, 0) + 1
            for held in [*self._held.values()]:
                if name in held.nodes:
                    await effect_of(held).on_node_started(self._context, held, name)

    async def resumed(self, name: str) -> None:
        """Apply changes that node *name* missed while it was paused."""
        if not self._context.can_answer(name):
            return
        await self._context.undo_leftovers(name)
        for held in [*self._held.values()]:
            if name in held.nodes:
                await effect_of(held).on_node_resumed(self._context, held, name)

    def rule_applied(self, node: str, rule_id: int) -> None:
        """Count that *node* applied one of its reply rules."""
        for held in self._held.values():
            rule_applied(held, node, rule_id)

    def __bool__(self) -> bool:
        """Whether ``started`` and ``resumed`` have anything to do."""
        return bool(self._held or self._context.pending_undo)


def effect_of(held: ActiveFault) -> Effect:
    """The effect that carries out the fault."""
    return TABLE[word_of(held.fault)].effect


def nodes_of(fault: AnyFault) -> tuple[str, ...]:
    """The names in the fault; for a link those of both sides."""
    if isinstance(fault, LinkFault):
        sides = fault.between if fault.between is not None else (fault.around,)
        return tuple(
            name for side in sides for name in ((side,) if isinstance(side, str) else side or ())
        )
    fields = ("node", "broker", "name_server")
    return tuple(getattr(fault, field) for field in fields if hasattr(fault, field))


def check_duration(for_ms: int | None) -> None:
    """Raises ``ValueError`` for a duration out of range."""
    if for_ms is not None and not 1 <= for_ms <= FOR_MS_MAX:
        raise ValueError(f"for_ms is a number from 1 to {FOR_MS_MAX}, not {for_ms}")
