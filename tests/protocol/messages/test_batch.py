"""Batches are read, written and made into records as in upstream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.messages.batch import (
    BadBatch,
    BatchMessage,
    decode_batch,
    encode_batch,
    with_batch_properties,
)
from rocketmq_emulator.protocol.messages.properties import decode_properties, encode_properties
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.messages.subscription import to_int32
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
TRAILING = {"4.9": False, "5.3": True}
MESSAGES = st.builds(
    BatchMessage,
    body=st.binary(max_size=50),
    properties=st.binary(max_size=50),
    flag=st.integers().map(to_int32),
)


def a_batch(messages: list[dict[str, Any]], line: str) -> bytes:
    return encode_batch(
        BatchMessage(
            bytes.fromhex(one["body"]),
            encode_properties(one["properties"], trailing=TRAILING[line]),
            one["flag"],
        )
        for one in messages
    )


@pytest.mark.parametrize("line", LINES)
def test_a_batch_is_written_and_read_as_upstream_s(line: str) -> None:
    for case in cases("message.jsonl", "batch", line):
        data = bytes.fromhex(case["out"]["encoded"])
        assert a_batch(case["in"]["messages"], line) == data, case["id"]
        assert [
            {
                "flag": one.flag,
                "body": one.body.hex(),
                "properties": decode_properties(one.properties),
            }
            for one in decode_batch(data)
        ] == case["out"]["decoded"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_the_store_makes_the_same_records_of_a_batch(line: str) -> None:
    for case in cases("store.jsonl", "append_batch", line):
        assert a_batch(case["in"]["messages"], line).hex() == case["in"]["batch_body"]
        assert b"".join(records_of(case, line)).hex() == case["out"]["records"], case["id"]


def records_of(case: dict[str, Any], line: str) -> list[bytes]:
    given_, out = case["in"], case["out"]
    # The recorded order is that of a Java hash map; for these names it is alphabetical.
    shared = sorted(decode_properties(given_["properties_string"]).items())
    block = encode_properties(shared, trailing=TRAILING[line])
    records: list[bytes] = []
    for number, message in enumerate(decode_batch(bytes.fromhex(given_["batch_body"]))):
        record = encode_record(
            given_["topic"].encode(),
            message.body,
            with_batch_properties(message.properties, block),
            queue_id=given_["queue_id"],
            queue_offset=out["logics_offset"] + number,
            position=out["wrote_offset"] + sum(map(len, records)),
            flag=message.flag,
            sys_flag=given_["sys_flag"],
            born_ms=given_["born_timestamp"],
            born_host=packed(given_["born_host"]),
            store_ms=given_["store_timestamp"],
            store_host=packed(given_["store_host"]),
            reconsume_times=given_["reconsume_times"],
        )
        records.append(record)
    return records


def packed(host: dict[str, Any]) -> bytes:
    return bytes.fromhex(host["ip"]) + host["port"].to_bytes(4, "big")


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_what_is_written_is_read_back(messages: list[BatchMessage]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_batch_cut_inside_a_message_is_refused_whole(
    messages: list[BatchMessage], data: st.DataObject
) -> None:
    whole = encode_batch(messages)
    ends = {len(encode_batch(messages[:n])) for n in range(1, len(messages) + 1)}
    kept = data.draw(st.integers(0, len(whole) - 1).filter(lambda n: n not in ends))
    with pytest.raises(BadBatch):
        decode_batch(whole[:kept])


@given(st.binary(max_size=200))
def test_random_bytes_are_a_batch_or_refused(data: bytes) -> None:
    try:
        messages = decode_batch(data)
    except BadBatch:
        return
    assert messages


def test_a_size_that_does_not_add_up_is_refused() -> None:
    data = bytearray(encode_batch([BatchMessage(b"hi")]))
    data[3] += 1
    with pytest.raises(BadBatch, match="its size field is"):
        decode_batch(bytes(data))


def test_a_batch_of_too_many_is_refused() -> None:
    data = encode_batch([BatchMessage(b"hi")] * 4)
    assert len(decode_batch(data, messages_max=4)) == 4
    with pytest.raises(BadBatch, match="more than 3"):
        decode_batch(data, messages_max=3)


def test_properties_too_long_for_their_length_are_not_written() -> None:
    with pytest.raises(ValueError, match="32767"):
        encode_batch([BatchMessage(b"", b"p" * 32768)])


def test_a_shared_block_is_separated_only_where_needed() -> None:
    assert with_batch_properties(b"", b"a\x01b") == b"a\x01b"
    assert with_batch_properties(b"a\x01b", b"") == b"a\x01b"
    assert with_batch_properties(b"a\x01b", b"c\x01d") == with_batch_properties(
        b"a\x01b\x02", b"c\x01d"
    )
