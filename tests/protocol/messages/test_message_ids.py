"""Offset ids and unique keys, as upstream makes them."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.messages.message_ids import (
    UniqKeys,
    month_start_ms,
    offset_msg_id,
    position_of,
)
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
IP = bytes([10, 0, 0, 1])
MARCH_MS = 1_709_251_200_000  # 2024-03-01T00:00:00Z
HOUR_MS = 3_600_000


class KeyParts(NamedTuple):
    """The parts of a unique key of an IPv4 or IPv6 process, read from its hex digits."""

    ip: bytes
    pid: int
    loader_hash: int
    ms_in_month: int
    counter: int


def parts_of(key: str) -> KeyParts:
    data = bytes.fromhex(key)
    ip, tail = data[:-12], data[-12:]
    return KeyParts(ip, *struct.unpack(">HiIH", tail))


def packed(host: dict[str, Any]) -> bytes:
    return bytes.fromhex(host["ip"]) + host["port"].to_bytes(4, "big")


@pytest.mark.parametrize("line", LINES)
def test_an_offset_id_has_store_host_and_position(line: str) -> None:
    for case in cases("message.jsonl", "offset_msg_id", line):
        host, position, want = packed(case["in"]["host"]), case["in"]["offset"], case["out"]
        assert offset_msg_id(host, position) == want["id"]


@pytest.mark.parametrize("ip", [IP, bytes(16)])
@pytest.mark.parametrize("port", [0, 10_911, 65_535])
def test_an_offset_id_names_its_position_again(ip: bytes, port: int) -> None:
    assert position_of(offset_msg_id(ip + struct.pack(">i", port), 4_711)) == 4_711


@pytest.mark.parametrize("ip", [IP, bytes(16)])
@pytest.mark.parametrize("port", [-1, 65_536])
def test_an_offset_id_with_a_port_that_cannot_be_is_none(ip: bytes, port: int) -> None:
    with pytest.raises(ValueError, match=f"there is no port {port}"):
        position_of(offset_msg_id(ip + struct.pack(">i", port), 4_711))


@pytest.mark.parametrize("line", LINES)
def test_a_unique_key_has_address_process_and_time(line: str) -> None:
    for case in cases("message.jsonl", "uniq_id", line):
        parts, want = parts_of(case["in"]["id"]), case["out"]
        assert parts.ip.hex() == want["ip"]
        assert parts.pid == want["pid"]
        assert parts.ms_in_month == want["ms_in_month"]


@pytest.mark.parametrize("line", LINES)
def test_a_made_key_has_the_shape_of_a_real_one(line: str) -> None:
    (case,) = cases("message.jsonl", "uniq_id_created", line)
    keys = UniqKeys(IP, pid=70_000, loader_hash=-5)
    first, second = (keys.make(MARCH_MS + HOUR_MS) for _ in range(2))
    one, two = parts_of(first), parts_of(second)
    assert (len(first) in (32, 56)) == case["out"]["length_is_32_or_56"]
    assert (first == first.upper()) == case["out"]["uppercase_hex"]
    assert two.counter - one.counter == case["out"]["counter_step"]
    assert (first[:16] == second[:16]) == case["out"]["same_prefix"]
    assert (one.pid == 70_000 & 0xFFFF) == case["out"]["pid_matches"]
    assert (one.ip, one.loader_hash, one.ms_in_month) == (IP, -5, HOUR_MS)


def test_the_counter_wraps() -> None:
    keys = UniqKeys(IP, pid=1, counter=0xFFFF)
    assert [parts_of(keys.make(MARCH_MS)).counter for _ in range(2)] == [0xFFFF, 0]


def test_the_time_in_a_key_begins_anew_with_the_month() -> None:
    keys = UniqKeys(bytes(16), pid=1)
    last, first = keys.make(MARCH_MS - 1), keys.make(MARCH_MS)
    assert parts_of(last).ms_in_month == 29 * 24 * HOUR_MS - 1
    assert parts_of(first).ms_in_month == 0


@given(st.integers(0, 4_000_000_000_000))
def test_a_month_begins_on_its_first_midnight(at_ms: int) -> None:
    start = month_start_ms(at_ms)
    assert start <= at_ms < start + 31 * 24 * HOUR_MS
    assert start % (24 * HOUR_MS) == 0
    assert month_start_ms(start) == start


def test_a_clock_that_steps_back_into_the_month_before_still_makes_keys() -> None:
    keys = UniqKeys(IP, pid=1)
    before_ms, at_ms = 1_700_000_000_000, 1_703_000_000_000
    keys.make(at_ms)
    elapsed = parts_of(keys.make(month_start_ms(at_ms) - 1))[3]
    assert elapsed == 0xFFFFFFFF  # -1 as Java's int
    assert keys.make(before_ms) != keys.make(before_ms)
