"""The store: puts are stored in order, and a pull gets what its limits allow."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
from rocketmq_emulator.broker.store.reading import GetStatus, MessageFilter
from rocketmq_emulator.disk.memory import MemoryDisk, MemorySegment
from rocketmq_emulator.facts import MessageStored, OldestDropped, Queue, StoreRefused
from rocketmq_emulator.protocol.messages.message_ids import offset_msg_id
from rocketmq_emulator.protocol.messages.records import decode_record, decode_records
from rocketmq_emulator.protocol.messages.subscription import tag_code
from tests.support.broker.store_makers import HOST, LAST_4, LAST_5, NOW, Rig, TinyDisk, a_message
from tests.support.golden_data import cases

HOUR_MS = 3_600_000
TAGS = "TAGS\x01"


# Putting ----------------------------------------------------------------------------------


def test_invariant_27_a_body_of_exactly_the_limit_is_stored_and_one_byte_more_is_not() -> None:
    rig = Rig(MemoryDisk())
    assert rig.put(bytes(4_194_304)).queue_offset == 0
    with pytest.raises(PutRefused) as refusal:
        rig.put(bytes(4_194_305))
    assert refusal.value.status is PutStatus.MESSAGE_ILLEGAL
    assert rig.store.max_offset("orders", 0) == 1


def test_invariant_27_properties_of_32768_bytes_are_refused() -> None:
    rig = Rig(MemoryDisk())
    assert rig.put(properties="K\x01" + "v" * 32_765).queue_offset == 0
    with pytest.raises(PutRefused) as refusal:
        rig.put(properties="K\x01" + "v" * 32_766)
    assert refusal.value.status is PutStatus.PROPERTIES_SIZE_EXCEEDED


@pytest.mark.parametrize(
    ("release", "topic", "is_stored"),
    [
        (LAST_4, "t" * 127, True),
        (LAST_4, "t" * 128, False),
        (LAST_4, "%RETRY%" + "g" * 121, False),
        (LAST_5, "t" * 128, False),
        (LAST_5, "%RETRY%" + "g" * 248, True),
        (LAST_5, "%RETRY%" + "g" * 249, False),
    ],
)
def test_a_topic_too_long_for_its_length_field_is_refused(
    release: str, topic: str, *, is_stored: bool
) -> None:
    rig = Rig(release=release)
    if is_stored:
        assert rig.store.put(a_message(topic=topic), NOW).queue_offset == 0
        assert rig.bodies(topic=topic) == [b"hello"]
        return
    with pytest.raises(PutRefused):
        rig.store.put(a_message(topic=topic), NOW)


def test_invariant_28_queue_offsets_count_from_zero_without_gaps_across_restarts() -> None:
    rig = Rig()
    first = [rig.put(queue_id=n % 2).queue_offset for n in range(6)]
    again = rig.reopened()
    then = [again.put(queue_id=n % 2).queue_offset for n in range(4)]
    assert first + then == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_invariant_29_the_offset_message_id_leads_to_the_message() -> None:
    rig = Rig()
    rig.put(b"before")
    put = rig.put(b"looked for")
    text = offset_msg_id(HOST, put.position)
    assert len(text) == 32
    assert text == "7F000001" + "00002A9F" + f"{put.position:016X}"
    position = int(text[-16:], 16)
    record = rig.store.record_at(position)
    assert record is not None
    assert decode_record(record).body == b"looked for"


@pytest.mark.parametrize("position", [-1, 1, 77, 10_000])
def test_a_guessed_position_finds_no_message(position: int) -> None:
    rig = Rig()
    rig.put()
    assert rig.store.message_at(position) is None


def test_a_record_inside_another_ones_body_is_not_taken_for_a_message() -> None:
    rig = Rig()
    inner = rig.put(b"inner")
    outer = rig.put(bytes(rig.store.log.read(inner.position, inner.size)))
    at = outer.position + 88
    assert decode_record(rig.store.log.read(at, inner.size)).body == b"inner"
    assert rig.store.message_at(at) is None


def test_store_times_never_fall_even_if_the_clock_does() -> None:
    rig = Rig()
    for at_ms in (NOW, NOW - 5_000, NOW + 1):
        rig.put(at_ms=at_ms)
    assert [message.store_ms for message in rig.messages()] == [NOW, NOW, NOW + 1]
    again = rig.reopened()
    again.put(at_ms=NOW - 9_000)
    assert again.messages()[-1].store_ms == NOW + 1


def test_every_message_rings_its_queue_with_its_next_offset_and_code() -> None:
    rig = Rig()
    rig.put(properties=TAGS + "TagA")
    rig.put(queue_id=3)
    assert rig.rung == [(("orders", 0), (1, tag_code("TagA"))), (("orders", 3), (1, 0))]


def test_every_message_is_a_fact() -> None:
    rig = Rig()
    rig.put()
    put = rig.put(properties="UNIQ_KEY\x010A00")
    expected = MessageStored(Queue("orders", "broker-a", 0), 1, put.position, "0A00", put.size)
    assert rig.facts_of(MessageStored)[1] == expected


@pytest.mark.parametrize(("is_on", "named"), [(True, ("price=3",)), (False, ())])
def test_the_fact_has_the_application_s_properties_if_the_broker_filters_by_them(
    is_on: bool, named: tuple[str, ...]
) -> None:
    rig = Rig(property_filter=is_on)
    rig.put(properties="UNIQ_KEY\x010A00\x02price\x013")
    (fact,) = rig.facts_of(MessageStored)
    assert isinstance(fact, MessageStored)
    assert fact.user_properties == named


def test_prepared_and_rolled_back_messages_are_in_the_log_only() -> None:
    rig = Rig()
    for sys_flag in (0x4, 0xC, 0x8, 0x0):
        rig.put(sys_flag=sys_flag)
    assert [message.sys_flag for message in rig.messages()] == [0x8, 0x0]
    assert rig.reopened().store.max_offset("orders", 0) == 2


def test_a_full_disk_refuses_and_loses_nothing() -> None:
    rig = Rig(TinyDisk(4096, bytes_max=8192))
    stored = 0
    refusals = []
    for n in range(40):
        try:
            rig.put(b"%d" % n + bytes(400))
            stored += 1
        except PutRefused as refusal:
            refusals.append(refusal.status)
    assert 0 < stored < 40
    assert set(refusals) == {PutStatus.SERVICE_NOT_AVAILABLE}
    assert len(rig.facts_of(StoreRefused)) == 1
    assert len(rig.bodies()) == len(rig.reopened().bodies()) == stored


def test_a_store_takes_messages_again_once_there_is_room() -> None:
    disk = TinyDisk(4096, bytes_max=4096)
    rig = Rig(disk)
    rig.put(bytes(3500))
    with pytest.raises(PutRefused):
        rig.put(bytes(3500))
    disk.bytes_max = None
    assert rig.put(bytes(3500)).queue_offset == 1


# Getting ----------------------------------------------------------------------------------


def test_invariant_48_an_offset_out_of_range_is_answered_with_a_better_one() -> None:
    rig = a_queue_from_3_to_5()
    expected = {
        2: (GetStatus.OFFSET_TOO_SMALL, 3),
        5: (GetStatus.OFFSET_OVERFLOW_ONE, 5),
        6: (GetStatus.OFFSET_OVERFLOW_BADLY, 5),
    }
    for offset, answer in expected.items():
        result = rig.store.get("orders", 0, offset, 32)
        assert (result.status, result.next_begin_offset) == answer
        assert (result.min_offset, result.max_offset, result.slices) == (3, 5, [])
    for offset in (0, 7):
        result = rig.store.get("never", 0, offset, 32)
        assert (result.status, result.next_begin_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


@pytest.mark.parametrize(("release", "expected"), [("4.7.0", 0), (LAST_4, 1), (LAST_5, 1)])
def test_a_pull_far_beyond_the_end_went_back_to_the_start_before_4_9_4(
    release: str, expected: int
) -> None:
    rig = Rig(release=release)
    rig.put()
    assert rig.store.get("orders", 0, 9, 32).next_begin_offset == expected


def test_invariant_49_one_answer_carries_at_most_32_messages() -> None:
    rig = Rig(MemoryDisk())
    for n in range(50):
        rig.put(b"%d" % n)
    result = rig.store.get("orders", 0, 0, 1000)
    assert (result.count, result.next_begin_offset) == (32, 32)
    assert rig.store.get("orders", 0, 0, 5).count == 5


def test_invariant_49_one_answer_carries_at_most_262144_bytes_or_one_message() -> None:
    rig = Rig(MemoryDisk())
    size = rig.put(bytes(100_000)).size
    rig.put(bytes(262_144 - 2 * size + 100_000))
    for _ in range(2):
        rig.put(bytes(300_000))
    assert rig.store.get("orders", 0, 0, 32).bytes <= 262_144
    assert rig.store.get("orders", 0, 0, 32).count == 2
    alone = rig.store.get("orders", 0, 2, 32)
    assert (alone.status, alone.count, alone.next_begin_offset) == (GetStatus.FOUND, 1, 3)


def only(tag: str) -> MessageFilter:
    return MessageFilter(frozenset({tag_code(tag)}).__contains__)


def test_invariant_50_one_look_examines_at_most_800_entries() -> None:
    rig = Rig(MemoryDisk())
    for _ in range(1200):
        rig.put(b"", properties=TAGS + "other")
    result = rig.store.get("orders", 0, 10, 32, only("TagA"))
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 810)
    more = rig.store.get("orders", 0, 10, 1000, only("TagA"))
    assert more.next_begin_offset == 1010


def test_a_filtered_look_advances_past_what_it_left_out() -> None:
    rig = Rig()
    for tag in ("A", "B", "A", "B", "B"):
        rig.put(tag.encode(), properties=TAGS + tag)
    result = rig.store.get("orders", 0, 0, 32, only("A"))
    assert [m.body for m in decode_records(b"".join(result.slices))] == [b"A", b"A"]
    assert result.next_begin_offset == 5


def test_a_filter_by_properties_reads_the_records_whose_code_matches() -> None:
    rig, read = Rig(TinyDisk(4096)), []
    for number, tag in enumerate("ABAAB"):
        rig.put(b"%d" % number, properties=f"{TAGS}{tag}\x02n\x01{number}")

    def is_large(properties: Mapping[str, str]) -> bool:
        read.append(properties["n"])
        return int(properties["n"]) > 1

    result = rig.store.get("orders", 0, 0, 32, only("A")._replace(by_properties=is_large))
    assert [m.body for m in decode_records(b"".join(result.slices))] == [b"2", b"3"]
    assert (read, result.next_begin_offset) == (["0", "2", "3"], 5)
    assert rig.store.properties("orders", 0, 4)["n"] == "4"


def test_neighbours_in_the_log_leave_as_one_slice() -> None:
    rig = Rig(TinyDisk(4096))
    for _ in range(3):
        rig.put(bytes(100))
    rig.put(bytes(100), queue_id=1)
    rig.put(bytes(100))
    rig.put(bytes(3500))
    result = rig.store.get("orders", 0, 0, 32)
    assert [len(decode_records(piece)) for piece in result.slices] == [3, 1, 1]


def test_what_is_pulled_is_what_was_stored_to_the_byte() -> None:
    rig = Rig()
    put = rig.put(b"body", properties=TAGS + "A", flag=7, reconsume_times=2)
    (piece,) = rig.store.get("orders", 0, 0, 32).slices
    assert bytes(piece) == bytes(rig.store.log.read(put.position, put.size))


def test_a_look_tells_how_far_behind_the_log_it_is() -> None:
    rig = Rig()
    puts = [rig.put() for _ in range(3)]
    result = rig.store.get("orders", 0, 0, 1)
    assert result.behind_bytes == rig.store.log.end_position - puts[0].position


# Times ------------------------------------------------------------------------------------

AT_1000_2000_2000_3000 = (1_000, 2_000, 2_000, 3_000)


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper", "nearest"),
    [
        (0, {0}, {0}, {0}),
        (1_000, {0}, {0}, {0}),
        (1_499, {1}, {0}, {0}),
        (1_500, {1}, {0}, {0}),
        (1_501, {1}, {0}, {1}),
        (2_000, {1}, {2}, {1, 2}),
        (2_600, {3}, {2}, {3}),
        (9_000, {4}, {3}, {3}),
    ],
)
def test_invariant_70_search_by_time_follows_the_release(
    time_ms: int, lower: set[int], upper: set[int], nearest: set[int]
) -> None:
    for release in ("5.1.0", "5.1.1"):
        rig = Rig(release=release)
        for at_ms in AT_1000_2000_2000_3000:
            rig.put(at_ms=at_ms)
        found = rig.store.offset_by_time("orders", 0, time_ms)
        if release == "5.1.0":
            assert found in nearest
        else:
            assert found in lower
            assert rig.store.offset_by_time("orders", 0, time_ms, upper=True) in upper


def test_search_by_time_in_an_unknown_queue_finds_zero() -> None:
    assert Rig().store.offset_by_time("never", 0, NOW) == 0


def test_messages_know_when_they_were_stored() -> None:
    rig = Rig()
    rig.put(at_ms=NOW)
    rig.put(at_ms=NOW + 5, born_host=bytes(16) + b"\0\0\0\1")
    assert rig.store.earliest_ms("orders", 0) == NOW
    assert rig.store.store_ms("orders", 0, 1) == NOW + 5
    assert rig.store.store_ms("orders", 0, 2) == -1
    assert rig.store.earliest_ms("never", 0) == -1


def test_messages_are_found_by_their_keys_the_newest_first() -> None:
    rig = Rig()
    for n, keys in enumerate(("red blue", "redder", "blue red", "green")):
        rig.put(b"%d" % n, n % 2, NOW + n, properties=f"KEYS\x01{keys}\x02UNIQ_KEY\x01ID{n}")

    def found(key: str, count_max: int = 32, **span: int) -> list[bytes]:
        span = {"begin_ms": NOW, "end_ms": NOW + 99, **span}
        search = rig.store.search_by_key("orders", key, count_max, **span)
        assert search.run_step()
        return [decode_record(record).body for record in search.found]

    assert found("red") == [b"2", b"0"]
    assert found("ID3") == [b"3"]
    assert found("re") == []
    assert found("red", count_max=1) == [b"2"]
    assert found("red", end_ms=NOW + 1) == [b"0"]
    assert found("red", begin_ms=NOW + 1) == [b"2"]
    nowhere = rig.store.search_by_key("never", "red", 9, begin_ms=0, end_ms=NOW)
    assert nowhere.run_step()
    assert nowhere.found == []


@pytest.mark.parametrize(
    ("topic", "key", "bodies"),
    [
        ("AaTopic", "Aa", [b"2", b"1", b"0"]),
        ("AaTopic", "BB", [b"2", b"1", b"0"]),
        ("BBTopic", "BB", [b"2", b"1", b"0"]),
        ("C#Topic", "Aa", [b"2", b"1", b"0"]),  # a topic without messages
        ("AaTopic", "AB", []),
        ("AaTopic", "BBBB", [b"3"]),
        ("AaTopic", "BB" * 16, []),
    ],
)
def test_a_search_by_key_compares_the_hashes_of_topic_and_key_as_upstream_s_index(
    topic: str, key: str, bodies: list[bytes]
) -> None:
    rig = Rig()
    made_by_clients = "AA" * 16
    rows = (
        ("AaTopic", f"KEYS\x01other Aa\x02UNIQ_KEY\x01{made_by_clients}"),
        ("BBTopic", "KEYS\x01Aa\x02"),
        ("AaTopic", "UNIQ_KEY\x01BB\x02WAIT\x01true"),
        ("AaTopic", "KEYS\x01AaAa\x02"),
    )
    for number, (its_topic, properties) in enumerate(rows):
        rig.put(b"%d" % number, topic=its_topic, properties=properties)
    search = rig.store.search_by_key(topic, key, 32, begin_ms=0, end_ms=NOW + 99)
    assert search.run_step()
    assert [decode_record(record).body for record in search.found] == bodies


def test_a_search_by_key_continues_where_it_was_although_messages_have_expired() -> None:
    rig = Rig(TinyDisk(4096))
    for n in range(8):
        rig.put(b"%d" % n + bytes(1000), at_ms=NOW + n, properties="KEYS\x01red\x02")
    search = rig.store.search_by_key("orders", "red", 32, begin_ms=0, end_ms=NOW + 99)
    assert not search.run_step(1)
    rig.store.drop_expired(NOW + 100 * 3_600_000)
    oldest = rig.store.min_offset("orders", 0)
    assert 0 < oldest < 7
    while not search.run_step(2):
        pass
    assert [decode_record(r).queue_offset for r in search.found] == [*range(7, oldest - 1, -1)]


# Retention --------------------------------------------------------------------------------


def a_queue_from_3_to_5() -> Rig:
    """A store whose queue has offsets 3 and 4; those before them were dropped."""
    rig = Rig(TinyDisk(4096))
    for n in range(3):
        rig.put(b"%d" % n + bytes(1000), at_ms=NOW)
    for n in range(3, 5):
        rig.put(b"%d" % n + bytes(1000), at_ms=NOW + 73 * HOUR_MS)
    rig.store.drop_expired(NOW + 73 * HOUR_MS)
    return rig


def test_what_is_too_old_goes_in_whole_segments_and_min_offsets_follow() -> None:
    rig = a_queue_from_3_to_5()
    assert rig.facts_of(OldestDropped) == [OldestDropped(4096, 4096)]
    assert rig.store.min_offset("orders", 0) == 3
    assert [body[:1] for body in rig.bodies()] == [b"3", b"4"]
    assert rig.store.log.min_position == 4096


def test_a_segment_stays_while_its_newest_message_is_young() -> None:
    rig = Rig(TinyDisk(4096))
    for n in range(4):
        rig.put(bytes(1000), at_ms=NOW + n * HOUR_MS)
    rig.store.drop_expired(NOW + 74 * HOUR_MS)
    assert rig.store.min_offset("orders", 0) == 0
    rig.store.drop_expired(NOW + 3 * HOUR_MS + 72 * HOUR_MS + 1)
    assert rig.store.min_offset("orders", 0) == 3


def test_a_store_in_memory_keeps_within_its_bytes() -> None:
    rig = Rig(
        MemoryDisk(), segment_bytes=150_000, message_bytes_max=1_000, retained_bytes_max=300_000
    )
    for _ in range(1_000):
        rig.put(bytes(1_000))
    assert rig.disk.bytes_used <= 300_000 + 1_000
    assert rig.store.max_offset("orders", 0) == 1_000
    assert len(rig.bodies()) == 1_000 - rig.store.min_offset("orders", 0) > 100


def test_offsets_go_on_when_every_message_of_a_queue_is_gone_even_after_a_restart() -> None:
    rig = Rig(TinyDisk(4096))
    for _ in range(3):
        rig.put(bytes(100), queue_id=0)
    for _ in range(9):
        rig.put(bytes(1000), queue_id=1, at_ms=NOW + 73 * HOUR_MS)
    rig.store.drop_expired(NOW + 146 * HOUR_MS)
    for each in (rig, rig.reopened()):
        assert each.store.min_offset("orders", 0) == each.store.max_offset("orders", 0) == 3
        result = each.store.get("orders", 0, 0, 32)
        assert (result.status, result.next_begin_offset) == (GetStatus.OFFSET_TOO_SMALL, 3)
    assert rig.reopened().put(queue_id=0).queue_offset == 3


def test_a_deleted_topic_starts_anew_and_its_messages_never_come_back() -> None:
    rig = Rig()
    rig.put(b"old")
    rig.store.drop_topic("orders")
    assert rig.store.max_offset("orders", 0) == 0
    assert rig.reopened().bodies() == []
    rig.put(b"new")
    again = rig.reopened()
    assert again.bodies() == [b"new"]
    assert again.store.max_offset("orders", 0) == 1


def test_a_deleted_topic_leaves_nothing_behind_once_its_messages_are_gone() -> None:
    rig = Rig(TinyDisk(4096))
    rig.put(b"old")
    rig.store.drop_topic("orders")
    assert b"orders" in (rig.disk.read("queueFloors.json") or b"")
    for _ in range(9):
        rig.put(bytes(1000), queue_id=1, at_ms=NOW + 73 * HOUR_MS)
    rig.store.drop_expired(NOW + 146 * HOUR_MS)
    assert rig.disk.read("queueFloors.json") == b"[]"
    assert rig.reopened().bodies(queue_id=1) == rig.bodies(queue_id=1)


def test_what_is_too_old_stays_while_the_disk_has_no_room_to_remember_it() -> None:
    rig = Rig(TinyDisk(4096))
    rig.put(bytes(100), queue_id=0)
    for _ in range(9):
        rig.put(bytes(1000), queue_id=1, at_ms=NOW + 73 * HOUR_MS)
    rig.disk.bytes_max = rig.disk.bytes_used
    rig.store.drop_expired(NOW + 146 * HOUR_MS)
    assert len(rig.bodies(queue_id=0)) == 1
    assert len(rig.facts_of(StoreRefused)) == 1
    rig.disk.bytes_max = None
    rig.store.drop_expired(NOW + 146 * HOUR_MS)
    assert rig.bodies(queue_id=0) == []
    assert rig.store.max_offset("orders", 0) == 1


def test_a_disk_that_fails_refuses_as_a_full_one_does() -> None:
    class Broken(TinyDisk):
        def open_segment(self, base: int, size: int) -> MemorySegment:
            raise OSError(errno.EIO, "Input/output error")

    rig = Rig(Broken())
    for _ in range(2):
        with pytest.raises(PutRefused, match="Input/output"):
            rig.put(b"hello")
    assert len(rig.facts_of(StoreRefused)) == 1
    assert rig.rung == []


# The index --------------------------------------------------------------------------------


def test_an_index_holds_the_entries_the_real_one_holds() -> None:
    for case in cases("store.jsonl", "consume_queue"):
        units = case["in"]["units"]
        queue = ConsumeQueue("t", 0, units[0]["cq_offset"])
        for unit in units:
            queue.append(unit["offset"], unit["size"], unit["tags_code"])
        assert queue.max_offset == case["out"]["max_offset"]
        entries = zip(queue.positions, queue.sizes, queue.codes, strict=True)
        ours = b"".join(
            p.to_bytes(8, "big") + s.to_bytes(4, "big") + c.to_bytes(8, "big", signed=True)
            for p, s, c in entries
        )
        assert ours.hex() in "".join(file["bytes"] for file in case["out"]["files"])


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("transfer_bytes_max", [1, 150, 400, 1_000, 262_144])
def test_a_pull_without_a_filter_gets_what_one_with_a_filter_for_all_gets(
    queues: int, transfer_bytes_max: int
) -> None:
    rig = Rig(TinyDisk(1_024), transfer_bytes_max=transfer_bytes_max)
    for number in range(40):
        rig.store.put(a_message(bytes(number * 7 % 60), queue_id=number % queues), NOW)
    for offset in range(rig.store.max_offset("orders", 0)):
        for count_max in (0, 1, 2, 31, 1_000):
            quick = rig.store.get("orders", 0, offset, count_max, None)
            slow = rig.store.get("orders", 0, offset, count_max, MessageFilter(lambda _code: True))
            assert b"".join(quick.slices) == b"".join(slow.slices)
            quick.slices = slow.slices = []
            assert quick == slow


def test_messages_side_by_side_in_one_segment_leave_as_one_slice() -> None:
    rig = Rig(MemoryDisk())
    for number in range(40):
        rig.put(bytes(number))
    found = rig.store.get("orders", 0, 3, 32, None)
    assert (found.count, len(found.slices)) == (32, 1)
