"""The commit log: records in segments, byte for byte as a real broker stores them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.commit_log import CommitLog, LogHasHole, RecordTooLarge
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import DiskFull
from rocketmq_emulator.protocol.messages.batch import decode_batch, with_batch_properties
from rocketmq_emulator.protocol.messages.properties import decode_properties, encode_properties
from rocketmq_emulator.protocol.messages.records import BLANK_MAGIC, decode_record
from tests.support.broker.store_makers import HOST, NOW, Rig, TinyDisk, a_message
from tests.support.golden_data import cases

LINES = {"4.9": "4.9.7", "5.3": "5.3.3"}


def append(log: CommitLog, make: Callable[[int], bytes]) -> tuple[int, int]:
    """Append what *make* returns for the position; returns position and size."""
    while True:
        position = log.end_position
        record = make(position)
        if log.append(record):
            return position, len(record)


def test_positions_go_on_over_the_filler_into_the_next_segment() -> None:
    log = CommitLog(TinyDisk(4096), 4096)
    places = [append(log, lambda _position: bytes(1000)) for _ in range(5)]
    assert [position for position, _ in places] == [0, 1000, 2000, 3000, 4096]
    assert log.end_position == 5096


def test_r55_a_record_leaves_room_for_the_filler_or_moves_on() -> None:
    log = CommitLog(TinyDisk(4096), 4096)
    assert append(log, lambda _position: bytes(4096 - 8)) == (0, 4088)
    assert append(log, lambda _position: bytes(4096 - 7 - 4088 + 100)) == (4096, 101)
    filler = bytes(log.read(4088, 8))
    assert filler == (8).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")


def test_a_record_is_built_for_the_position_it_gets() -> None:
    log = CommitLog(TinyDisk(4096), 4096)
    for _ in range(3):
        append(log, lambda position: position.to_bytes(8, "big") + bytes(2000))
    assert [int.from_bytes(log.read(at, 8), "big") for at in (0, 2008, 4096)] == [0, 2008, 4096]


def test_a_record_larger_than_any_segment_is_refused_and_changes_nothing() -> None:
    log = CommitLog(MemoryDisk(), 4096)
    with pytest.raises(RecordTooLarge):
        append(log, lambda _position: bytes(4089))
    assert (log.end_position, log.segments) == (0, ())


def test_a_full_disk_refuses_a_record_and_the_log_goes_on_when_there_is_room() -> None:
    disk = TinyDisk(4096, bytes_max=4096)
    log = CommitLog(disk, 4096)
    append(log, lambda _position: bytes(4000))
    with pytest.raises(DiskFull):
        append(log, lambda _position: bytes(200))
    assert log.end_position == 4000
    disk.bytes_max = None
    assert append(log, lambda _position: bytes(200)) == (4096, 200)


def test_a_slice_read_before_its_segment_is_dropped_stays_readable() -> None:
    log = CommitLog(TinyDisk(4096), 4096)
    for letter in b"ab":
        append(log, lambda _position, letter=letter: bytes([letter]) * 4000)
    piece = log.read(0, 10)
    assert log.drop_oldest() == 4096
    assert log.min_position == 4096
    assert bytes(piece) == b"a" * 10


def test_what_lies_beyond_a_cut_is_gone_for_good() -> None:
    log = CommitLog(TinyDisk(4096), 4096)
    for _ in range(6):
        append(log, lambda _position: b"\xff" * 1500)
    log.cut(1500)
    assert [segment.base for segment in log.segments] == [0]
    assert bytes(log.read(1500, 4096 - 1500)) == bytes(4096 - 1500)
    assert append(log, lambda _position: bytes(10)) == (1500, 10)


def test_a_log_with_a_missing_segment_is_not_opened() -> None:
    disk = TinyDisk(4096)
    for base in (0, 4096, 8192):
        disk.open_segment(base, 4096)
    disk.remove_segment(4096)
    with pytest.raises(LogHasHole, match=r"0000 ends at 4096, but .*8192 begins at 8192"):
        CommitLog(disk, 4096)


@pytest.mark.parametrize("line", LINES)
def test_r54_every_recorded_message_is_laid_out_as_the_real_store_did(line: str) -> None:
    for case in cases("store.jsonl", "append", line):
        given = case["in"]
        rig = Rig(TinyDisk(given["commit_log_file_size"]), release=LINES[line])
        for message, expected in zip(given["messages"], case["out"]["results"], strict=True):
            check_put(rig, message, expected, delays_in_store=line == "4.9")
        assert rig.store.log.end_position == case["out"]["max_offset"]
        check_files(rig, case["out"]["files"])


def check_put(
    rig: Rig, given: dict[str, Any], expected: dict[str, Any], *, delays_in_store: bool
) -> None:
    message, store_ms = golden_message(given)
    put_by = rig.puts.put if delays_in_store else rig.store.put
    if expected["status"] != "PUT_OK":
        with pytest.raises(PutRefused) as refusal:
            put_by(message, store_ms)
        assert refusal.value.status is PutStatus[expected["status"]]
        return
    put = put_by(message, store_ms)
    assert put.position == expected["wrote_offset"]
    assert put.size == expected["wrote_bytes"]
    assert put.queue_offset == expected["logics_offset"]
    record = bytes(rig.store.log.read(put.position, put.size))
    check_same_record(record, bytes.fromhex(expected["record"]))
    check_index(rig, put, expected["dispatch"])


def check_same_record(ours: bytes, real: bytes) -> None:
    """Equal bytes, except for the order of properties if the broker added some."""
    if b"REAL_TOPIC" not in real:
        assert ours == real
        return
    mine, theirs = decode_record(ours), decode_record(real)
    assert decode_properties(mine.properties) == decode_properties(theirs.properties)
    blank = {"properties": b"", "end": 0}
    assert msgspec.structs.replace(mine, **blank) == msgspec.structs.replace(theirs, **blank)


def check_index(rig: Rig, put: Any, dispatch: dict[str, Any]) -> None:
    queue = rig.store.queue(dispatch["topic"], dispatch["queue_id"])
    assert queue is not None
    if put.position in queue.positions:
        index = queue.positions.index(put.position)
        assert queue.codes[index] == dispatch["tags_code"]
        assert queue.sizes[index] == dispatch["msg_size"]
    else:  # prepared and rolled back messages are in the log only
        assert dispatch["sys_flag"] & 0xC in (0x4, 0xC)


def check_files(rig: Rig, files: list[dict[str, Any]]) -> None:
    assert [f"{segment.base:020d}" for segment in rig.store.log.segments] == [
        file["name"] for file in files
    ]
    for segment, file in zip(rig.store.log.segments, files, strict=True):
        assert segment.size == file["size"]
        if (blank := file["blank"]) is not None:
            at = blank["position"]
            assert bytes(segment.view[at : at + 8]).hex() == blank["first_8_bytes"]


@pytest.mark.parametrize("line", LINES)
def test_every_recorded_batch_is_laid_out_as_the_real_store_did(line: str) -> None:
    rig = Rig(MemoryDisk(), release=LINES[line])
    for case in cases("store.jsonl", "append_batch", line):
        given, expected = case["in"], case["out"]
        model, store_ms = golden_message({**given, "body": "", "flag": 0})
        shared = encode_properties(
            sorted(decode_properties(given["properties_string"]).items()), trailing=line == "5.3"
        )
        members = decode_batch(bytes.fromhex(given["batch_body"]))
        messages = [
            msgspec.structs.replace(
                model,
                flag=member.flag,
                body=member.body,
                properties=with_batch_properties(member.properties, shared).decode(),
            )
            for member in members
        ]
        puts = rig.store.put_all(messages, store_ms)
        assert puts[0].position == expected["wrote_offset"]
        assert puts[0].queue_offset == expected["logics_offset"]
        assert sum(put.size for put in puts) == expected["wrote_bytes"]
        records = rig.store.log.read(puts[0].position, expected["wrote_bytes"])
        assert records.hex() == expected["records"]


def golden_message(given: dict[str, Any]) -> tuple[MessageToStore, int]:
    message = a_message(
        bytes.fromhex(given["body"]),
        given["properties_string"],
        topic=given["topic"],
        queue_id=given["queue_id"],
        flag=given["flag"],
        sys_flag=given["sys_flag"],
        born_ms=given["born_timestamp"],
        born_host=golden_host(given["born_host"]),
        store_host=golden_host(given["store_host"]),
        reconsume_times=given["reconsume_times"],
        prepared_offset=given.get("prepared_transaction_offset", 0),
    )
    return message, given["store_timestamp"]


def golden_host(given: dict[str, Any]) -> bytes:
    return bytes.fromhex(given["ip"]) + given["port"].to_bytes(4, "big")


def test_a_batch_lies_in_one_segment_or_is_not_stored_at_all() -> None:
    rig = Rig(TinyDisk(4096, bytes_max=4096))
    rig.put(bytes(3000))
    with pytest.raises(PutRefused):
        rig.store.put_all([a_message(bytes(500)), a_message(bytes(500))], NOW)
    assert len(rig.bodies()) == 1
    assert rig.store.max_offset("orders", 0) == 1


def test_the_address_in_new_records_may_come_late() -> None:
    rig = Rig()
    rig.store.store_host = bytes([10, 0, 0, 1, 0, 0, 0, 9])
    put = rig.put()
    message = rig.store.message_at(put.position)
    assert message is not None
    assert message.store_host == bytes([10, 0, 0, 1, 0, 0, 0, 9]) != HOST
