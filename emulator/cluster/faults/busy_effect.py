"""The fault ``busy``: few and slow threads in one pool of a broker, set by a call to it.

Of several that hold at one pool the one that began last decides.  A broker counts what a pool did
since it is busy; each fault is given what was counted while it decided, as far as the broker can
be asked: what it did before it was killed is not known.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from emulator.cluster.faults.held import Effect, Leftover
from emulator.cluster.reply_rules import set_busy_pool
from protocol.bodies.pools import BusyPool, BusyPoolState, PoolName

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held
    from emulator.cluster.faults.values import Busy
    from emulator.cluster.reply_rules import RuleCall

ACTED = "had requests wait or refused them"


class BusyEffect(Effect):
    """``placed`` has how much a broker had counted when the fault was last asked."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """At those that run; the others get it when they are started."""
        for name in held.nodes:
            await _count(grip, name, held.fault.pool)
            grip.busy.setdefault((name, held.fault.pool), []).append(held)
            await _arrange(grip, name, held.fault.pool)

    async def end(self, grip: Grip, held: Held) -> None:
        """The one that began before it decides, or requests wait for nobody."""
        pool = held.fault.pool
        for name in held.nodes:
            holding = grip.busy.get((name, pool), [])
            if held not in holding:
                continue  # it did not come so far when it began
            await _count(grip, name, pool)
            holding.remove(held)
            await _arrange(grip, name, pool)

    async def end_with_world(self, grip: Grip, held: Held) -> None:
        """Pools end with their processes; what they did is still counted."""
        await self.recount(grip, held)

    async def renew(self, grip: Grip, held: Held, name: str) -> None:
        """A new process has done nothing yet."""
        held.placed.pop(name, None)
        await _arrange(grip, name, held.fault.pool)

    async def go_on(self, grip: Grip, held: Held, name: str) -> None:
        """A node that stood still when the fault began gets it now."""
        await _arrange(grip, name, held.fault.pool)

    async def recount(self, grip: Grip, held: Held) -> None:
        """Ask the brokers what their pools did."""
        for name in held.nodes:
            await _count(grip, name, held.fault.pool)


async def _arrange(grip: Grip, name: str, pool: PoolName) -> None:
    """Have the pool be as the faults that hold want it."""
    if not grip.can_answer(name):
        if grip.world.is_running(name):
            undo = partial(_arrange, grip, name, pool)
            grip.leftovers.setdefault(name, []).append(Leftover(undo, of_process=True))
        return
    while True:
        deciding = _deciding(grip, name, pool)
        rule = set_busy_pool(BusyPool(pool=pool)) if deciding is None else _wanted(deciding)
        state: BusyPoolState | None = await grip.ask(name, "ask_server", rule)
        if state is not None and deciding is not None:
            deciding.placed[name] = state.request_count
        if _deciding(grip, name, pool) is deciding:
            return  # else another one began or ended meanwhile, and the broker may know it first


def _deciding(grip: Grip, name: str, pool: PoolName) -> Held | None:
    holding = grip.busy.get((name, pool))
    return holding[-1] if holding else None


async def _count(grip: Grip, name: str, pool: PoolName) -> None:
    """Give the fault that decides what the pool did since it was last asked."""
    holding = grip.busy.get((name, pool))
    if not holding or name not in holding[-1].placed or not grip.can_answer(name):
        return
    held = holding[-1]
    state: BusyPoolState | None = await grip.ask(name, "ask_server", _wanted(held))
    if state is not None:
        held.acted(ACTED, state.request_count - held.placed[name])
        held.placed[name] = state.request_count


def _wanted(held: Held) -> RuleCall[BusyPoolState]:
    fault: Busy = held.fault
    return set_busy_pool(
        BusyPool(
            pool=fault.pool,
            threads=fault.threads,
            service_ms=fault.service_ms,
            queue_max=fault.queue_max,
        )
    )
