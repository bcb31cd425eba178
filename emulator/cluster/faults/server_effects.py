"""Faults of what servers answer and know, set by calls to the servers themselves.

A process that ends forgets them, so they are set again when its node is started.  A node that
stands still is asked when it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emulator.cluster.faults.held import Effect

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held
    from protocol.bodies.reply_rules import ReplyRule


class Placed(NamedTuple):
    """A rule at a node: its id there, and how often it is known to have been applied."""

    rule_id: int
    applied_count: int = 0


class AnswerEffect(Effect):
    """A reply rule at each of the nodes; ``placed`` says where it holds."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """At those that run; the others get it when they are started."""
        for name in held.nodes:
            await self.go_on(grip, held, name)

    async def end(self, grip: Grip, held: Held) -> None:
        """Removed where it holds; a rule that ended by its count is not there any more."""
        await self.recount(grip, held)
        for name, placed in held.placed.items():
            await _remove(grip, name, placed.rule_id)

    async def end_with_world(self, grip: Grip, held: Held) -> None:
        """Rules end with their processes; how often they were applied is still counted."""
        await self.recount(grip, held)

    async def renew(self, grip: Grip, held: Held, name: str) -> None:
        """A new process has no rules."""
        held.placed.pop(name, None)
        await self.go_on(grip, held, name)

    async def go_on(self, grip: Grip, held: Held, name: str) -> None:
        """A node that stood still when the fault began gets its rule now."""
        if name in held.placed or not grip.can_answer(name):
            return
        rule_id = await grip.ask(name, "set_reply_rule", self.rule(held))
        if rule_id is None:
            return
        held.placed[name] = Placed(rule_id)
        if held.is_over:  # it ended meanwhile
            await _remove(grip, name, rule_id)

    async def recount(self, grip: Grip, held: Held) -> None:
        """Ask the nodes how often they applied it."""
        for name, (rule_id, known_count) in [*held.placed.items()]:
            if not grip.can_answer(name):
                continue
            states = await grip.ask(name, "reply_rules") or ()
            found = {state.rule_id: state.applied_count for state in states}
            # Not there any more: it was applied as often as it was meant to be.
            count = found.get(rule_id, self.rule(held).count or known_count)
            held.placed[name] = Placed(rule_id, count)
            held.acted("applied a reply rule", count - known_count)

    def rule(self, held: Held) -> ReplyRule:
        """What the nodes are asked to obey."""
        rule: ReplyRule = held.fault.rule
        return rule


def rule_applied(held: Held, name: str, rule_id: int) -> None:
    """A node has noted that it applied a rule: was it that of *held*?"""
    placed = held.placed.get(name)
    if isinstance(placed, Placed) and placed.rule_id == rule_id:
        held.placed[name] = placed._replace(applied_count=placed.applied_count + 1)
        held.acted("applied a reply rule")


async def remove_leftovers(grip: Grip, name: str) -> None:
    """Rules of faults that ended while the node stood still."""
    for rule_id in grip.leftovers.pop(name, ()):
        await _remove(grip, name, rule_id)


async def _remove(grip: Grip, name: str, rule_id: int) -> None:
    if grip.can_answer(name):
        await grip.ask(name, "remove_reply_rule", rule_id)
    elif grip.world.is_running(name):
        grip.leftovers.setdefault(name, []).append(rule_id)
