"""At the end of a run all retries have come, and no message is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_emulator.facts import (
    MessagePolled,
    MessageSentBack,
    PowerLost,
    PullFailed,
    Queue,
    RunEnded,
    SeekRequested,
)
from tests.support.checks.small_journals import (
    Q0,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    a_member,
    client_of,
    objections,
)


def test_what_is_left_long_after_the_last_fault_is_stuck() -> None:
    journal = a_consumed_journal(5).sent(5).sent(6).at_s(100).fault("stall", "broker-a")
    journal.at_s(120).healed().at_s(301).ends()
    judgement = journal.judged()
    assert objections(judgement, "liveness") == [
        (
            "billing has not consumed 2 messages of orders@broker-a:0 from 5 on, although "
            "no fault or send came for 181 s"
        )
    ]
    assert judgement.metrics["stuck.billing"] == 2


def test_all_consumed_is_liveness() -> None:
    assert objections(a_consumed_journal(5).at_s(500).ends().judged(), "liveness") == []


def test_where_nothing_is_left_the_bound_need_not_have_passed() -> None:
    judgement = a_consumed_journal(5).fault("stall", "broker-a").at_s(1).ends().judged()
    assert judgement.metrics["stuck.billing"] == 0
    assert "liveness" not in judgement.not_judged


def test_before_the_bound_nothing_is_judged_nor_while_a_fault_holds() -> None:
    journal = a_consumed_journal(5).sent(5).at_s(100).ends()
    assert "the bound is 180 s" in journal.judged().not_judged["liveness"]
    journal = a_consumed_journal(5).sent(5).fault("stall", "broker-a").at_s(900).ends()
    assert journal.judged().not_judged["liveness"] == "a fault lasts to the end"


def test_a_group_that_has_left_owes_nothing() -> None:
    journal = a_consumed_journal(5).sent(5).stopped("billing-1").at_s(900).ends()
    assert objections(journal.judged(), "liveness") == []


def test_a_run_that_never_became_quiet_is_counted() -> None:
    still = a_consumed_journal(5).note("world", RunEnded("finished", ""))
    moving = a_consumed_journal(5).note("world", RunEnded("finished", "queues change hands"))
    assert still.judged().metrics["unrest"] == 0
    assert moving.judged().metrics["unrest"] == 1


def sent_back(journal: AJournal, times: int, target: str = "%RETRY%billing") -> AJournal:
    return journal.note(
        "broker-a", MessageSentBack("billing", "orders", target, times, 3, 0, "10.0.0.9:1")
    )


def test_retries_are_counted() -> None:
    journal = a_consumed_journal(2).sent(2, key="k").consumed("billing-1", 2, key="k", ok=False)
    sent_back(journal, 1).stored(0, Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), key="k")
    metrics = journal.judged().metrics
    assert (metrics["failed_deliveries.billing"], metrics["sent_back"]) == (1, 1)
    assert (metrics["waiting_retries"], metrics["dead_letters"]) == (1, 0)
    sent_back(journal, 17, "%DLQ%billing").stored(0, Queue("%DLQ%billing", "b", 0), key="k")
    metrics = journal.judged().metrics
    assert (metrics["waiting_retries"], metrics["dead_letters.billing"]) == (0, 1)
    assert objections(journal.judged(), "retries") == []


def test_a_seventeenth_retry_is_a_violation() -> None:
    assert len(objections(sent_back(a_consumed_journal(1), 17).judged(), "retries")) == 1
    assert objections(sent_back(a_consumed_journal(1), 16).judged(), "retries") == []


def a_slow_lite_pull_member(
    *, queues: int = 21, last_s: float = 960, kind: str = "lite_pull", threads: int = 20
) -> AJournal:
    """One of its queues has messages; the first is polled at *last_s*; the run ends at 1,000 s."""
    all_queues = [Queue("orders", "broker-a", number) for number in range(queues)]
    plan = {"consumers": [{"group": "billing", "settings": {"pull_threads_max": threads}}]}
    journal = AJournal().runs(json.dumps(plan)).store()
    journal.consumer("billing-1", consumer_kind=kind).claimed(
        "billing-1", *all_queues, offsets=(0,) * queues
    )
    for offset in range(4):
        journal.sent(offset)
    journal.at_s(last_s).note("billing-1", MessagePolled("billing", all_queues[0], 0, "0-0"))
    return journal.at_s(1_000).ends()


def test_a_lite_pull_member_that_waits_for_threads_is_slow_and_not_stuck() -> None:
    judgement = a_slow_lite_pull_member().judged()
    assert objections(judgement, "liveness") == []
    assert judgement.metrics["excused_slow_polls.billing"] == 3


@pytest.mark.parametrize(
    "otherwise",
    [
        {"queues": 20},
        {"threads": 21},
        {"last_s": 950},  # two rounds of 20 s are over
        {"kind": "push"},
    ],
)
def test_a_member_with_threads_enough_or_without_any_progress_is_stuck(
    otherwise: dict[str, Any],
) -> None:
    assert len(objections(a_slow_lite_pull_member(**otherwise).judged(), "liveness")) == 1


def test_what_a_lite_pull_member_forgets_by_a_lost_seek_is_not_stuck() -> None:
    """It had pulled two messages more, the seek removes them, and the pull after it fails."""

    def left(*, fails: bool = True, newer: bool = False, late: bool = False) -> list[float]:
        journal = AJournal().runs().store().consumer("billing-1", consumer_kind="lite_pull")
        journal.note("broker-a", a_member(client_of("billing-1"))).sent(0).sent(1).sent(2).claimed(
            "billing-1", Q0, offsets=(0,)
        ).pulled(0, 3)
        journal.consumed("billing-1", 0).committed(1)
        journal.note("billing-1", SeekRequested("billing", Q0, 0))
        if newer:
            journal.sent(3)
        if fails:
            journal.at_s(11).note("billing-1", PullFailed("billing", Q0, "busy"))
        if late:
            journal.committed(1)  # until the next poll it commits as before its seek
        metrics = journal.at_s(15).committed(0).at_s(400).ends().judged().metrics
        names = ("stuck", "excused_stuck", "backlog", "forgotten")
        return [metrics[f"{name}.billing"] for name in names]

    assert left() == left(late=True) == [0, 2, 0, 2]
    assert left(fails=False) == [2, 0, 2, 0]
    assert left(newer=True) == [1, 2, 1, 2]  # it pulls the newer one, or it is stuck


def test_a_lost_seek_also_leaves_a_member_behind_what_is_stored_anew_at_lost_places() -> None:
    """It had pulled two messages that the broker then lost: it goes on at 3, as before."""

    def left(*, fails: bool, pulled: int = 3) -> list[float]:
        journal = AJournal().runs().store().consumer("billing-1", consumer_kind="lite_pull")
        journal.sent(0).sent(1).sent(2).claimed("billing-1", Q0, offsets=(0,)).pulled(0, pulled)
        journal.consumed("billing-1", 0).committed(1)
        journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, 3 * RECORD_BYTES, ()))
        journal.store().note("billing-1", SeekRequested("billing", Q0, 0)).stored(1, key="another")
        if fails:
            journal.at_s(11).note("billing-1", PullFailed("billing", Q0, "busy"))
        metrics = journal.at_s(15).committed(0).at_s(400).ends().judged().metrics
        return [metrics[f"{name}.billing"] for name in ("backlog", "forgotten")]

    assert left(fails=True) == [0, 1]
    assert left(fails=True, pulled=1) == [1, 0]
    assert left(fails=False) == [1, 0]
