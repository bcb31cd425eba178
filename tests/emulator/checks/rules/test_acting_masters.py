"""What a slave sends away while it acts as the master: journals that keep the rule or break it."""

from __future__ import annotations

import json
from typing import Any, Self

from docs.generate import replication
from docs.generate.sections import with_section
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.rules.while_away import WHILE_AWAY
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    HalfMessageSkipped,
    MessageEscaped,
    MessageNotEscaped,
    MessageStored,
    NodeStarted,
    Queue,
    QueuesLocked,
    SlaveConnected,
    StoreOpened,
    TimerMessageDropped,
    TimerMessagePutAside,
)
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.support.checks.small_journals import EPOCH_MS, RECORD_BYTES, AJournal, objections

SLAVE, OTHER = "broker-a-1", "broker-b"
SENT_TO = Queue("orders", "broker-a", 0)  # by its producer
THERE = Queue("orders", OTHER, 2)  # by the bridge
LEVEL_QUEUE = Queue(SCHEDULE_TOPIC, "broker-a", 1)  # level 2: 5 s
TIMERS = Queue(TIMER_TOPIC, "broker-a", 0)
PLAN = json.dumps({"cluster": {"acting_master": True, "release": "5.3.3"}})


class AnActingJournal(AJournal):
    """A message with the delay level 2 waits at broker-a, whose slave acts from second 3 on."""

    def opens(self) -> Self:
        self.runs(PLAN, "5.3.3")
        for node in ("broker-a", OTHER, SLAVE):
            self.note(node, NodeStarted("broker", "10.0.0.2:10911", "5.3.3"))
            self.note(node, StoreOpened("ASYNC_FLUSH", True, 72))
        self.note("broker-a", SlaveConnected("10.0.0.4:5", 0, 0))
        return self.consumer("billing-1", release="5.3.3")

    def waits(self, offset: int = 0, key: str = "k", queue: Queue = LEVEL_QUEUE) -> Self:
        """Its producer has sent it, and it is in a queue of messages that wait."""
        self._positions["broker-a"] += RECORD_BYTES
        position = self._positions["broker-a"]
        stored = MessageStored(queue, offset, position, key, RECORD_BYTES, "", "orders")
        self.note("broker-a", stored)
        if queue == TIMERS:
            out_ms = EPOCH_MS + 6_000
            self.note("broker-a", TimerMessagePutAside(SENT_TO, offset, out_ms, key))
        return self.acknowledged(offset, SENT_TO, key)

    def takes_over(self) -> Self:
        self.fault("kill", "broker-a")
        return self.note(SLAVE, ActingMasterBegan(1))

    def stored_there(self, offset: int = 0, key: str = "k") -> Self:
        return self.stored(offset, THERE, key)

    def escapes(self, key: str = "k", **fields: Any) -> Self:
        known = {"service": "delay level", "to_queue_id": 2, **fields}
        return self.note(SLAVE, MessageEscaped(SENT_TO, OTHER, uniq_key=key, **known))

    def fails(self, service: str = "delay level") -> Self:
        return self.note(SLAVE, MessageNotEscaped(SENT_TO, service, "no answer in time", "k"))

    def found(self, name: str = "escapes") -> list[str]:
        self.judgement = self.ends().judged()
        return objections(self.judgement, name)

    def metric(self, name: str) -> float:
        return self.judgement.metrics[name]


def an_acting_journal(**waiting: Any) -> AnActingJournal:
    return AnActingJournal().opens().waits(**waiting).at_s(3).takes_over()


def test_the_page_says_what_goes_on_and_names_the_rules_that_judge_it() -> None:
    page = replication.PAGE.read_text()
    name = "while a master is away"
    assert with_section(page, name, replication.away_text()) == page, "run make page"
    assert {rule for row in WHILE_AWAY for rule in row.judged_by} <= ALL.keys()


# Messages that arrive ---------------------------------------------------------------------


def test_a_message_that_another_broker_has_is_escaped_and_not_lost() -> None:
    journal = an_acting_journal().at_s(5.2).stored_there().escapes().at_s(60)
    assert journal.found() == []
    assert objections(journal.judgement, "lost") == []
    assert [journal.metric(name) for name in ("escaped", "escaped_again")] == [1, 0]
    assert journal.metric("waiting") == 0


def test_a_message_that_no_broker_has_is_reported() -> None:
    (found,) = an_acting_journal().at_s(5.2).escapes().at_s(60).found()
    assert found.startswith("broker-a-1 sent k to broker-b, which never stored it in orders")


def test_a_target_that_ended_may_not_have_noted_the_message() -> None:
    journal = an_acting_journal().at_s(5.2).escapes().fault("kill", OTHER, number=2).at_s(60)
    assert journal.found() == []


def test_the_record_at_the_target_may_come_later_in_the_journal() -> None:
    journal = an_acting_journal().at_s(5.2).escapes().stored_there().at_s(60)
    assert journal.found() == []


def test_two_retries_of_one_message_are_sent_at_one_time() -> None:
    """Both are due when the slave begins to act: two records, and then two claims."""
    journal = an_acting_journal().waits(1).at_s(5.2).stored_there().stored_there(1)
    assert journal.escapes().escapes().at_s(60).found() == []
    journal = an_acting_journal().waits(1).at_s(5.2).stored_there()
    (found,) = journal.escapes().escapes().at_s(60).found()
    assert "which never stored it" in found


def test_a_message_that_is_sent_late_without_a_fault_is_reported() -> None:
    journal = AnActingJournal().opens().waits().at_s(50).fault("kill", "broker-a").at_s(150)
    journal.note(SLAVE, ActingMasterBegan(1)).at_s(151 + 10).stored_there().escapes()
    assert journal.found() == []
    journal = AnActingJournal().opens().waits().at_s(50).fault("kill", "broker-a").at_s(150)
    journal.note(SLAVE, ActingMasterBegan(1)).at_s(151 + 12).stored_there().escapes()
    (found,) = journal.found()
    assert "s after it was due" in found


# Messages that come twice -----------------------------------------------------------------


def test_one_record_is_sent_once_in_a_time_of_acting() -> None:
    journal = an_acting_journal().at_s(5.2).stored_there().escapes()
    (found,) = journal.at_s(6).stored_there(1).escapes().found()
    assert "2 times: broker-a stored it 1 times" in found
    assert journal.metric("escaped_again") == 1


def test_it_may_be_sent_again_after_a_failure_and_in_another_time_of_acting() -> None:
    journal = an_acting_journal().at_s(5.2).stored_there().escapes().fails()
    journal.at_s(6).stored_there(1).escapes()
    journal.note(SLAVE, ActingMasterEnded(1, 0)).at_s(20).note(SLAVE, ActingMasterBegan(1))
    assert journal.at_s(22).stored_there(2).escapes().found() == []
    assert journal.metric("escapes_failed") == 1


def test_a_slave_that_does_not_act_sends_nothing() -> None:
    journal = AnActingJournal().opens().waits().at_s(15).stored_there().escapes()
    (found,) = journal.found()
    assert "does not act as the master" in found


def test_its_master_may_deliver_it_once_more() -> None:
    journal = an_acting_journal().at_s(5.2).stored_there().escapes()
    journal.healed().note(SLAVE, ActingMasterEnded(1, 0)).at_s(8)
    journal.note("broker-a", NodeStarted("broker", "10.0.0.2:10911", "5.3.3"))
    journal.at_s(9).delivered(0, SENT_TO, 2, "k").found()
    assert objections(journal.judgement, "places") == []


# Messages that are given up ---------------------------------------------------------------


def test_a_timer_message_that_a_slave_drops_is_counted_and_not_lost() -> None:
    journal = an_acting_journal(queue=TIMERS).at_s(7)
    journal.note(SLAVE, TimerMessageDropped(SENT_TO, 0, "enableRemoteEscape is off", "k")).at_s(60)
    assert journal.found("lost") == []
    counted = ("timers_given_up", "excused_given_up", "waiting")
    assert [journal.metric(name) for name in counted] == [1, 1, 0]


def test_a_timer_message_that_its_master_drops_is_lost() -> None:
    journal = AnActingJournal().opens().waits(queue=TIMERS).at_s(7)
    journal.note("broker-a", TimerMessageDropped(SENT_TO, 0, "a bug", "k")).at_s(60)
    assert len(journal.found("lost")) == 1


def test_half_messages_that_a_slave_skips_are_counted() -> None:
    journal = an_acting_journal().at_s(9)
    journal.note(SLAVE, HalfMessageSkipped(SENT_TO, 4, 11, "enableRemoteEscape is off", "h"))
    assert journal.found() == []
    assert journal.metric("halves_skipped") == 1


# Locks ------------------------------------------------------------------------------------


def test_a_slave_grants_locks_that_its_master_had_granted_to_another() -> None:
    journal = an_acting_journal().note("broker-a", QueuesLocked("billing", "one", (SENT_TO,), ()))
    journal.at_s(5).note(SLAVE, QueuesLocked("billing", "two", (SENT_TO,), ()))
    assert journal.found("locks") == []
    journal.at_s(6).note(SLAVE, QueuesLocked("billing", "three", (SENT_TO,), ()))
    assert len(journal.found("locks")) == 1
