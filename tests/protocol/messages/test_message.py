"""Messages as applications see them, their ids and their compressed bodies."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.flags import COMPRESSED, LZ4, ZLIB, ZSTD
from rocketmq_emulator.protocol.messages.compression import (
    BadCompression,
    compress,
    compressed_flag,
    decompress,
)
from rocketmq_emulator.protocol.messages.message import (
    ARGUMENTS,
    BadProperty,
    Message,
    MessageExt,
    decode_messages,
)
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.records import decode_record, encode_record
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
KINDS = {"plain": ZLIB, "zlib": ZLIB, "lz4": LZ4, "zstd": ZSTD}


def a_record(body: bytes = b"hi", sys_flag: int = 0, properties: bytes = b"") -> bytes:
    return encode_record(
        b"T",
        body,
        properties,
        queue_id=3,
        queue_offset=7,
        position=256,
        sys_flag=sys_flag,
        born_ms=1,
        born_host=host_bytes("10.0.0.1:50000"),
        store_ms=2,
        store_host=host_bytes("10.0.0.2:10911"),
    )


@pytest.mark.parametrize("line", LINES)
def test_a_new_message_has_the_properties_upstream_gives_it(line: str) -> None:
    for case in cases("message.jsonl", "message_defaults", line):
        message, want = Message("T", b"", case["in"]["tags"], case["in"]["keys"]), case["out"]
        assert message.properties == want["properties"]
        assert message.wait_store_ok == want["wait_store"]
        assert message.delay_level == want["delay"]


@pytest.mark.parametrize("line", LINES)
def test_only_the_word_true_waits(line: str) -> None:
    for case in cases("message.jsonl", "message_wait", line):
        message = Message("T")
        message.properties = {} if (wait := case["in"]["wait"]) is None else {"WAIT": wait}
        assert message.wait_store_ok == case["out"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_the_system_s_properties_are_not_the_application_s(line: str) -> None:
    for case in cases("message.jsonl", "put_user_property", line):
        message, name, want = Message("T"), case["in"]["name"], case["out"]
        if isinstance(want, str):
            message.put_user_property(name, case["in"]["value"])
            assert message.get_user_property(name) == want
        else:
            with pytest.raises(BadProperty) as caught:
                message.put_user_property(name, case["in"]["value"])
            assert str(caught.value) == want["message"], case["id"]


def test_several_keys_are_one_property() -> None:
    message = Message("T", keys=["k1", "k2"], delay_level=3, wait_store_ok=False)
    assert message.keys == "k1 k2"
    assert message.delay_level == 3
    assert not message.wait_store_ok
    message.wait_store_ok = True
    assert message.properties["WAIT"] == "true"


@pytest.mark.parametrize("line", LINES)
def test_a_consumer_sees_what_the_real_client_shows(line: str) -> None:
    for case in cases("message.jsonl", "encode", line):
        if "decoded" not in case["out"]:
            continue
        (message,) = decode_messages(bytes.fromhex(case["out"]["encoded"]), "broker-a")
        assert message.msg_id == case["out"]["client_msg_id"]
        assert message.offset_msg_id == case["out"]["client_offset_msg_id"]
        for name in (
            *("topic", "properties", "flag", "queue_id", "queue_offset", "commit_log_offset"),
            *("sys_flag", "born_timestamp", "store_timestamp", "reconsume_times", "body_crc"),
            *("prepared_transaction_offset", "store_size"),
        ):
            assert getattr(message, name) == case["out"]["decoded"][name]
        assert host_bytes(message.born_host) == packed(case["out"]["decoded"]["born_host"])
        assert host_bytes(message.store_host) == packed(case["out"]["decoded"]["store_host"])
        assert message.broker_name == "broker-a"


def packed(host: dict[str, Any]) -> bytes:
    return bytes.fromhex(host["ip"]) + host["port"].to_bytes(4, "big")


@pytest.mark.parametrize("line", LINES)
def test_of_a_damaged_answer_a_consumer_gets_the_beginning(line: str) -> None:
    for case in cases("message.jsonl", "decodes", line):
        data = bytes.fromhex(case["in"]["bytes"])
        got = decode_messages(data, magic_matters=line != "4.9")
        want = [message["msg_id"] for message in case["out"]["messages"]]
        assert [message.msg_id for message in got] == want, case["id"]


@pytest.mark.parametrize("line", LINES)
def test_what_java_compressed_is_plain_again(line: str) -> None:
    for case in cases("message.jsonl", "compressed", line):
        stored, want = decode_record(bytes.fromhex(case["in"]["record"])), case["out"]
        message = MessageExt(stored, clears_compressed=line != "4.9")
        assert message.body.hex() == case["in"]["plain_body"] == want["body_decoded"]
        assert stored.sys_flag == want["sys_flag_in"]
        assert message.sys_flag == want["sys_flag_decoded"]
        assert len(stored.body) == want["stored_body_length"]
        assert message.body_crc == want["crc"]


@pytest.mark.parametrize("kind", [ZLIB, LZ4, ZSTD])
@given(body=st.binary(max_size=300))
def test_what_is_compressed_is_plain_again(kind: int, body: bytes) -> None:
    flag = compressed_flag(0, kind)
    assert decompress(compress(body, kind), flag, size_max=len(body)) == body


@pytest.mark.parametrize("kind", [ZLIB, LZ4, ZSTD])
def test_a_body_that_would_grow_beyond_its_limit_is_refused(kind: int) -> None:
    bomb = compress(bytes(10_000_000), kind)
    with pytest.raises(BadCompression, match="more than 1000"):
        decompress(bomb, compressed_flag(0, kind), size_max=1000)


@pytest.mark.parametrize("kind", [ZLIB, LZ4, ZSTD])
def test_a_compressed_body_cut_anywhere_is_refused(kind: int) -> None:
    whole = compress(b"hello " * 20 + bytes(range(50)), kind)
    for kept in range(len(whole)):
        with pytest.raises(BadCompression):
            decompress(whole[:kept], compressed_flag(0, kind))


@given(st.binary(max_size=100), st.sampled_from([ZLIB, LZ4, ZSTD, 0, 0x400, 0x700]))
def test_random_bytes_inflate_or_are_refused(body: bytes, kind: int) -> None:
    try:
        plain = decompress(body, COMPRESSED | kind, size_max=10_000)
    except BadCompression:
        return
    assert len(plain) <= 10_000


def test_what_was_not_compressed_is_left_alone() -> None:
    assert decompress(b"plain", 0x300) == b"plain"


def test_a_body_that_does_not_inflate_hides_the_messages_behind_it() -> None:
    data = a_record() + a_record(b"no zlib", sys_flag=COMPRESSED) + a_record()
    assert len(decode_messages(data)) == 1


def test_an_old_sender_names_no_compression_type() -> None:
    assert compressed_flag(4, None) == 5
    assert compressed_flag(4) == 0x305


def test_reading_messages_does_not_load_the_compressors() -> None:
    module = "rocketmq_emulator.protocol.messages.message"
    code = f"import sys, {module}; print({{'lz4', 'zstandard'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tag", "a Message has no tag=; did you mean tags"),
        ("delay", "no delay=; did you mean delay_level .*, or delay_ms"),
        ("key", "did you mean keys"),
        ("delaylevel", "did you mean delay_level"),
        ("colour", "there are topic, body, tags, keys, flag, delay_level"),
    ],
)
def test_an_argument_with_another_name_is_refused_with_the_right_one(name: str, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        Message("orders", b"two cups", **{name: "x"})  # type: ignore[arg-type]


def test_the_arguments_that_an_error_names_are_those_of_a_message() -> None:
    *named, unknown = inspect.signature(Message).parameters
    assert tuple(named) == ARGUMENTS
    assert unknown == "unknown"


def test_the_help_of_a_consumed_message_names_every_field() -> None:
    text = inspect.getdoc(MessageExt) or ""
    stored = decode_record(a_record())
    fields = {name for name in vars(MessageExt(stored)) if not name.startswith("_")}
    inherited = {"topic", "body", "flag", "properties"}
    assert {name for name in fields - inherited if f"``{name}``" not in text} == set()
