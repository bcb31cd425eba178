"""The log: facts as lines, filtered by severity; clients log to the application."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from rocketmq_emulator.clocks.clock import StoppedClock
from rocketmq_emulator.facts import (
    Fact,
    HandlerFailed,
    ListenerRaised,
    MessageSent,
    NodeStarted,
    PullHeld,
    Queue,
    QueuesClaimed,
    RequestReceived,
    StoreRefused,
    logs,
)
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.facts.logs import LogFormat, LogSettings, log_to, log_to_application

A0, B3 = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 3)
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no\n'
RAISED = ListenerRaised("billing", A0, 7, "0A00", "ValueError: no", TRACEBACK, 1)
CLOCK = StoppedClock(1_700_000_000_123)


def logged(*facts: Fact, **settings: Any) -> list[str]:
    """The log lines of *facts* with these settings."""
    lines: list[str] = []
    journal = Journal("broker-a", CLOCK)
    log_to(journal, lines.append, LogSettings(**settings))
    for fact in facts:
        journal.note(fact)
    return lines


def test_a_line_has_the_time_the_severity_the_node_the_kind_and_the_fields() -> None:
    (line,) = logged(StoreRefused("no room for 3 bytes"))
    assert ".123 [error    ] broker-a   StoreRefused " in line
    assert "reason='no room for 3 bytes'" in line
    assert "advice='free some room, or choose a folder on another disk'" in line
    assert line.endswith("\n")


def test_queues_are_a_word_each() -> None:
    (line,) = logged(QueuesClaimed("billing", (A0, B3)), least="info")
    assert "queues='[orders/broker-a/0, orders/broker-b/3]'" in line


def test_a_traceback_stands_below_its_line() -> None:
    (text,) = logged(RAISED)
    first, *rest = text.splitlines()
    assert "ListenerRaised" in first
    assert "Traceback" not in first
    assert rest == TRACEBACK.splitlines()


@pytest.mark.parametrize(
    ("least", "shown"),
    [
        ("debug", ["PullHeld", "NodeStarted", "HandlerFailed"]),
        ("info", ["NodeStarted", "HandlerFailed"]),
        ("warning", ["HandlerFailed"]),
        ("error", ["HandlerFailed"]),
    ],
)
def test_only_what_is_severe_enough_is_shown(least: str, shown: list[str]) -> None:
    lines = logged(
        PullHeld("billing", A0, 3, 15_000, "10.0.0.9:1", 7),
        NodeStarted("broker", "127.0.0.1:1", "4.9.7"),
        RequestReceived("p:1", 10, 1),
        HandlerFailed("p:1", 10, "KeyError: 1", ""),
        least=least,
    )
    assert [kind for line in lines for kind in shown if kind in line] == shown
    assert len(lines) == len(shown)


def test_as_json_each_line_is_an_object_with_everything_by_name() -> None:
    (line,) = logged(RAISED, format=LogFormat.JSON)
    assert json.loads(line) == {
        "timestamp": "2023-11-14T22:13:20.123+00:00",
        "level": "error",
        "node": "broker-a",
        "event": "ListenerRaised",
        "group": "billing",
        "queue": {"topic": "orders", "broker": "broker-a", "queue_id": 0},
        "offset": 7,
        "uniq_key": "0A00",
        "error": "ValueError: no",
        "message_count": 1,
        "exception": TRACEBACK,
    }


def test_a_name_that_no_utf_8_can_say_is_shown_all_the_same() -> None:
    (line,) = logged(HandlerFailed("a\ud800b", 10, "KeyError", ""), format=LogFormat.JSON)
    assert json.loads(line)["peer"] == "a?b"


def test_a_silent_journal_still_wants_nothing_that_its_log_does_not_show() -> None:
    journal = Journal("broker-a", CLOCK)
    log_to(journal, print, LogSettings())
    assert not journal.wants(NodeStarted)
    assert journal.wants(HandlerFailed)


def test_where_structlog_cannot_be_loaded_the_fact_is_shown_without_it(monkeypatch) -> None:
    def unloadable(_settings: LogSettings) -> logs.Render:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(logs, "_renderer", unloadable)
    (line,) = logged(StoreRefused("full"))
    assert line.startswith("[error] broker-a StoreRefused reason=full advice='free some room")


@pytest.mark.parametrize("wall_ms", [10**15, -(10**15), 10**20])
@pytest.mark.parametrize("log_format", LogFormat)
def test_a_clock_beyond_all_calendars_does_not_fail_who_notes_a_fact(wall_ms, log_format) -> None:
    lines: list[str] = []
    journal = Journal("broker-a", StoppedClock(wall_ms))
    log_to(journal, lines.append, LogSettings(format=log_format))
    journal.note(StoreRefused("full"))
    assert lines[0].startswith("[error] broker-a StoreRefused reason=full")


# Clients in an application ----------------------------------------------------------------


def application_journal(clock: StoppedClock) -> Journal:
    journal = Journal("client", clock)
    log_to_application(journal)
    return journal


def test_an_application_sees_warnings_and_errors_in_its_own_log(caplog) -> None:
    journal = application_journal(CLOCK)
    journal.note(MessageSent("orders", A0, 1, "0A00", 1, 2, "SEND_OK"))
    journal.note(RAISED)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("rocketmq_emulator", logging.ERROR)
    first, *rest = record.getMessage().splitlines()
    assert first.startswith("client ListenerRaised group=billing queue=orders/broker-a/0")
    assert rest == TRACEBACK.splitlines()


def test_an_application_that_asks_for_more_gets_more(caplog) -> None:
    with caplog.at_level("INFO", "rocketmq_emulator"):
        journal = application_journal(CLOCK)
        assert journal.wants(MessageSent)
        assert not journal.wants(PullHeld)
    with caplog.at_level("CRITICAL", "rocketmq_emulator"):
        assert not application_journal(CLOCK).wants(ListenerRaised)


def test_where_nobody_configures_logging_warnings_reach_standard_error() -> None:
    program = (
        "from rocketmq_emulator.clocks.clock import StoppedClock\n"
        "from rocketmq_emulator.facts import StoreRefused\n"
        "from rocketmq_emulator.facts.journal import Journal\n"
        "from rocketmq_emulator.facts.logs import log_to_application\n"
        "import sys\n"
        "journal = Journal('client', StoppedClock())\n"
        "log_to_application(journal)\n"
        "journal.note(StoreRefused('full'))\n"
        "assert 'structlog' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stderr.startswith(b"client StoreRefused reason=full")
