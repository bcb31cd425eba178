"""Reply rules at a server, by raw frames: matching requests, effects, facts."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import HandlerFailed, ReplyRuleApplied, ReplyRuleRemoved, ReplyRuleSet
from rocketmq_emulator.net import reply_rules
from rocketmq_emulator.net.reply_rules import RULES_MAX, install_reply_rules
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    ProducerData,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import NO_EXT, ONE_WAY, RemotingCommand, encode_command
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import R_4_9_7
from tests.support.net.wired_server import Server

SEND, PULL, BEAT, LOCK, BACK = 310, 11, 34, 41, 36
SET, LIST, REMOVE = 9000, 9001, 9002
SEND_FIELDS = {"a": "shop", "b": "orders", "c": "T", "d": "4", "e": "0", "f": "0", "g": "0"}
SEND_FIELDS |= {"h": "0"}
PULL_FIELDS = dict.fromkeys(
    ("queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion"), "0"
)
PULL_FIELDS |= {"topic": "orders", "consumerGroup": "billing", "suspendTimeoutMillis": "0"}
BACK_FIELDS = {"offset": "0", "group": "billing", "delayLevel": "0", "originTopic": "orders"}


def heartbeat(client_id: str) -> bytes:
    consumer: Any = ConsumerData(
        group_name="billing",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=[build_subscription("orders", "*")],
    )
    data = HeartbeatData(
        client_id=client_id,
        consumer_data_set=[consumer],
        producer_data_set=[ProducerData(group_name="shop")],
    )
    return encode_body(data, R_4_9_7)


def lock() -> bytes:
    queue = MessageQueue("orders", "broker-a", 0)
    body = LockBatchRequestBody(consumer_group="billing", client_id="c1", mq_set=[queue])
    return encode_body(body, R_4_9_7)


REQUESTS: dict[int, tuple[dict[str, str], bytes]] = {
    SEND: (SEND_FIELDS, b"x"),
    PULL: (PULL_FIELDS, b""),
    BEAT: ({}, heartbeat("c1")),
    LOCK: ({}, lock()),
    BACK: (BACK_FIELDS, b""),
}


class RuledServer(Server):
    """Answers some calls with 0, and applies reply rules; ``handled`` has their codes."""

    def __init__(self, *, allowed: bool = True) -> None:
        super().__init__()
        self.handled: list[int] = []
        calls = (
            catalog.SEND_MESSAGE_V2,
            catalog.PULL_MESSAGE,
            catalog.HEART_BEAT,
            catalog.LOCK_BATCH_MQ,
            catalog.CONSUMER_SEND_MSG_BACK,
        )
        self.remoting.handlers = {call.code: (call, self.handle) for call in calls}
        install_reply_rules(self.remoting, allowed=allowed, rng=random.Random(1))
        self._opaque = 0

    def handle(self, call: Call) -> Result:
        self.handled.append(call.command.code)
        if call.command.code == BEAT:
            call.peer.client_id = "c1"
        return Reply()

    def ask(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", flag: int = 0
    ) -> RemotingCommand | None:
        """Send a raw frame; returns the reply if it came at once."""
        self._opaque += 1
        ext = NO_EXT if not fields else msgspec.Raw(msgspec.json.encode(fields))
        command = RemotingCommand(code=code, opaque=self._opaque, flag=flag, ext=ext, body=body)
        self.connection.feed(encode_command(command))
        return self.answer(self._opaque)

    def answer(self, opaque: int | None = None) -> RemotingCommand | None:
        wanted = opaque or self._opaque
        return next((a for a in self.wire.commands() if a.opaque == wanted), None)

    def call(self, code: int) -> int | None:
        """Send a valid request of *code*; returns the response code if it came at once."""
        answer = self.ask(code, *REQUESTS[code])
        return None if answer is None else answer.code

    def set(self, **rule: Any) -> int:
        answer = self.ask(SET, body=msgspec.json.encode(rule))
        assert answer is not None
        assert answer.code == 0, answer.remark
        return msgspec.json.decode(answer.body)["rule_id"]

    def rules(self) -> list[dict[str, Any]]:
        answer = self.ask(LIST)
        assert answer is not None
        return msgspec.json.decode(answer.body)["rules"]


async def test_a_counted_rule_answers_so_many_requests_and_ends() -> None:
    server = RuledServer()
    rule = {"code": SEND, "count": 3, "error_code": 2, "remark": "[TIMEOUT_CLEAN_QUEUE]"}
    assert server.set(**rule) == 1
    assert [server.call(SEND) for _ in range(4)] == [2, 2, 2, 0]
    assert server.handled == [SEND]
    assert server.said(ReplyRuleSet) == [
        ReplyRuleSet(1, msgspec.json.encode(rule).decode(), "10.0.0.2:40001")
    ]
    applied = ReplyRuleApplied(1, "10.0.0.2:40001", SEND, "error")
    assert server.said(ReplyRuleApplied) == [applied] * 3
    assert server.said(ReplyRuleRemoved) == [ReplyRuleRemoved(1, "count reached", 3)]
    assert server.remoting.chain.links == (), "without rules there is no link"


async def test_rules_are_listed_with_what_they_did_and_removed_by_id_or_all() -> None:
    server = RuledServer()
    for rule in (
        {"code": SEND, "count": 9, "error_code": 2},
        {"no_answer": True},
        {"delay_ms": 1},
    ):
        server.set(**rule)
    server.call(SEND)
    assert server.rules()[:2] == [
        {
            "rule_id": 1,
            "applied_count": 1,
            "left_count": 8,
            "rule": {"code": SEND, "count": 9, "error_code": 2},
        },
        {"rule_id": 2, "applied_count": 0, "left_count": None, "rule": {"no_answer": True}},
    ]
    removed = server.ask(REMOVE, body=b'{"rule_id": 2}')
    assert removed is not None
    assert removed.body == b'{"rule_ids":[2]}'
    assert server.ask(REMOVE, body=b'{"rule_id": 2}').body == b'{"rule_ids":[]}'
    assert server.ask(REMOVE).body == b'{"rule_ids":[1,3]}'
    assert server.rules() == []
    assert [(f.rule_id, f.reason) for f in server.said(ReplyRuleRemoved)] == [
        (2, "asked"),
        (1, "asked"),
        (3, "asked"),
    ]


async def test_the_first_rule_that_matches_decides() -> None:
    server = RuledServer()
    server.set(code=SEND, count=1, error_code=14)
    server.set(error_code=2)
    assert [server.call(SEND), server.call(SEND), server.call(PULL)] == [14, 2, 2]


@pytest.mark.parametrize(
    ("rule", "matched"),
    [
        ({"topic": "orders"}, [SEND, PULL, BEAT, LOCK, BACK]),
        ({"topic": "others"}, []),
        ({"group": "billing"}, [PULL, BEAT, LOCK, BACK]),
        ({"group": "shop"}, [SEND, BEAT]),
        ({"group": "shop", "topic": "others"}, []),
        ({"code": PULL, "topic": "orders", "group": "billing"}, [PULL]),
        ({"client_id": "c1"}, [BEAT, LOCK]),
        ({"client_id": "c2"}, []),
    ],
    ids=str,
)
async def test_a_rule_matches_what_a_request_is_about(
    rule: dict[str, Any], matched: list[int]
) -> None:
    server = RuledServer()
    server.set(**rule, error_code=2)
    assert [code for code in REQUESTS if server.call(code) == 2] == matched


async def test_after_its_heartbeat_a_client_is_known_in_all_it_sends() -> None:
    server = RuledServer()
    server.set(client_id="c1", code=SEND, error_code=2)
    assert server.call(SEND) == 0
    server.call(BEAT)
    assert server.call(SEND) == 2


async def test_a_body_that_names_a_client_and_cannot_be_read_matches_no_client() -> None:
    server = RuledServer()
    server.set(client_id="c1", error_code=2)
    answer = server.ask(BEAT, body=b"{{{")
    assert answer is not None
    assert answer.code == 0
    assert server.said(HandlerFailed) == []


async def test_probability_is_how_often_a_rule_applies_on_average() -> None:
    server = RuledServer()
    server.set(probability=0.25, error_code=2)
    codes = [server.call(SEND) for _ in range(1_000)]
    assert 200 <= codes.count(2) <= 300
    assert server.rules()[0]["applied_count"] == codes.count(2)


async def test_a_delayed_request_goes_on_to_its_handler(autojump_clock: MockClock) -> None:
    server = RuledServer()
    server.set(code=PULL, delay_ms=700)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        assert server.call(PULL) is None
        await trio.sleep(0.699)
        assert server.handled == []
        await trio.sleep(0.002)
        assert server.handled == [PULL]
        assert server.answer() is not None
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ({"error_code": 2}, "delay, error"),
        ({"no_answer": True}, "delay, no answer"),
        ({"cut_connection": True}, "delay, cut"),
    ],
)
async def test_a_delay_may_end_in_another_verdict(
    verdict: dict[str, Any], words: str, autojump_clock: MockClock
) -> None:
    server = RuledServer()
    server.set(code=SEND, delay_ms=50, **verdict)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.call(SEND)
        await trio.sleep(0.049)
        assert server.wire.is_open
        await trio.sleep(0.002)
        answer = server.answer()
        assert (answer is not None) == ("error_code" in verdict)
        assert server.wire.is_open == ("cut_connection" not in verdict)
        assert server.handled == []
        assert [fact.verdict for fact in server.said(ReplyRuleApplied)] == [words]
        nursery.cancel_scope.cancel()


async def test_a_count_is_used_up_when_a_delay_begins(autojump_clock: MockClock) -> None:
    server = RuledServer()
    server.set(code=SEND, delay_ms=50, count=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        assert server.call(SEND) is None
        assert server.rules() == []
        assert server.call(SEND) == 0
        assert server.handled == [SEND]
        await trio.sleep(0.051)
        assert server.handled == [SEND, SEND]
        nursery.cancel_scope.cancel()


async def test_a_cut_lets_what_was_answered_before_leave_first() -> None:
    server = RuledServer()
    server.set(code=BEAT, cut_connection=True)
    fields = msgspec.Raw(msgspec.json.encode(SEND_FIELDS))
    send = encode_command(RemotingCommand(code=SEND, opaque=50, ext=fields, body=b"x"))
    beat = encode_command(RemotingCommand(code=BEAT, opaque=51, body=heartbeat("c1")))
    late = encode_command(RemotingCommand(code=SEND, opaque=52, ext=fields, body=b"x"))
    server.connection.feed(send + beat + late)
    assert server.handled == [SEND]
    assert [a.opaque for a in server.wire.commands()][1:] == [50]
    assert not server.wire.is_open


async def test_one_way_requests_obey_too() -> None:
    server = RuledServer()
    server.set(code=SEND, no_answer=True)
    assert server.ask(SEND, SEND_FIELDS, b"x", ONE_WAY) is None
    assert server.handled == []


async def test_no_rule_matches_the_calls_that_manage_rules() -> None:
    server = RuledServer()
    server.set(cut_connection=True)
    assert len(server.rules()) == 1
    assert server.ask(REMOVE).code == 0
    assert server.call(SEND) == 0


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"probability": 2, "no_answer": true}', "probability"),
        (b'{"delay_ms": -5}', "delay_ms"),
        (b'{"code": 12345, "no_answer": true}', "code 12345"),
        (b'{"code": 9000, "no_answer": true}', "code 9000"),
        (b'{"codes": 310, "no_answer": true}', "codes"),
    ],
)
async def test_a_bad_rule_is_refused_with_the_field_s_name(body: bytes, name: str) -> None:
    server = RuledServer()
    answer = server.ask(SET, body=body)
    assert answer is not None
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert name in (answer.remark or "")
    assert server.rules() == []
    assert server.said(ReplyRuleSet) == []


@pytest.mark.parametrize("code", [SET, LIST, REMOVE])
async def test_a_server_that_does_not_allow_rules_names_the_setting(code: int) -> None:
    server = RuledServer(allowed=False)
    answer = server.ask(code, body=b'{"no_answer": true}' if code == SET else b"")
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "reply_rules_allowed" in (answer.remark or "")
    assert server.call(SEND) == 0


async def test_there_is_room_for_a_thousand_rules() -> None:
    server = RuledServer()
    for _ in range(RULES_MAX):
        server.set(code=PULL, no_answer=True)
    assert server.ask(SET, body=b'{"no_answer": true}').code == ResponseCode.SYSTEM_BUSY


async def test_there_is_a_limit_to_requests_that_are_delayed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(reply_rules, "DELAYED_MAX", 2)
    server = RuledServer()
    server.set(code=SEND, delay_ms=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        assert [server.call(SEND) for _ in range(3)] == [None, None, ResponseCode.SYSTEM_BUSY]
        await trio.sleep(0.2)
        assert server.handled == [SEND, SEND]
        assert server.call(SEND) is None, "there is room again"
        nursery.cancel_scope.cancel()
