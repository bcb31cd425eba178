"""Records have the same bytes as in the real store, and the same messages are refused."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.messages.message_ids import host_bytes, host_text, offset_msg_id
from rocketmq_emulator.protocol.messages.records import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    BadRecord,
    StoredMessage,
    check_record,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
)
from rocketmq_emulator.protocol.messages.subscription import tag_code
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
ANY_INT = st.integers(-(2**31), 2**31 - 1)
ANY_LONG = st.integers(-(2**63), 2**63 - 1)
ANY_HOST = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)


def packed(host: dict[str, Any]) -> bytes:
    return bytes.fromhex(host["ip"]) + host["port"].to_bytes(4, "big")


def a_record(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "queue_id": 3,
        "queue_offset": 7,
        "position": 256,
        "born_ms": 1_700_000_000_000,
        "born_host": host_bytes("10.0.0.1:50000"),
        "store_ms": 1_700_000_000_001,
        "store_host": host_bytes("10.0.0.2:10911"),
    }
    parts = (changes.pop("topic", b"T"), changes.pop("body", b"hi"))
    return encode_record(*parts, changes.pop("properties", b"TAGS\x01A\x02"), **fields | changes)


def test_the_layout_field_by_field() -> None:
    assert a_record().hex(" ", -4).split() == [
        *("00000065", "daa320a7", "58932aac", "00000003", "00000000"),
        *("00000000", "00000007", "00000000", "00000100", "00000000"),
        *("0000018b", "cfe56800", "0a000001", "0000c350"),
        *("0000018b", "cfe56801", "0a000002", "00002a9f"),
        *("00000000", "00000000", "00000000", "00000002"),
        *("68690154", "00075441", "47530141", "02"),
    ]


@pytest.mark.parametrize("line", LINES)
def test_a_record_has_the_bytes_of_the_real_encoder(line: str) -> None:
    for case in cases("message.jsonl", "encode", line):
        given_, want = case["in"], case["out"]["encoded"]
        got = a_record(
            topic=given_["topic"].encode(),
            body=bytes.fromhex(given_["body"]),
            properties=given_["properties_string"].encode(),
            queue_id=given_["queue_id"],
            flag=given_["flag"],
            queue_offset=given_["queue_offset"],
            position=given_["commit_log_offset"],
            sys_flag=given_["sys_flag"],
            born_ms=given_["born_timestamp"],
            born_host=packed(given_["born_host"]),
            store_ms=given_["store_timestamp"],
            store_host=packed(given_["store_host"]),
            reconsume_times=given_["reconsume_times"],
            prepared_offset=given_["prepared_transaction_offset"],
        )
        if isinstance(want, str):
            assert got.hex() == want, case["id"]
        else:  # a store size of 1 made upstream's buffer too small; we ignore that size
            assert given_["store_size"] == 1


@pytest.mark.parametrize("line", LINES)
def test_a_record_is_read_as_the_real_decoder_reads_it(line: str) -> None:
    read = 0
    for case in cases("message.jsonl", "encode", line):
        if "decoded" not in case["out"]:
            continue
        want = case["out"]["decoded"]
        got = decode_record(bytes.fromhex(case["out"]["encoded"]))
        assert seen(got) == want | {"body": want["body"] or ""}
        read += 1
    assert read > 50


def seen(message: StoredMessage) -> dict[str, Any]:
    return {
        "store_size": message.size,
        "body_crc": message.body_crc,
        "queue_id": message.queue_id,
        "flag": message.flag,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.position,
        "sys_flag": message.sys_flag,
        "born_timestamp": message.born_ms,
        "born_host": host_seen(message.born_host),
        "store_timestamp": message.store_ms,
        "store_host": host_seen(message.store_host),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_offset,
        "body": message.body.hex(),
        "topic": message.topic,
        "properties": message.property_map(),
        "msg_id": offset_msg_id(message.store_host, message.position),
    }


def host_seen(host: bytes) -> dict[str, Any]:
    return {"ip": host[:-4].hex(), "port": int.from_bytes(host[-4:], "big")}


@pytest.mark.parametrize("line", LINES)
def test_a_damaged_pull_answer_loses_the_messages_that_upstream_loses(line: str) -> None:
    for case in cases("message.jsonl", "decodes", line):
        got = decode_records(bytes.fromhex(case["in"]["bytes"]), magic_matters=line != "4.9")
        want = case["out"]["messages"]
        assert len(got) == len(want), case["id"]
        for message, whole in zip(got, want, strict=True):
            assert message.topic == whole["topic"]
            assert message.body.hex() == (whole["body"] or "")
            assert message.size == whole["store_size"]
            assert message.property_map() == whole["properties"]


@pytest.mark.parametrize("line", LINES)
def test_the_store_writes_the_same_record_and_dispatches_it_alike(line: str) -> None:
    for case in cases("store.jsonl", "append", line):
        for result in case["out"]["results"]:
            if result["status"] != "PUT_OK":
                continue
            record, want = bytes.fromhex(result["record"]), result["dispatch"]
            message = decode_record(record)
            properties = message.property_map()
            assert again(message) == record
            assert check_record(record, 0, len(record)) == want["msg_size"] == len(record)
            assert message.topic == want["topic"]
            assert message.position == want["commit_log_offset"]
            assert properties.get("KEYS") == (want["keys"] or None)
            assert properties.get("UNIQ_KEY") == want["uniq_key"]
            assert offset_msg_id(message.store_host, message.position) == result["msg_id"]
            if "DELAY" not in properties:
                assert tag_code(properties.get("TAGS")) == want["tags_code"]


def again(message: StoredMessage) -> bytes:
    return encode_record(
        message.topic.encode(),
        message.body,
        message.properties,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        position=message.position,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=message.born_host,
        store_ms=message.store_ms,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )


@pytest.mark.parametrize("line", LINES)
def test_the_end_of_a_full_file_is_marked_blank(line: str) -> None:
    for case in cases("store.jsonl", "append", line):
        for file in case["out"]["files"]:
            if (blank := file["blank"]) is not None:
                mark = encode_blank(file["size"] - blank["position"])
                assert mark.hex() == blank["first_8_bytes"]
                assert check_record(mark, 0, len(mark)) == blank["dispatch"]["msg_size"] == 0


def test_only_a_long_topic_takes_the_second_version() -> None:
    for case in cases("message.jsonl", "message_version", "5.3"):
        topic = b"t" * case["in"]["topic_bytes"]
        record = a_record(topic=topic)
        message = decode_record(record)
        assert message.magic == case["out"]["magic"] & 0xFFFFFFFF
        assert (
            len(record)
            == len(a_record(topic=b"")) - 1 + len(topic) + case["out"]["topic_length_size"]
        )
        assert message.topic.encode() == topic
        assert check_record(record, 0, len(record)) == len(record)


@given(
    topic=st.text(max_size=80),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=200),
    queue_id=ANY_INT,
    flag=ANY_INT,
    sys_flag=ANY_INT,
    queue_offset=ANY_LONG,
    position=ANY_LONG,
    born_ms=ANY_LONG,
    store_ms=ANY_LONG,
    born_host=ANY_HOST,
    store_host=ANY_HOST,
    reconsume_times=ANY_INT,
    prepared_offset=ANY_LONG,
)
def test_what_is_written_is_read_back(topic: str, **fields: Any) -> None:
    record = a_record(topic=topic.encode(), **fields)
    message = decode_record(b"ahead" + record + b"behind", 5)
    assert again(message) == record
    assert message.topic == topic
    assert message.end == 5 + len(record) == 5 + message.size
    assert check_record(record, 0, len(record)) == len(record)


@given(st.binary(max_size=400), st.sampled_from([None, MAGIC_V1, MAGIC_V2, BLANK_MAGIC]))
def test_random_bytes_are_a_record_or_refused(data: bytes, magic: int | None) -> None:
    if magic is not None:
        data = len(data).to_bytes(4, "big") + magic.to_bytes(4, "big") + data
    for magic_matters in (True, False):
        try:
            message = decode_record(data, magic_matters=magic_matters)
        except BadRecord:
            assert decode_records(data, magic_matters=magic_matters) == []
        else:
            assert 0 < message.end <= len(data)
    assert isinstance(check_record(data, 0, len(data)), int | str)


@given(st.integers(0, 100), st.integers(0, 255))
def test_recovery_notices_a_changed_byte_of_size_magic_crc_or_body(at: int, byte: int) -> None:
    record = bytearray(a_record())
    is_checked = at < 12 or 84 <= at < 91
    changed = record[at] != byte
    record[at] = byte
    verdict = check_record(record, 0, len(record))
    if not changed:
        assert verdict == len(record)
    elif is_checked:
        assert verdict == 0 or isinstance(verdict, str)


@pytest.mark.parametrize("kept", range(101))
def test_recovery_and_consumers_refuse_a_record_cut_anywhere(kept: int) -> None:
    cut = memoryview(a_record())[:kept]
    assert isinstance(check_record(cut, 0, len(cut)), str)
    with pytest.raises(BadRecord):
        decode_record(cut)


def test_recovery_does_not_look_beyond_its_limit() -> None:
    log = a_record() + a_record(position=357)
    assert check_record(log, 0, 101) == 101
    assert isinstance(check_record(log, 101, 201), str)
    assert check_record(log, 101, 202) == 101


@pytest.mark.parametrize(
    "too_much",
    [{"topic": b"t" * 32768}, {"properties": b"p" * 32768}, {"born_host": b"short"}],
    ids=lambda change: next(iter(change)),
)
def test_what_no_length_field_can_hold_is_refused(too_much: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="bytes"):
        a_record(**too_much)


def test_the_crc_is_java_s_positive_one() -> None:
    for case in cases("ids.jsonl", "hash"):
        body = bytes.fromhex(case["in"]["utf8"])
        assert decode_record(a_record(body=body)).body_crc == case["out"]["crc32"]
        assert crc32(body) & 0x7FFFFFFF == case["out"]["crc32"]


@pytest.mark.parametrize("text", ["10.0.0.1:10911", "[fd00::1]:10911", "0.0.0.0:0"])
def test_a_host_goes_into_bytes_and_back(text: str) -> None:
    assert host_text(host_bytes(text)) == text


def test_an_ipv6_host_may_come_without_brackets() -> None:
    assert host_bytes("fd00::1:10911") == host_bytes("[fd00::1]:10911")


@pytest.mark.parametrize("text", ["", "localhost:1", "10.0.0.1", "10.0.0.1:", "10.0.0:1", "1:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        host_bytes(text)
