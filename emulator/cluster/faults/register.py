"""The faults of one world that hold: begun, listed and ended, and written to its journal.

The world says how its verbs wait; here nothing waits for anything else, so that in a world
that blocks each of these coroutines runs to its end at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from emulator.cluster.faults.held import Grip, Held
from emulator.cluster.faults.naming import names_meant
from emulator.cluster.faults.server_effects import rule_applied
from emulator.cluster.faults.table import TABLE, CannotBegin, refusal_of, refusal_of_word
from emulator.cluster.faults.values import AnyFault, FaultState, LinkFault, word_of
from emulator.facts import FaultBegan, FaultEnded

if TYPE_CHECKING:
    from emulator.cluster.faults.values import Reason
    from emulator.cluster.world import World
    from emulator.facts import Fact

FAULTS_MAX = 1_000  # that hold at one time
FOR_MS_MAX = 365 * 24 * 3_600_000


class UnknownFault(Exception):
    """No fault of this id ever began."""


class HeldFaults:
    """Those of *world*, by ids that count up from 1.  *note* writes to its journal."""

    def __init__(self, world: World[Any], note: Callable[[Fact], object]) -> None:
        self._grip = Grip(world)
        self._note = note
        self._held: dict[int, Held] = {}
        self._ids = itertools.count(1)
        self._last_id = 0

    async def begin(
        self, fault: AnyFault, known: Iterable[str], now_ms: int, for_ms: int | None
    ) -> int:
        """Its id.  Raises ``CannotBegin``, ``UnknownNode`` and what stood in its way.

        Then nothing of it is left.
        """
        world = self._grip.world
        check_lasting(for_ms)
        word = word_of(fault)
        if text := refusal_of_word(word, world.kind, has_links=world.has_links):
            raise CannotBegin(world.kind, text)
        nodes = names_meant(world.spec, nodes_of(fault), known)
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
        held = Held(fault_id, fault, nodes, since_ms=now_ms, until_ms=until_ms, note=self._note)
        self._last_id = max(self._last_id, fault_id)
        self._held[fault_id] = held
        self._note(FaultBegan(held.fault_id, msgspec.json.encode(fault).decode(), nodes))
        try:
            await effect_of(held).begin(self._grip, held)
        except BaseException:
            await self.end(held.fault_id, "removed")
            raise
        return held.fault_id

    async def end(self, fault_id: int, reason: Reason) -> bool:
        """Did it hold until now?  Raises ``UnknownFault``."""
        if not 1 <= fault_id <= self._last_id:
            raise UnknownFault(f"there is no fault {fault_id}: {self._last_id} have begun so far")
        held = self._held.pop(fault_id, None)
        if held is None:
            return False
        held.is_over = True
        try:
            await effect_of(held).end(self._grip, held)
        finally:
            self._note(FaultEnded(fault_id, reason, held.acted_count))
        return True

    async def end_all(self, reason: Reason) -> tuple[int, ...]:
        """The last one first; the ids of those that held.  Raises what the last failure was."""
        ids = tuple(self._held)
        failure: Exception | None = None
        for fault_id in reversed(ids):
            try:
                await self.end(fault_id, reason)
            except Exception as error:  # noqa: BLE001  # the others are to end, too
                failure = error
        if failure is not None:
            raise failure
        return ids

    def drop_all(self) -> None:
        """The world itself ends: nothing is to be healed."""
        for fault_id, held in self._held.items():
            self._note(FaultEnded(fault_id, "run ended", held.acted_count))
        self._held.clear()

    async def end_with_world(self) -> None:
        """The nodes end next: what would outlive them is healed, they are not started again."""
        for fault_id, held in reversed([*self._held.items()]):
            del self._held[fault_id]
            held.is_over = True
            try:
                await effect_of(held).end_with_world(self._grip, held)
            finally:
                self._note(FaultEnded(fault_id, "run ended", held.acted_count))

    async def recount(self) -> None:
        """Ask the nodes what only they know."""
        for held in [*self._held.values()]:
            await effect_of(held).recount(self._grip, held)

    def states(self, now_ms: int) -> tuple[FaultState, ...]:
        """Those that hold, in the order in which they began."""
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

    # What happens to the nodes ----------------------------------------------------------

    async def started(self, names: Iterable[str]) -> None:
        """New processes run: what holds for them is done to them."""
        for name in names:
            left = self._grip.leftovers.pop(name, [])
            self._grip.leftovers[name] = [one for one in left if not one.of_process]
            await self._undo_leftovers(name)
            self._grip.lives[name] = self._grip.lives.get(name, 0) + 1
            for held in [*self._held.values()]:
                if name in held.nodes:
                    await effect_of(held).renew(self._grip, held, name)

    async def resumed(self, name: str) -> None:
        """A node goes on: what could not be done to it while it stood still is done now."""
        if not self._grip.can_answer(name):
            return
        await self._undo_leftovers(name)
        for held in [*self._held.values()]:
            if name in held.nodes:
                await effect_of(held).go_on(self._grip, held, name)

    async def _undo_leftovers(self, name: str) -> None:
        """What faults that ended while the node could not be asked have left there."""
        for leftover in self._grip.leftovers.pop(name, ()):
            await leftover.undo()

    def rule_applied(self, node: str, rule_id: int) -> None:
        """A node has noted that it applied one of its reply rules."""
        for held in self._held.values():
            rule_applied(held, node, rule_id)

    def __bool__(self) -> bool:
        """Is there anything to do when a node starts or goes on?"""
        return bool(self._held or self._grip.leftovers)


def effect_of(held: Held) -> Any:
    """What carries out the fault."""
    return TABLE[word_of(held.fault)].effect


def nodes_of(fault: AnyFault) -> tuple[str, ...]:
    """Whom it names; of a link both sides."""
    if isinstance(fault, LinkFault):
        sides = fault.between if fault.between is not None else (fault.around,)
        return tuple(
            name for side in sides for name in ((side,) if isinstance(side, str) else side or ())
        )
    fields = ("node", "broker", "name_server")
    return tuple(getattr(fault, field) for field in fields if hasattr(fault, field))


def check_lasting(for_ms: int | None) -> None:
    """Raises ``ValueError``."""
    if for_ms is not None and not 1 <= for_ms <= FOR_MS_MAX:
        raise ValueError(f"for_ms is a number from 1 to {FOR_MS_MAX}, not {for_ms}")
