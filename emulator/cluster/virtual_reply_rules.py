"""Reply rules in the virtual world: the same verbs, awaited.

The calls come from a machine of their own, ``operator``, over its links: they take the
time that links take, and a rule of the network can cut them off.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from emulator.cluster.reply_rules import CALL_MS_MAX, R, checked
from emulator.cluster.world import World
from emulator.config import NetConfig
from emulator.journal import silent
from emulator.net.plain_nursery import plain_nursery
from emulator.net.remoting_client import RemotingClient
from emulator.releases import Release
from protocol import catalog
from protocol.bodies.reply_rules import (
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    ReplyRuleState,
    encode_rule_body,
)
from protocol.rpc import AnyRpc

if TYPE_CHECKING:
    from emulator.sim.world import VirtualWorld

OPERATOR = "operator"  # the machine that sends what no node and no client sends


class AwaitedReplyRules(World[Awaitable[None]]):
    """The same verbs where nodes are virtual machines.

    They raise ``ReplyRuleRefused``, and ``RemoteError`` when nobody answers there.
    """

    world: VirtualWorld

    async def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        """Let *node* obey *rule* behind those it has; the rule's id at that node."""
        body = encode_rule_body(rule)
        return (await self._invoke(node, catalog.SET_REPLY_RULE, body, ReplyRuleId)).rule_id

    async def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        """The rules that hold at *node*, in the order in which they are asked."""
        return (await self._invoke(node, catalog.LIST_REPLY_RULES, b"", ReplyRuleList)).rules

    async def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        """Remove one rule, or all; the ids of those that held until now."""
        body = encode_rule_body(RemoveReplyRule(rule_id=rule_id))
        found = await self._invoke(node, catalog.REMOVE_REPLY_RULE, body, RemovedReplyRules)
        return found.rule_ids

    async def _invoke(self, node: str, rpc: AnyRpc, body: bytes, kind: type[R]) -> R:
        [name] = self._named(node)
        operator = self.world.machines.machine(OPERATOR)
        async with plain_nursery() as nursery:
            client = RemotingClient(
                operator.network,
                nursery,
                clock=operator.clock,
                config=NetConfig(),
                release=Release.parse(self.spec.release),
                note=silent,
                handlers={},
            )
            address = self.addresses[name]
            reply = await client.invoke(address, rpc, body=body, timeout_ms=CALL_MS_MAX)
            client.close_all()
        return checked(name, reply, kind)
