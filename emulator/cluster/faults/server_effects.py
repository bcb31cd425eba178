"""Faults of what servers answer and know, set by calls to the servers themselves.

A process that ends forgets them, so they are set again when its node is started.  A node that
stands still is asked when it goes on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from emulator.cluster.faults.held import Effect, Leftover
from emulator.cluster.reply_rules import RuleCall
from protocol import catalog
from protocol.bodies.body import decode_long_body
from protocol.bodies.reply_rules import ReplyRule
from protocol.bodies.routes import ClusterInfo
from protocol.codes import RequestCode, ResponseCode
from protocol.requests.registration import UnregisterBrokerRequest

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held


class Placed(NamedTuple):
    """A rule at a node: its id there, and how often it is known to have been applied."""

    rule_id: int
    applied_count: int = 0


class AnswerEffect(Effect):
    """A reply rule at each of the nodes; ``placed`` says where it holds."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """At those that run; the others get it when they are started."""
        for name in self.servers(held):
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
        is_meant = name in self.servers(held) and name not in held.placed
        if not is_meant or not grip.can_answer(name):
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

    def servers(self, held: Held) -> tuple[str, ...]:
        """Those that are asked."""
        return held.nodes

    def rule(self, held: Held) -> ReplyRule:
        """What the nodes are asked to obey."""
        rule: ReplyRule = held.fault.rule
        return rule


class UnregisteredEffect(AnswerEffect):
    """A NameServer that refuses a broker's registrations, and has forgotten the broker.

    The broker is there again with its next registration after the end, within 30 s.
    """

    def servers(self, held: Held) -> tuple[str, ...]:
        """The NameServer, not the broker."""
        return tuple(name for name in held.nodes if name != held.fault.broker)

    def rule(self, held: Held) -> ReplyRule:
        """Its other calls are answered as ever."""
        return ReplyRule(
            code=RequestCode.REGISTER_BROKER,
            broker_name=held.fault.broker,
            error_code=ResponseCode.SYSTEM_ERROR,
            remark="a fault on purpose: this NameServer takes no registration of this broker",
        )

    async def go_on(self, grip: Grip, held: Held, name: str) -> None:
        """First the rule, or the broker would be back before anybody looks."""
        if name in held.placed:
            return
        await super().go_on(grip, held, name)
        if name in held.placed:
            await _forget(grip, name, held.fault.broker)


async def _forget(grip: Grip, name_server: str, broker: str) -> None:
    """Unregister *broker* there as it does itself when it ends."""
    read = RuleCall(
        catalog.GET_BROKER_CLUSTER_INFO, b"", lambda data: decode_long_body(data, ClusterInfo)
    )
    info: ClusterInfo | None = await grip.ask(name_server, "ask_server", read)
    data = None if info is None else info.broker_addr_table.get(broker)
    if data is None:
        return  # it knows nothing of it
    for broker_id, address in sorted(data.broker_addrs.items()):
        header = UnregisterBrokerRequest(
            broker_name=broker,
            broker_addr=address,
            cluster_name=data.cluster,
            broker_id=broker_id,
        )
        call: RuleCall[None] = RuleCall(catalog.UNREGISTER_BROKER, b"", lambda _: None, header)
        await grip.ask(name_server, "ask_server", call)


def rule_applied(held: Held, name: str, rule_id: int) -> None:
    """A node has noted that it applied a rule: was it that of *held*?"""
    placed = held.placed.get(name)
    if isinstance(placed, Placed) and placed.rule_id == rule_id:
        held.placed[name] = placed._replace(applied_count=placed.applied_count + 1)
        held.acted("applied a reply rule")


async def _remove(grip: Grip, name: str, rule_id: int) -> None:
    if grip.can_answer(name):
        await grip.ask(name, "remove_reply_rule", rule_id)
    elif grip.world.is_running(name):
        leftover = Leftover(partial(_remove, grip, name, rule_id), of_process=True)
        grip.leftovers.setdefault(name, []).append(leftover)
