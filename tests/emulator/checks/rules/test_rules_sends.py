"""The outcomes of a topic's sends."""

from __future__ import annotations

from rocketmq_emulator.facts import SendFailed
from tests.support.checks.small_journals import Q0, AJournal


def test_sends_are_counted_by_what_became_of_them() -> None:
    journal = AJournal().runs().sent(0).sent(1, attempts=3, took_ms=40)
    journal.sent(2, status="FLUSH_DISK_TIMEOUT")
    journal.note("producer", SendFailed("orders", "k", 3, "RemoteError: …", maybe_stored=True))
    journal.note("producer", SendFailed("others", "l", 1, "no route", maybe_stored=False))
    metrics = journal.judged().metrics
    assert metrics["sends.orders"] == 3
    assert metrics["failed_sends"] == 2
    assert metrics["failed_sends.orders"] == metrics["maybe_stored"] == 1
    assert metrics["retried_sends.orders"] == metrics["unsafe_sends.orders"] == 1
    assert metrics["send_ms_mean.orders"] == (1 + 40 + 1) / 3
    assert (metrics["send_ms_p50.orders"], metrics["longest_send_ms"]) == (1, 40)


def test_a_journal_without_producers_counts_nothing() -> None:
    judgement = AJournal().runs().stored(0, Q0).judged()
    assert "sends" not in judgement.metrics
    assert judgement.not_judged["sends"].startswith("the journal has no MessageSent or ")
