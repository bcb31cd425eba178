"""A message is prepared for a send: checks, unique key, compression."""

from __future__ import annotations

import zlib

import pytest

from rocketmq_emulator.client.producer.outgoing_message import prepare, prepare_batch
from rocketmq_emulator.client.producer.publish_info import by_hash, hash_code
from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.errors.call_errors import MessageIllegal
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.messages import properties
from rocketmq_emulator.protocol.messages.batch import decode_batch
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.golden_data import cases

LIMIT = 4 * 1024 * 1024


def a_config(**settings) -> ProducerConfig:
    return ProducerConfig(**{"group": "pg", **settings})


def some_keys():
    return iter(f"KEY-{n}" for n in range(1, 100)).__next__


def test_client_invariant_22_compression_begins_at_4096_bytes() -> None:
    small = prepare(Message("t", b"x" * 4095), a_config(), some_keys())
    assert (small.body, small.sys_flag) == (b"x" * 4095, 0)
    large = prepare(Message("t", b"x" * 4096), a_config(), some_keys())
    assert zlib.decompress(large.body) == b"x" * 4096
    assert large.sys_flag == flags.COMPRESSED | flags.ZLIB


def test_before_4_9_4_the_flag_does_not_name_the_compression() -> None:
    old = prepare(Message("t", b"x" * 4096), a_config(release="4.9.3"), some_keys())
    assert old.sys_flag == flags.COMPRESSED


def test_client_invariant_22_a_body_of_exactly_4_mib_passes() -> None:
    assert prepare(Message("t", bytes(LIMIT)), a_config(), some_keys()).uniq_keys
    with pytest.raises(MessageIllegal) as caught:
        prepare(Message("t", bytes(LIMIT + 1)), a_config(), some_keys())
    assert caught.value.code == 13
    assert not caught.value.maybe_stored


@pytest.mark.parametrize(
    ("topic", "body"),
    [("", b"x"), (" ", b"x"), ("a" * 128, b"x"), ("a.b", b"x"), ("t", b"")],
)
def test_what_no_broker_would_take_is_refused_here(topic, body) -> None:
    with pytest.raises(MessageIllegal):
        prepare(Message(topic, body), a_config(), some_keys())


def test_the_topics_of_the_system_are_not_sent_to() -> None:
    for case in cases("ids.jsonl", "name"):
        if case["out"]["not_allowed_send"]:
            with pytest.raises(MessageIllegal, match="forbidden"):
                prepare(Message(case["in"]["name"], b"x"), a_config(), some_keys())


def test_client_invariant_23_a_message_keeps_its_first_key() -> None:
    message, new_key = Message("t", b"x"), some_keys()
    assert prepare(message, a_config(), new_key).uniq_keys == ("KEY-1",)
    assert prepare(message, a_config(), new_key).uniq_keys == ("KEY-1",)
    assert message.uniq_key == "KEY-1"


@pytest.mark.parametrize(
    ("release", "ends"), [("4.9.0", True), ("4.9.1", False), ("5.1.4", False), ("5.2.0", True)]
)
def test_the_last_property_is_ended_in_some_releases(release, ends) -> None:
    text = prepare(Message("t", b"x"), a_config(release=release), some_keys()).properties
    assert text.endswith("\x02") is ends


def test_a_message_to_a_retry_topic_has_its_count_in_the_header() -> None:
    message = Message(
        "%RETRY%g",
        b"x",
        properties={properties.RECONSUME_TIME: "3", properties.MAX_RECONSUME_TIMES: "16"},
    )
    outgoing = prepare(message, a_config(), some_keys())
    header = outgoing.header(a_config(), MessageQueue("%RETRY%g", "b", 0), 5)
    assert (header.reconsume_times, header.max_reconsume_times) == (3, 16)
    assert properties.RECONSUME_TIME not in message.properties


def test_a_half_message_is_flagged_as_prepared() -> None:
    message = Message("t", b"x", properties={properties.TRAN_MSG: "true"})
    assert prepare(message, a_config(), some_keys()).sys_flag == flags.TRANSACTION_PREPARED


def test_a_batch_is_one_body_of_many_keyed_messages() -> None:
    messages = [Message("t", b"%d" % n * 5000, tags="A") for n in range(3)]
    outgoing = prepare_batch(messages, a_config(), some_keys())
    assert outgoing.is_batch
    assert outgoing.sys_flag == 0
    assert outgoing.msg_id == "KEY-1,KEY-2,KEY-3"
    assert outgoing.properties == "WAIT\x01true"
    found = decode_batch(outgoing.body)
    assert [part.body for part in found] == [message.body for message in messages]
    assert [properties.decode_properties(part.properties)["UNIQ_KEY"] for part in found] == [
        "KEY-1",
        "KEY-2",
        "KEY-3",
    ]


def test_from_5_0_a_batch_has_a_key_of_its_own() -> None:
    outgoing = prepare_batch([Message("t", b"x")], a_config(release="5.3.3"), some_keys())
    assert "UNIQ_KEY\x01KEY-2" in outgoing.properties


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("t", b"x"), Message("u", b"x")],
        [Message("t", b"x", delay_level=1)],
        [Message("t", b"x"), Message("t", b"x", wait_store_ok=False)],
        [Message("%RETRY%g", b"x")],
        [Message("t", bytes(LIMIT - 10)), Message("t", bytes(10))],
    ],
)
def test_what_makes_no_batch_is_refused(messages) -> None:
    with pytest.raises(MessageIllegal):
        prepare_batch(messages, a_config(), some_keys())


def test_texts_are_hashed_to_queues_as_java_does() -> None:
    for case in cases("ids.jsonl", "hash"):
        queues = [MessageQueue("t", "b", n) for n in range(case["in"]["queues"])]
        chosen = by_hash(queues, Message("t"), case["in"]["text"])
        assert chosen.queue_id == case["out"]["select_by_hash"], case["id"]


def test_numbers_are_hashed_to_queues_as_java_does() -> None:
    for case in cases("ids.jsonl", "select_by_hash_number"):
        queues = [MessageQueue("t", "b", n) for n in range(case["in"]["queues"])]
        number, value = case["in"]["int_value"], case["in"]["value"]
        assert by_hash(queues, Message("t"), number).queue_id == case["out"]["as_int"]
        if not -(2**31) <= value < 2**31:
            assert by_hash(queues, Message("t"), value).queue_id == case["out"]["as_long"]


def test_only_texts_and_numbers_have_a_hash_that_java_shares() -> None:
    with pytest.raises(TypeError):
        hash_code(1.5)
