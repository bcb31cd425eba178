"""Reply rules from Python: codes 9000 to 9002, sent to a node of a cluster.

    cluster.set_reply_rule("broker-a", ReplyRule(code=310, count=5, error_code=2))

Every world has these verbs.  Here they are for those whose nodes listen on real ports:
each call has a socket of its own and blocks.  Rules live in a server's memory: a node that
restarts has none.
"""

from __future__ import annotations

import socket
from typing import TypeVar

from emulator.cluster.world import World
from protocol import catalog
from protocol.bodies.reply_rules import (
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    ReplyRuleState,
    decode_rule_body,
    encode_rule_body,
)
from protocol.codes import ResponseCode
from protocol.command import RemotingCommand, decode_command, encode_command
from protocol.framing import FrameDecoder
from protocol.rpc import AnyRpc

CALL_MS_MAX = 5_000

R = TypeVar("R", ReplyRuleId, ReplyRuleList, RemovedReplyRules)


class ReplyRuleRefused(Exception):
    """A node does not take the rule, or allows none; the text says why."""

    def __init__(self, node: str, code: int, remark: str) -> None:
        super().__init__(f"{node}: {remark}")
        self.code = code


class BlockingReplyRules(World[None]):
    """The verbs where nodes listen on real ports.

    They raise ``ReplyRuleRefused``, and ``OSError`` when nobody answers there.
    """

    def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        """Let *node* obey *rule* behind those it has; the rule's id at that node."""
        return self._invoke(
            node, catalog.SET_REPLY_RULE, encode_rule_body(rule), ReplyRuleId
        ).rule_id

    def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        """The rules that hold at *node*, in the order in which they are asked."""
        return self._invoke(node, catalog.LIST_REPLY_RULES, b"", ReplyRuleList).rules

    def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        """Remove one rule, or all; the ids of those that held until now."""
        body = encode_rule_body(RemoveReplyRule(rule_id=rule_id))
        return self._invoke(node, catalog.REMOVE_REPLY_RULE, body, RemovedReplyRules).rule_ids

    def _invoke(self, node: str, rpc: AnyRpc, body: bytes, kind: type[R]) -> R:
        [name] = self._named(node)
        host, _, port = self.addresses[name].rpartition(":")
        request = RemotingCommand(code=rpc.code, opaque=1, body=body)
        with socket.create_connection((host.strip("[]"), int(port)), CALL_MS_MAX / 1000) as line:
            line.sendall(encode_command(request))
            return checked(name, _read_reply(line), kind)


def _read_reply(line: socket.socket) -> RemotingCommand:
    decoder = FrameDecoder()
    while (frame := decoder.next_frame()) is None:
        data = line.recv(65_536)
        if not data:
            raise ConnectionResetError("the node closed the connection and did not answer")
        decoder.feed(data)
    return decode_command(frame)


def checked(node: str, reply: RemotingCommand, kind: type[R]) -> R:
    """The body of a reply to one of these calls.  Raises ``ReplyRuleRefused``."""
    if reply.code != ResponseCode.SUCCESS:
        raise ReplyRuleRefused(node, reply.code, reply.remark or "no reason given")
    return decode_rule_body(reply.body, kind)
