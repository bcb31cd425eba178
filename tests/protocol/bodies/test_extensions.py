"""Reply rules as values: an error has the name of the wrong field."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.protocol.bodies.extensions import (
    MisuseView,
    RemoveReplyRule,
    ReplyRule,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse

BUSY = {"error_code": ResponseCode.SYSTEM_BUSY}
BAD = [
    ({"probability": 2, **BUSY}, "probability"),
    ({"probability": -0.1, **BUSY}, "probability"),
    ({"delay_ms": -1}, "delay_ms"),
    ({"delay_ms": 3_600_001}, "delay_ms"),
    ({"code": 9, **BUSY}, "code 9 "),
    ({"code": RequestCode.SET_REPLY_RULE, **BUSY}, "code 9000"),
    ({"code": 9_999, **BUSY}, "code 9999"),
    ({"topic": "", **BUSY}, "topic"),
    ({"group": "g" * 256, **BUSY}, "group"),
    ({"client_id": "", **BUSY}, "client_id"),
    ({"count": 0, **BUSY}, "count"),
    ({"error_code": 0}, "error_code"),
    ({"error_code": 2**31}, "error_code"),
    ({"remark": "why", "delay_ms": 1}, "remark"),
    ({"remark": "y" * 256, **BUSY}, "remark"),
    ({"no_answer": True, "cut_connection": True}, "no_answer and cut_connection"),
    ({"no_answer": True, **BUSY}, "error_code, no_answer"),
    ({"code": RequestCode.HEART_BEAT}, "verdict"),
]


@pytest.mark.parametrize(("fields", "name"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_rule_is_refused_with_the_field_s_name(fields, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ReplyRule(**fields)
    with pytest.raises(BadFields, match=name):
        decode_extension_body(msgspec.json.encode(fields), ReplyRule)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'{"probability": "high", "no_answer": true}', "probability"),
        (b'{"delayMs": 5}', "delayMs"),
        (b'{"code": 1.5, "no_answer": true}', "code"),
        (b"[]", "ReplyRule"),
        (b'{"remark": "\xff"}', "ReplyRule"),
        (b"{", "ReplyRule"),
    ],
)
def test_a_body_that_is_no_rule_is_refused(text: bytes, name: str) -> None:
    with pytest.raises(BadFields, match=name):
        decode_extension_body(text, ReplyRule)


def test_codes_may_be_given_by_their_names() -> None:
    named = ReplyRule(code="SEND_MESSAGE_V2", error_code="SYSTEM_BUSY")
    assert named == ReplyRule(code=310, error_code=2)
    assert encode_extension_body(named) == b'{"code":310,"error_code":2}'
    body = b'{"code":"pull_message","error_code":"PULL_NOT_FOUND"}'
    assert decode_extension_body(body, ReplyRule) == ReplyRule(code=11, error_code=19)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"code": "SEND_MESAGE_V2", **BUSY}, "'SEND_MESAGE_V2' is no request of RocketMQ; did"),
        ({"error_code": "BUSY_SYSTEM"}, "'BUSY_SYSTEM' is no response of RocketMQ"),
        ({"error_code": "SUCCESS"}, "error_code is the code of an error"),
        ({"code": "SET_REPLY_RULE", **BUSY}, "code 9000 manages rules"),
        ({"eror_code": 2}, "there is no field eror_code; did you mean error_code?"),
        ({"zzz": 2}, "there is no field zzz; there are code, topic, group"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_the_nearest(fields, text: str) -> None:
    with pytest.raises(BadFields) as error:
        decode_extension_body(msgspec.json.encode(fields), ReplyRule)
    assert text in str(error.value)


def test_a_rule_survives_the_wire_and_leaves_defaults_out() -> None:
    rule = ReplyRule(code=310, topic="orders", count=5, delay_ms=7, error_code=2, remark="busy")
    text = encode_extension_body(rule)
    assert decode_extension_body(text, ReplyRule) == rule
    assert b"probability" not in text


def test_no_body_at_all_means_all_rules() -> None:
    assert decode_extension_body(b"", RemoveReplyRule).rule_id is None


def test_a_delay_goes_with_any_other_verdict() -> None:
    for other in ({"no_answer": True}, {"cut_connection": True}, BUSY):
        assert ReplyRule(delay_ms=1, **other).verdicts[0] == "delay"
        assert len(ReplyRule(delay_ms=1, **other).verdicts) == 2


def test_the_detail_of_a_misuse_can_be_read_without_its_sentence() -> None:
    found = FoundMisuse("topic_nobody_made", "c", "g", "ordrs", " (did you mean orders?)")
    view = MisuseView.of(found)
    assert view.detail == "(did you mean orders?)"
    assert "does not exist (did you mean orders?): it gets" in view.text
