"""Traces of several clients, in any order, as the life of one message."""

from __future__ import annotations

import pytest

from rocketmq_emulator.admin.message_traces import MessageLife, life_of
from rocketmq_emulator.cli.messages.message_life import (
    Timeline,
    head_text,
    life_table,
    note_text,
)
from rocketmq_emulator.protocol.messages.traces import (
    EndTransactionTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    decode_traces,
)
from tests.protocol.messages.test_traces import RECORDED, a_pub


def recorded_lives(client: str) -> dict[str, MessageLife]:
    """Each traced message of a recording by its keys."""
    found: dict[str, list] = {}
    for line in RECORDED:
        if line["client"] == client:
            for trace in decode_traces(line["body"].encode()).traces:
                found.setdefault(trace.msg_id, []).append(trace)
    return {life_of(id_, traces).keys: life_of(id_, traces) for id_, traces in found.items()}


def described(life: MessageLife) -> list[tuple]:
    return [(step.kind, step.group, step.delivery, step.outcome) for step in life.steps]


@pytest.mark.parametrize("client", ["java 4.9.8", "java 5.3.3"])
def test_the_recorded_messages_of_java_live_as_the_story_has_it(client: str) -> None:
    lives = recorded_lives(client)
    refused = {step for step in described(lives["clé"]) if step[1] == "trace-concurrent"}
    assert refused == {
        ("consumed", "trace-concurrent", 1, "failed"),
        ("consumed", "trace-concurrent", 2, "success"),
    }
    raised = {step[2:] for step in described(lives["async"]) if step[1] == "trace-concurrent"}
    assert raised == {(1, "exception"), (2, "success")}
    checked = [step for step in lives["t3"].steps if step.group == "trace-transactions"]
    assert [(step.kind, step.outcome, step.after_check) for step in checked] == [
        ("sent", "stored", False),
        ("transaction", "unknown", False),
        ("transaction", "commit", True),
    ]
    assert checked[0].message_type == "half"
    assert not [step for step in lives["t2"].steps if step.kind == "consumed"]  # rolled back
    assert lives["late"].steps[0].message_type == "delayed"


def test_the_recorded_messages_of_go_live_as_the_story_has_it() -> None:
    life = recorded_lives("go 2.1.2")["refused"]
    assert [(step.kind, step.delivery, step.ok) for step in life.steps] == [
        ("sent", 0, True),
        ("consumed", 1, False),
        ("consumed", 2, True),
    ]
    assert life.steps[1].outcome == "failed"  # although Go writes the code of success
    assert all(step.client_host for step in life.steps)


def a_before(**fields) -> SubBeforeTrace:
    given = {"region": "r", "group": "g", "request_id": "R", "msg_id": "ID", "keys": None}
    return SubBeforeTrace(**{"at_ms": 10, "retry_times": 0, **given, **fields})


def an_after(**fields) -> SubAfterTrace:
    given = {"request_id": "R", "msg_id": "ID", "cost_ms": 5, "ok": True, "keys": None}
    return SubAfterTrace(**{**given, "at_ms": 15, "group": "g", **fields})


def test_a_call_without_its_end_and_an_end_without_its_call_are_steps() -> None:
    life = life_of("ID", [an_after(request_id="other", at_ms=8, code=2, ok=False), a_before()])
    assert [(step.at_ms, step.outcome, step.ok) for step in life.steps] == [
        (3, "exception", False),
        (10, "", None),
    ]
    assert "runs still" in note_text(life)
    assert "no end" in str(life_table(life).lines(80)[-1])


def test_ends_of_transactions_and_recalls_are_steps() -> None:
    end = EndTransactionTrace(
        at_ms=7,
        region="r",
        group="g",
        topic="t",
        msg_id="ID",
        tags=None,
        keys=None,
        store_host="h",
        msg_type=2,
        transaction_id="ID",
        state="ROLLBACK_MESSAGE",
        from_check=True,
    )
    recall = RecallTrace(at_ms=9, region="r", group="g", topic="t", msg_id="ID", ok=False)
    life = life_of("ID", [recall, end])
    assert [(step.kind, step.outcome, step.ok) for step in life.steps] == [
        ("transaction", "rollback", False),
        ("recalled", "refused", False),
    ]
    assert [line.plain.split()[1] for line in life_table(life).lines(80)[1:]] == [
        "check",
        "recalled",
    ]


def test_unknown_numbers_of_types_are_shown_as_they_are() -> None:
    life = life_of("ID", [a_pub(msg_type=77), a_before(), an_after(code=-3)], unreadable=2)
    assert life.steps[0].message_type == "77"
    assert life.steps[1].outcome == "-3"
    assert "2 records could not be read" in note_text(life)


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_bars_are_to_scale(width: int) -> None:
    long = a_before(at_ms=501, group="a group with a name\x1b of many characters")
    traces = [a_pub(at_ms=1, cost_ms=100), long, an_after(cost_ms=500, at_ms=1001)]
    life = life_of("ID", traces)
    assert all(line.cell_len <= width for line in life_table(life).lines(width))
    axis, sent, consumed = Timeline(life).lines(width)
    assert all(line.cell_len <= width for line in (axis, sent, consumed))
    assert "\x1b" not in consumed.plain
    begin = len(sent.plain) - len(sent.plain.lstrip("g ").removeprefix("sent").lstrip())
    room = width - begin
    assert sent.plain.count("█") == max(1, room // 10)
    assert abs(consumed.plain.index("█") - begin - room // 2) <= 1
    assert abs(consumed.plain.count("█") - room // 2) <= 1


def test_a_life_of_one_moment_is_one_character() -> None:
    life = life_of("ID", [a_pub(cost_ms=0, tags="T")])
    assert Timeline(life).lines(80)[1].plain.split()[-1] == "█"
    assert head_text(life) == "ID  t  T  k1 k2"
