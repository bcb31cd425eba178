"""Headers of sends have the same bytes with templates as without."""

from __future__ import annotations

import pytest

from rocketmq_emulator.client.producer import outgoing_message
from rocketmq_emulator.client.producer.outgoing_message import OutgoingMessage, SendHeaders
from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    encode_command,
    encode_request,
    ext_of,
)
from rocketmq_emulator.protocol.queues import MessageQueue

CONFIG = ProducerConfig(group='odd "g":"0" group', namesrv="n:1")
QUEUES = [MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1), MessageQueue("%t")]


def a_message(**fields) -> OutgoingMessage:
    return OutgoingMessage(
        **{"topic": "t", "body": b"x", "properties": "", "uniq_keys": ("K",)} | fields
    )


@pytest.mark.parametrize(
    "message",
    [
        a_message(),
        a_message(properties="WAIT\x01true\x02UNIQ_KEY\x01K"),
        a_message(properties='quoted "i":"" and 100 %d'),
        a_message(properties="\x1f\x7f\u2028 é \ud800"),
        a_message(topic='"i":""', flag=7, sys_flag=4),
        a_message(topic="%RETRY%g", reconsume_times=3, max_reconsume_times=0),
        a_message(topic="%RETRY%g", reconsume_times=3, max_reconsume_times=16),
        a_message(is_batch=True),
    ],
    ids=repr,
)
def test_a_header_from_a_template_is_the_header(message: OutgoingMessage) -> None:
    headers = SendHeaders(CONFIG)
    for _ in ("made now", "found again"):
        for queue in QUEUES:
            for born_ms in (0, 1_700_000_000_123):
                whole = ext_of(message.header(CONFIG, queue, born_ms))
                assert headers.text(message, queue, born_ms) == whole


def test_a_producer_of_many_topics_does_not_keep_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing_message, "TEMPLATES_MAX", 2)
    headers = SendHeaders(CONFIG)
    for number in (0, 1, 2, 3, 0):
        message, queue = a_message(topic=f"t{number}"), MessageQueue(f"t{number}", "b", 0)
        assert headers.text(message, queue, 5) == ext_of(message.header(CONFIG, queue, 5))
        assert len(headers._templates) <= 2


def test_a_request_is_the_same_frame_as_its_command() -> None:
    ext = ext_of(None, {"a": "1"})
    for fields in (
        {"ext": ext, "flag": 2},
        {"ext": ext_of(None), "flag": 0},
        {"ext": ext, "flag": 0, "language": "PYTHON"},
    ):
        command = RemotingCommand(code=310, opaque=7, version=407, body=b"body", **fields)
        frame = encode_request(code=310, opaque=7, version=407, body=b"body", **fields)
        assert frame == encode_command(command)
