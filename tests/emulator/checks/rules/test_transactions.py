"""Transactions: seen after their commit only, ended as told, and asked about in time."""

from __future__ import annotations

from typing import Literal

import pytest

from rocketmq_emulator.facts import (
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LocalTransactionEnded,
    NodeKilled,
    NodeStarted,
    Queue,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from tests.support.checks.small_journals import Q0, AJournal, objections

HALF = Queue(TRANS_HALF_TOPIC, "broker-a", 0)
OPS = Queue(TRANS_OP_HALF_TOPIC, "broker-a", 0)
KEY, GROUP, NODE = "0-0", "shop", "producer"
Outcome = Literal["commit", "rollback", "unknown"]


class ATransaction(AJournal):
    """A journal of one half message, whose records have the offsets 0, 1, 2 …"""

    def __init__(self, release: str = "4.9.7") -> None:
        super().__init__()
        self.op_count = 0
        self.runs(release=release).store()
        self.note("broker-a", NodeStarted("broker", "10.0.0.1:10911", release))

    def half(self, outcome: Outcome | None = "commit", status: str = "SEND_OK") -> ATransaction:
        """A half message is stored; None: its producer dies before its transaction ends."""
        self.stored(0, HALF, KEY)
        self.note("broker-a", HalfMessageStored(Q0, 0, 0, GROUP, KEY))
        self.note(NODE, HalfMessageSent("orders", Q0, 0, KEY, 1, 1, status))
        if outcome is not None:
            self.note(NODE, LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, outcome, ""))
        return self

    def commits(self, offset: int = 0, half: int = 0, *, by_check: bool = False) -> ATransaction:
        self.stored(offset, Q0, KEY)
        self.stored(self.op_count, OPS, "")
        self.op_count += 1
        return self.over("commit", half, offset, by_check=by_check)

    def over(
        self,
        outcome: Literal["commit", "rollback"],
        half: int = 0,
        stored: int = -1,
        *,
        by_check: bool = False,
    ) -> ATransaction:
        fact = TransactionEnded(Q0, half, outcome, GROUP, by_check, stored, KEY)
        self.note("broker-a", fact)
        return self

    def asked(self, times: int, client: str = "shop@1") -> ATransaction:
        """The broker stores the half message again, and asks *client*."""
        self.stored(times, HALF, KEY)
        fact = TransactionChecked(Q0, times - 1, times, times, client, GROUP, KEY)
        self.note("broker-a", fact)
        return self

    def immune(self, times: int) -> ATransaction:
        """The broker stores the half message again, and asks nobody."""
        self.stored(times, HALF, KEY)
        fact = ImmuneHalfStoredAgain(Q0, times - 1, times, times, 60_000, GROUP, KEY)
        self.note("broker-a", fact)
        return self

    def answers(self, outcome: Outcome) -> ATransaction:
        self.note(NODE, TransactionAnswered(GROUP, KEY, outcome, ""))
        return self

    def objected(self) -> list[str]:
        return objections(self.ends().judged(), "transactions")


def test_a_committed_message_is_owed_to_the_group_and_a_rolled_back_one_is_not() -> None:
    lost = ATransaction().consumer("billing-1").claimed("billing-1", Q0).half().commits()
    lost.pulled(0, 1).committed(1)
    assert objections(lost.ends().judged(), "lost") != []
    ended = (
        ATransaction()
        .consumer("billing-1")
        .claimed("billing-1", Q0)
        .half("rollback")
        .over("rollback")
    )
    judged = ended.ends().judged()
    assert (objections(judged, "lost"), objections(judged, "transactions")) == ([], [])
    assert judged.metrics["rolled_back.orders"] == 1
    assert judged.metrics["open_transactions"] == 0


@pytest.mark.parametrize(
    ("outcome", "ends"), [("rollback", "was rolled back"), ("unknown", "was not ended")]
)
def test_a_message_that_is_seen_without_its_commit_is_objected_to(outcome, ends) -> None:
    journal = ATransaction().half(outcome)
    if outcome == "rollback":
        journal.over("rollback")
    (said,) = journal.stored(0, Q0, KEY).objected()
    assert said == f"{KEY} is in orders@broker-a:0, and its transaction {ends}"


def test_a_message_that_is_consumed_without_its_commit_is_objected_to() -> None:
    journal = ATransaction().consumer("billing-1").claimed("billing-1", Q0).half("rollback")
    said = journal.over("rollback").consumed("billing-1", 0, key=KEY).objected()
    assert f"{KEY} was consumed by billing, and its transaction was rolled back" in said


def test_an_end_that_no_producer_told_is_objected_to() -> None:
    (said,) = ATransaction().half("rollback").commits().objected()
    assert said == f"{KEY} ended with a commit, and its producers said rollback"
    assert (
        ATransaction()
        .half("unknown")
        .at_s(60)
        .asked(1)
        .answers("commit")
        .commits(half=1)
        .objected()
        == []
    )


def test_a_second_commit_is_explained_by_a_second_producer_s_word_only() -> None:
    journal = ATransaction().half().at_s(60).asked(1).commits().answers("commit")
    again = journal.commits(1, half=1, by_check=True)
    judged = again.ends().judged()
    assert objections(judged, "transactions") == []
    assert judged.metrics["committed_again"] == 1
    (said,) = ATransaction().half().commits().commits(1).objected()
    assert said == f"{KEY} was committed 2 times, and its producers said so 1 times"


@pytest.mark.parametrize(("release", "every_s"), [("4.9.7", 60), ("5.3.3", 30)])
def test_a_half_message_that_nobody_is_asked_about_is_objected_to(release, every_s) -> None:
    in_time = ATransaction(release).half(None).at_s(every_s).asked(1, client="").at_s(2 * every_s)
    assert in_time.objected() == []
    (said,) = ATransaction(release).half(None).at_s(every_s + 20).objected()
    assert said == f"nobody was asked about {KEY} of {GROUP} for {every_s + 20} s"
    late = (
        ATransaction(release).half(None).at_s(every_s).asked(1, client="").at_s(2 * every_s + 20)
    )
    assert len(late.objected()) == 1


def test_a_broker_that_was_down_may_ask_late() -> None:
    journal = ATransaction().half(None).at_s(50).note("world", NodeKilled("broker-a"))
    journal.at_s(70).note("broker-a", NodeStarted("broker", "10.0.0.1:10911", "4.9.7"))
    judged = journal.at_s(125).ends().judged()
    assert objections(judged, "transactions") == []
    assert judged.metrics["excused_late_checks"] == 1


def test_a_check_that_no_producer_answers_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(100).asked(1).at_s(120)
    assert f"broker-a asked about {KEY}, and no producer of {GROUP} answers" in journal.objected()
    busy = ATransaction().half("unknown").fault("pause", NODE).at_s(60).asked(1).at_s(80)
    assert busy.objected() == []


def test_nobody_asked_is_objected_to_while_a_producer_runs() -> None:
    assert ATransaction().half("unknown").at_s(70).asked(1, client="").objected() == [
        f"nobody was asked about {KEY}, and {NODE} of its group runs"
    ]
    gone = (
        ATransaction().half("unknown").note("world", NodeKilled(NODE)).at_s(70).asked(1, client="")
    )
    judged = gone.ends().judged()
    assert objections(judged, "transactions") == []
    assert judged.metrics["unasked_checks.orders"] == 1


@pytest.mark.parametrize(
    ("release", "killed_s", "is_allowed"), [("5.3.3", 2, True), ("4.9.7", 2, False)]
)
def test_an_end_is_forgotten_by_a_kill_only_before_its_record_is_written(
    release, killed_s, is_allowed
) -> None:
    journal = (
        ATransaction(release).half().commits().at_s(killed_s).note("world", NodeKilled("broker-a"))
    )
    journal.note("broker-a", NodeStarted("broker", "10.0.0.1:10911", release))
    said = journal.at_s(60).asked(1).objected()
    assert (said == []) is is_allowed
    assert is_allowed or f"{KEY} has ended, and its producers are asked about it again" in said


def test_a_half_message_is_given_up_after_fifteen_checks_and_not_before() -> None:
    def given_up(times: int) -> list[str]:
        journal = ATransaction().half("unknown")
        for number in range(1, times + 1):
            journal.at_s(60 * number).asked(number).answers("unknown")
        fact = TransactionGivenUp(Q0, times, times, "checked too often", KEY)
        journal.at_s(60 * times + 60).note("broker-a", fact)
        return journal.objected()

    assert given_up(15) == []
    assert given_up(14) == [f"{KEY} was given up after 14 checks"]
    assert f"{KEY} was asked about for the 16th time" in given_up(16)


def test_a_check_of_an_immune_half_message_counts_and_asks_nobody() -> None:
    journal = ATransaction().half("unknown")
    for number in range(1, 16):
        journal.at_s(60 * number).immune(number)
    journal.at_s(960).note("broker-a", TransactionGivenUp(Q0, 15, 15, "checked", KEY))
    judged = journal.ends().judged()
    assert objections(judged, "transactions") == []
    found = (judged.metrics[name] for name in ("immune_checks", "given_up", "open_transactions"))
    assert [*found] == [15, 1, 0]


def test_an_immune_copy_does_not_see_the_end_of_its_first_record() -> None:
    journal = ATransaction().half("commit").at_s(60).immune(1).commits().at_s(120).asked(2)
    judged = journal.answers("commit").ends().judged()
    assert objections(judged, "transactions") == []
    assert judged.metrics["ends_forgotten"] == 1


def test_client_invariant_24_an_unsafe_half_message_is_rolled_back() -> None:
    (objection,) = ATransaction().half("commit", status="FLUSH_DISK_TIMEOUT").commits().objected()
    assert objection == (
        f"{KEY} was stored with FLUSH_DISK_TIMEOUT, and its local transaction ran: commit"
    )
    journal = ATransaction().half("rollback", status="FLUSH_DISK_TIMEOUT").over("rollback")
    assert journal.objected() == []
