"""Reply rules from Python: codes 9000 to 9002, sent to a node of a cluster.

    cluster.set_reply_rule("broker-a", ReplyRule(code=310, count=5, error_code=2))

Every world has these verbs.  If nodes listen on real ports, each call opens its own socket and
blocks.  In the virtual world the machine ``operator`` makes the calls, over its own links:
they delay the call, and a link rule can cut it off.

Worlds import this file at the first such call, because it loads the catalog of all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from rocketmq_emulator.net.blocking_calls import CALL_MS_MAX, call_all_blocking, call_blocking
from rocketmq_emulator.net.remoting_client import tool_connections
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import (
    AdvanceTime,
    AdvanceTimeReply,
    AdvertisedAddress,
    BrokerOverview,
    BusyPool,
    BusyPoolState,
    ClockSkew,
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    ReplyRuleState,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.error_families import RefusedByServer, public
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.text.values import parse_duration_ms

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import WallClock
    from rocketmq_emulator.net.transport import Network
    from rocketmq_emulator.protocol.bodies.topics import TopicConfig

R = TypeVar("R")


@public
class ReplyRuleRefused(RefusedByServer):
    """A node refused a reply rule or a wrong clock, or allows none; the text gives the reason."""

    def __init__(self, node: str, code: int, remark: str) -> None:
        super().__init__(f"{node}: {remark}")
        self.code = code


class ServerCall(NamedTuple, Generic[R]):
    """One call to a server; ``result`` reads the body of its reply."""

    rpc: AnyRpc
    body: bytes
    result: Callable[[bytes], R]
    header: Header | None = None


class Operator(Protocol):
    """The machine that makes a call."""

    @property
    def network(self) -> Network:
        """The network that it connects through."""
        ...

    @property
    def clock(self) -> WallClock:
        """The clock that its timeouts use."""
        ...


def set_rule(rule: ReplyRule) -> ServerCall[int]:
    """Add *rule*; the result is its id at that node."""
    body = encode_extension_body(rule)
    return ServerCall(
        catalog.SET_REPLY_RULE, body, lambda data: decode_extension_body(data, ReplyRuleId).rule_id
    )


def list_rules() -> ServerCall[tuple[ReplyRuleState, ...]]:
    """The rules that hold, in the order in which they are applied."""
    return ServerCall(
        catalog.LIST_REPLY_RULES,
        b"",
        lambda data: decode_extension_body(data, ReplyRuleList).rules,
    )


def remove_rule(rule_id: int | None) -> ServerCall[tuple[int, ...]]:
    """Remove one rule, or all (None); the result is the ids of the rules removed."""
    body = encode_extension_body(RemoveReplyRule(rule_id=rule_id))
    return ServerCall(
        catalog.REMOVE_REPLY_RULE,
        body,
        lambda data: decode_extension_body(data, RemovedReplyRules).rule_ids,
    )


def set_busy_pool(pool: BusyPool) -> ServerCall[BusyPoolState]:
    """Limit how fast a broker handles a pool's requests; the result is the state before."""
    return ServerCall(
        catalog.SET_BUSY_POOL,
        encode_extension_body(pool),
        lambda data: decode_extension_body(data, BusyPoolState),
    )


def set_clock_skew(ms: int, drift_ppm: int = 0, since_ms: int = 0) -> ServerCall[None]:
    """Make the node's wall clock wrong by *ms*, and by *drift_ppm* since *since_ms*."""
    body = ClockSkew(ms=ms, drift_ppm=drift_ppm, since_ms=since_ms)
    return ServerCall(catalog.SET_CLOCK_SKEW, encode_extension_body(body), lambda _: None)


def reset_server() -> ServerCall[None]:
    """Reset the node to its state after a start, except for its connections."""
    return ServerCall(catalog.RESET_SERVER, b"", lambda _: None)


def overview() -> ServerCall[BrokerOverview]:
    """The topics and groups of a broker, and the misuses that it has noticed."""
    return ServerCall(
        catalog.GET_BROKER_OVERVIEW,
        b"",
        lambda data: msgspec.json.decode(data, type=BrokerOverview),
    )


def advance_time(time: str | int) -> ServerCall[AdvanceTimeReply]:
    """Deliver delayed and timed messages *time* earlier ("10m", or ms)."""
    ms = time if isinstance(time, int) else parse_duration_ms(time)
    body = encode_extension_body(AdvanceTime(ms=ms))
    return ServerCall(
        catalog.ADVANCE_TIME, body, lambda data: decode_extension_body(data, AdvanceTimeReply)
    )


def put_topic(config: TopicConfig) -> ServerCall[None]:
    """Create or change a topic at a broker; answered when the broker has registered it."""
    header = CreateTopicRequest.of(config)
    return ServerCall(catalog.UPDATE_AND_CREATE_TOPIC, b"", lambda _: None, header)


def advertise_address(address: str, store_host: str) -> ServerCall[None]:
    """Make a broker register *address* for clients; *store_host* is the same with an IP."""
    body = AdvertisedAddress(address=address, store_host=store_host)
    return ServerCall(catalog.ADVERTISE_ADDRESS, encode_extension_body(body), lambda _: None)


def call_server_blocking(node: str, address: str, call: ServerCall[R]) -> R:
    """Carry out *call* over TCP.  Raises ``ReplyRuleRefused``; ``OSError`` without a reply."""
    ext = ext_of(call.header)
    request = RemotingCommand(code=call.rpc.code, opaque=1, ext=ext, body=call.body)
    return _result(node, call_blocking(address, request), call)


def call_servers_blocking(nodes: Mapping[str, str], call: ServerCall[R]) -> list[R]:
    """Carry out *call* at several *nodes* (addresses by name) at once; raises the same."""
    ext = ext_of(call.header)
    request = RemotingCommand(code=call.rpc.code, opaque=1, ext=ext, body=call.body)
    replies = call_all_blocking(nodes.values(), request)
    return [_result(node, reply, call) for node, reply in zip(nodes, replies, strict=True)]


async def call_from(
    operator: Operator, node: str, address: str, call: ServerCall[R], release: str
) -> R:
    """Carry out *call* from *operator*.  Raises ``ReplyRuleRefused`` and ``RemoteError``."""
    rules = Release.parse(release)
    async with tool_connections(operator.network, operator.clock, rules) as client:
        reply = await client.invoke(
            address, call.rpc, call.header, call.body, timeout_ms=CALL_MS_MAX
        )
    return _result(node, reply, call)


def _result(node: str, reply: RemotingCommand, call: ServerCall[R]) -> R:
    if reply.code != ResponseCode.SUCCESS:
        raise ReplyRuleRefused(node, reply.code, reply.remark or "no reason given")
    return call.result(reply.body)
