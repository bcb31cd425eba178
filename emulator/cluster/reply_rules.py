"""Reply rules from Python: codes 9000 to 9002, sent to a node of a cluster.

    cluster.set_reply_rule("broker-a", ReplyRule(code=310, count=5, error_code=2))

Every world has these verbs.  Where nodes listen on real ports each call has a socket of its
own and blocks; in the virtual world it comes from a machine of its own, ``operator``, over
that machine's links: it takes the time that links take, and a link rule can cut it off.

Worlds import this file at the first such call, because it loads the catalog of all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from emulator.cluster.blocking_calls import CALL_MS_MAX, call_all_blocking, call_blocking
from emulator.cluster.durations import milliseconds
from emulator.config import NetConfig
from emulator.journal import silent
from emulator.net.plain_nursery import plain_nursery
from emulator.net.remoting_client import RemotingClient
from emulator.releases import Release
from protocol import catalog
from protocol.bodies.own import (
    AdvancedTime,
    AdvanceTime,
    ClockSkew,
    decode_own_body,
    encode_own_body,
)
from protocol.bodies.pools import BusyPool, BusyPoolState
from protocol.bodies.reply_rules import (
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    ReplyRuleState,
)
from protocol.codes import ResponseCode
from protocol.command import RemotingCommand, ext_of
from protocol.fields import Header
from protocol.rpc import AnyRpc

if TYPE_CHECKING:
    from emulator.sim.machines import Machine

R = TypeVar("R")


class ReplyRuleRefused(Exception):
    """A node does not take the rule or the clock, or allows none; the text says why."""

    def __init__(self, node: str, code: int, remark: str) -> None:
        super().__init__(f"{node}: {remark}")
        self.code = code


class RuleCall(NamedTuple, Generic[R]):
    """One call to a server; ``result`` reads the body of its reply."""

    rpc: AnyRpc
    body: bytes
    result: Callable[[bytes], R]
    header: Header | None = None


def set_rule(rule: ReplyRule) -> RuleCall[int]:
    """The rule's id at that node."""
    body = encode_own_body(rule)
    return RuleCall(
        catalog.SET_REPLY_RULE, body, lambda data: decode_own_body(data, ReplyRuleId).rule_id
    )


def list_rules() -> RuleCall[tuple[ReplyRuleState, ...]]:
    """The rules that hold, in the order in which they are asked."""
    return RuleCall(
        catalog.LIST_REPLY_RULES, b"", lambda data: decode_own_body(data, ReplyRuleList).rules
    )


def remove_rule(rule_id: int | None) -> RuleCall[tuple[int, ...]]:
    """One rule, or all; the ids of those that held until now."""
    body = encode_own_body(RemoveReplyRule(rule_id=rule_id))
    return RuleCall(
        catalog.REMOVE_REPLY_RULE,
        body,
        lambda data: decode_own_body(data, RemovedReplyRules).rule_ids,
    )


def set_busy_pool(pool: BusyPool) -> RuleCall[BusyPoolState]:
    """No rule either: how slowly a broker works on some requests; what it did until now."""
    return RuleCall(
        catalog.SET_BUSY_POOL,
        encode_own_body(pool),
        lambda data: decode_own_body(data, BusyPoolState),
    )


def set_clock_skew(ms: int, drift_ppm: int = 0, since_ms: int = 0) -> RuleCall[None]:
    """No rule, but a call of our own as well: the node's wall clock is wrong by so much."""
    body = ClockSkew(ms=ms, drift_ppm=drift_ppm, since_ms=since_ms)
    return RuleCall(catalog.SET_CLOCK_SKEW, encode_own_body(body), lambda _: None)


def reset_server() -> RuleCall[None]:
    """No rule either: the node is as if it had just started, but for its connections."""
    return RuleCall(catalog.RESET_SERVER, b"", lambda _: None)


def advance_time(time: str | int) -> RuleCall[AdvancedTime]:
    """No rule either: messages that wait for their time come so much earlier."""
    ms = time if isinstance(time, int) else milliseconds(time)
    body = encode_own_body(AdvanceTime(ms=ms))
    return RuleCall(catalog.ADVANCE_TIME, body, lambda data: decode_own_body(data, AdvancedTime))


def ask_blocking(node: str, address: str, call: RuleCall[R]) -> R:
    """Over TCP.  Raises ``ReplyRuleRefused``, and ``OSError`` when nobody answers there."""
    ext = ext_of(call.header)
    request = RemotingCommand(code=call.rpc.code, opaque=1, ext=ext, body=call.body)
    return _result(node, call_blocking(address, request), call)


def ask_all_blocking(nodes: Mapping[str, str], call: RuleCall[R]) -> list[R]:
    """The same of several nodes, addresses by name, at the same time; raises the same."""
    request = RemotingCommand(code=call.rpc.code, opaque=1, body=call.body)
    replies = call_all_blocking(nodes.values(), request)
    return [_result(node, reply, call) for node, reply in zip(nodes, replies, strict=True)]


async def call_from(
    operator: Machine, node: str, address: str, call: RuleCall[R], release: str
) -> R:
    """From a virtual machine.  Raises ``ReplyRuleRefused`` and ``RemoteError``."""
    async with plain_nursery() as nursery:
        client = RemotingClient(
            operator.network,
            nursery,
            clock=operator.clock,
            config=NetConfig(),
            release=Release.parse(release),
            note=silent,
            handlers={},
        )
        reply = await client.invoke(
            address, call.rpc, call.header, call.body, timeout_ms=CALL_MS_MAX
        )
        client.close_all()
    return _result(node, reply, call)


def _result(node: str, reply: RemotingCommand, call: RuleCall[R]) -> R:
    if reply.code != ResponseCode.SUCCESS:
        raise ReplyRuleRefused(node, reply.code, reply.remark or "no reason given")
    return call.result(reply.body)
