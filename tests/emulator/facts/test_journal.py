"""The journal: the facts that it writes, their numbers, and merging."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocketmq_emulator.clocks.clock import StoppedClock
from rocketmq_emulator.facts import (
    FactsLeftOut,
    GroupCreated,
    MessageGivenToListener,
    NodeStopped,
    RequestReceived,
    TopicChanged,
)
from rocketmq_emulator.facts.journal import Entry, Journal, encode_entry, merged


def test_a_fact_is_one_numbered_line() -> None:
    lines: list[bytes] = []
    journal = Journal("broker-a", StoppedClock(17), lines.append)
    journal.note(GroupCreated("billing", "heartbeat"))
    journal.note(GroupCreated("orders", "pull"))
    assert [msgspec.json.decode(line) for line in lines] == [
        {
            "seq": number,
            "at_ms": 17,
            "mono_us": 17_000,
            "node": "broker-a",
            "fact": {"kind": "GroupCreated", "group": group, "by": by},
        }
        for number, group, by in ((1, "billing", "heartbeat"), (2, "orders", "pull"))
    ]


def test_a_name_that_no_utf_8_can_say_is_written_with_a_question_mark() -> None:
    lines: list[bytes] = []
    Journal("broker-a", StoppedClock(17), lines.append).note(GroupCreated("a\ud800b", "heartbeat"))
    assert msgspec.json.decode(lines[0])["fact"]["group"] == "a?b"


def test_nobody_wants_a_fact_that_nobody_would_read() -> None:
    assert not Journal("broker-a", StoppedClock(17)).wants(GroupCreated)
    choosy = Journal("broker-a", StoppedClock(17), lambda _line: None, kinds=[GroupCreated])
    assert choosy.wants(GroupCreated)
    assert not choosy.wants(TopicChanged)


def test_a_fact_on_demand_is_written_only_where_it_is_asked_for_by_kind() -> None:
    assert not Journal("broker-a", StoppedClock(), lambda _line: None).wants(RequestReceived)
    asked = Journal("a", StoppedClock(), lambda _line: None, kinds=[RequestReceived])
    assert asked.wants(RequestReceived)


def test_what_is_asked_for_is_written_besides_what_always_is() -> None:
    journal = Journal("broker-a", StoppedClock(), lambda _line: None)
    journal.enable_on_demand([RequestReceived])
    assert journal.wants(RequestReceived)
    assert journal.wants(GroupCreated)
    assert not journal.wants(MessageGivenToListener)


def test_only_what_is_written_is_numbered_so_that_a_hole_is_a_loss() -> None:
    lines: list[bytes] = []
    heard: list[Entry] = []
    journal = Journal("broker-a", StoppedClock(), lines.append, kinds=[GroupCreated])
    journal.listen(heard.append, kinds=[TopicChanged])
    for fact in (GroupCreated("a", "pull"), TopicChanged("t", 1, 1, 6), GroupCreated("b", "pull")):
        journal.note(fact)
    assert [msgspec.json.decode(line)["seq"] for line in lines] == [1, 2]
    assert [type(entry.fact) for entry in heard] == [TopicChanged]


def test_what_the_dead_note_goes_nowhere() -> None:
    lines: list[bytes] = []
    journal = Journal("broker-a", StoppedClock(), lines.append, listeners=[lines.append])
    journal.note(GroupCreated("a", "pull"))
    journal.close()
    journal.note(GroupCreated("b", "pull"))
    assert len(lines) == 2


def a_line(node: str, seq: int, mono_us: int, at_ms: int = 0) -> bytes:
    return encode_entry(Entry(seq, at_ms, mono_us, node, GroupCreated("billing", "heartbeat")))


def test_journals_are_merged_by_monotonic_time_whatever_their_wall_clocks_say() -> None:
    slow_clock = [a_line("broker-a", n, mono_us=n * 10, at_ms=n) for n in (1, 2, 3)]
    other = [a_line("broker-b", n, mono_us=n * 10 + 5, at_ms=9_000 - n) for n in (1, 2, 3)]
    found = [msgspec.json.decode(line) for line in merged([other, slow_clock])]
    assert [(e["mono_us"], e["node"]) for e in found] == [
        (10, "broker-a"),
        (15, "broker-b"),
        (20, "broker-a"),
        (25, "broker-b"),
        (30, "broker-a"),
        (35, "broker-b"),
    ]


def test_what_happened_in_one_microsecond_is_merged_by_node_and_number() -> None:
    a, b = ([a_line(node, n, mono_us=7) for n in (1, 2)] for node in ("a", "b"))
    assert list(merged([b, a])) == [*a, *b]


def test_files_are_merged_without_being_read_whole(tmp_path: Path) -> None:
    for node, first_us in (("a", 1), ("b", 2)):
        lines = [a_line(node, n, mono_us=first_us + n * 10) for n in range(100)]
        (tmp_path / f"{node}.jsonl").write_bytes(b"".join(lines))
    with (tmp_path / "a.jsonl").open("rb") as a, (tmp_path / "b.jsonl").open("rb") as b:
        lines = merged([a, b])
        nodes = [msgspec.json.decode(next(lines))["node"] for _ in range(4)]
    assert nodes == ["a", "b", "a", "b"]


def decoded(line: bytes) -> Entry:
    found = msgspec.json.decode(line)
    return Entry(**{**found, "fact": msgspec.convert(found["fact"], FactsLeftOut | NodeStopped)})


class FullDisk:
    """A file that takes *room* lines; then a reserved line, which is replaced."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.lines: list[bytes] = []
        self.reserved: list[bytes] = []

    def append(self, line: bytes, /) -> bool:
        if len(self.lines) >= self.room:
            return False
        self.lines += [*self.reserved, line]
        self.reserved = []
        return True

    def write_reserved(self, line: bytes, /) -> bool:
        self.reserved = [line]
        return True


def test_facts_that_find_no_room_are_counted_in_their_place_and_announced_twice() -> None:
    disk, heard = FullDisk(room=2), list[Entry]()
    journal = Journal.to_file("broker-a", StoppedClock(), disk)
    journal.listen(heard.append, (FactsLeftOut,))
    for _ in range(5):
        journal.note(NodeStopped("broker", "asked"))
    (ending,) = map(decoded, disk.reserved)
    assert (ending.seq, ending.fact) == (3, FactsLeftOut(3, is_over=False))
    disk.room = 9
    journal.note(NodeStopped("broker", "asked"))
    assert [decoded(line).seq for line in disk.lines] == [1, 2, 3, 6]
    assert [entry.fact for entry in heard] == [
        FactsLeftOut(1, is_over=False),
        FactsLeftOut(3, is_over=True),
    ]
    assert journal.left_out == 3


def test_a_journal_that_is_closed_while_its_disk_is_full_announces_the_count() -> None:
    disk, heard = FullDisk(room=0), list[Entry]()
    journal = Journal.to_file("broker-a", StoppedClock(), disk)
    journal.listen(heard.append, (FactsLeftOut,))
    journal.note(NodeStopped("broker", "asked"))
    journal.note(NodeStopped("broker", "asked"))
    journal.close()
    assert heard[-1].fact == FactsLeftOut(2, is_over=True)
