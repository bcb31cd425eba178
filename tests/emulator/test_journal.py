"""The journal: what it writes, and for whom."""

from __future__ import annotations

import msgspec

from emulator.facts import GroupCreated, TopicChanged
from emulator.journal import Journal


def test_a_fact_is_one_numbered_line() -> None:
    lines: list[bytes] = []
    journal = Journal("broker-a", lambda: 17, lines.append)
    journal.note(GroupCreated("billing", "heartbeat"))
    journal.note(GroupCreated("orders", "pull"))
    assert [msgspec.json.decode(line) for line in lines] == [
        {
            "seq": number,
            "at_ms": 17,
            "node": "broker-a",
            "fact": {"kind": "GroupCreated", "group": group, "by": by},
        }
        for number, group, by in ((1, "billing", "heartbeat"), (2, "orders", "pull"))
    ]


def test_a_name_that_no_utf_8_can_say_is_written_with_a_question_mark() -> None:
    lines: list[bytes] = []
    Journal("broker-a", lambda: 17, lines.append).note(GroupCreated("a\ud800b", "heartbeat"))
    assert msgspec.json.decode(lines[0])["fact"]["group"] == "a?b"


def test_nobody_wants_a_fact_that_nobody_would_read() -> None:
    assert not Journal("broker-a", lambda: 17).wants(GroupCreated)
    choosy = Journal("broker-a", lambda: 17, lambda _line: None, kinds=[GroupCreated])
    assert choosy.wants(GroupCreated)
    assert not choosy.wants(TopicChanged)
