"""Half messages without an end are asked about in time, not too early, and not too often."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    HalfMessageStored,
    LogCopied,
    MasterConnected,
    MessageEscaped,
    NodeKilled,
    NodeStarted,
    Queue,
    SlaveAcknowledged,
    StoreOpened,
    SyncStateSetChanged,
    TransactionAnswered,
    TransactionChecked,
    TransactionGivenUp,
)
from tests.support.checks.small_journals import Q0, RECORD_BYTES, objections
from tests.support.checks.small_transactions import (
    GIVEN_UP,
    GROUP,
    HALF,
    KEY,
    NODE,
    ATransaction,
)

SLAVE = "broker-a-1"


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


def test_a_broker_whose_sync_state_set_is_too_small_asks_as_any_other() -> None:
    """A check stores the message again with WAIT=false: renewHalfMessageInner."""
    plan = {"cluster": {"broker_settings": {"min_in_sync_replicas": 2}}}
    journal = ATransaction("5.3.3", plan=plan).half(None)
    journal.note("controller", SyncStateSetChanged("broker-a", (1,), 3))
    assert len(journal.at_s(80).ends().objected()) == 1


def late_after_it_can_be_read(*, read_s: float, by: str, late_s: float) -> int:
    """How many objections there are *late_s* after all in the sync-state set have the message."""
    journal = ATransaction("5.3.3")
    for number, node in enumerate(("broker-a", SLAVE), 1):
        journal.note(node, StoreOpened("ASYNC_FLUSH", True, 72, awaits_sync_state_set=True))
        role = "slave" if number == 2 else "master"
        journal.note(node, BrokerRoleChanged(role, number, "10.0.0.1:10911", 1))
    journal.note(SLAVE, MasterConnected("10.0.0.1:10912", 0))
    journal.note("controller", SyncStateSetChanged("broker-a", (1, 2), 2)).half(None)
    journal.at_s(read_s)
    if by == "copy":
        journal.note(SLAVE, LogCopied(RECORD_BYTES, RECORD_BYTES, 1))
        journal.note("broker-a", SlaveAcknowledged("10.0.0.2:1", RECORD_BYTES))
    elif by == "smaller set":
        journal.note("controller", SyncStateSetChanged("broker-a", (1,), 3))
    return len(journal.at_s(read_s + late_s).objected())


@pytest.mark.parametrize("by", ["copy", "smaller set"])
def test_nobody_is_asked_about_a_message_that_its_broker_cannot_read_yet(by) -> None:
    assert late_after_it_can_be_read(read_s=40, by=by, late_s=45) == 0
    assert late_after_it_can_be_read(read_s=40, by=by, late_s=50) == 1
    assert late_after_it_can_be_read(read_s=0, by=by, late_s=85) == 1
    assert late_after_it_can_be_read(read_s=40, by="nothing", late_s=50) == 0


def test_a_check_that_no_producer_answers_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(100).asked(1).at_s(120)
    assert f"broker-a asked about {KEY}, and no producer of {GROUP} answers" in journal.objected()
    busy = ATransaction().half("unknown").fault("pause", NODE).at_s(60).asked(1).at_s(80)
    assert busy.objected() == []


def test_a_question_that_nobody_answers_is_not_excused_by_the_next_one() -> None:
    plan = {"cluster": {"broker_settings": {"transaction_check_interval_ms": 5_000}}}
    journal = ATransaction(plan=plan).half("unknown")
    for number in (1, 2, 3):
        journal.at_s(5 + 5 * number).asked(number)
    unanswered = f"broker-a asked about {KEY}, and no producer of {GROUP} answers"
    assert unanswered in journal.at_s(24).objected()


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


@pytest.mark.parametrize(
    ("release", "ms", "is_allowed"), [("5.3.3", 60_000, True), ("5.3.3", 1_000, False)]
)
def test_a_clock_that_is_set_back_delays_the_record_of_an_end_since_batches(
    release, ms, is_allowed
) -> None:
    journal = ATransaction(release).fault("clock_jump", "broker-a", ms=ms).at_s(20).healed()
    said = journal.half().commits().at_s(60).asked(1).objected()
    assert (said == []) is is_allowed


def test_a_half_message_is_given_up_after_fifteen_checks_and_not_before() -> None:
    def given_up(times: int) -> list[str]:
        journal = ATransaction().half("unknown")
        for number in range(1, times + 1):
            journal.at_s(60 * number).asked(number).answers("unknown")
        fact = TransactionGivenUp(Q0, times, times, "checked too often", KEY)
        journal.stored(0, GIVEN_UP, KEY)
        journal.at_s(60 * times + 60).note("broker-a", fact)
        return journal.objected()

    assert given_up(15) == []
    assert given_up(14) == [f"{KEY} was given up after 14 checks"]
    assert f"{KEY} was asked about for the 16th time" in given_up(16)


def test_a_check_before_the_immunity_has_passed_is_objected_to() -> None:
    early = ATransaction().half("unknown").at_s(3).asked(1).answers("unknown").at_s(4)
    assert early.objected() == [
        f"{KEY} was asked about 3.0 s after it was stored: it is immune for 6 s"
    ]
    jumped = ATransaction().half("unknown").fault("clock_jump", "broker-a", ms=60_000)
    assert jumped.at_s(3).asked(1).answers("unknown").at_s(4).objected() == []


def test_a_half_message_that_a_slave_has_sent_on_is_as_old_as_at_its_first_broker() -> None:
    """The other broker counts from the time of the producer, which the bridge keeps."""
    there, half_there = Queue("orders", "broker-b", 0), Queue(HALF.topic, "broker-b", 0)

    def asked_there(at_s: float, *escaped: MessageEscaped) -> list[str]:
        journal = ATransaction("5.3.3").half("unknown").at_s(at_s).stored(0, half_there, KEY)
        journal.note("broker-b", HalfMessageStored(there, 0, 0, GROUP, KEY, -1))
        for fact in escaped:
            journal.note("broker-a-1", fact)
        journal.at_s(at_s + 0.6).stored(1, half_there, KEY)
        journal.note("broker-b", TransactionChecked(there, 0, 1, 1, "shop@1", GROUP, KEY))
        return [what for what in journal.answers("unknown").objected() if "immune" in what]

    escaped = MessageEscaped(Q0, "broker-b", 0, "transaction check", KEY)
    assert asked_there(20, escaped) == []
    assert len(asked_there(20)) == 1
    assert len(asked_there(3, escaped)) == 1


def test_a_copy_of_a_committed_message_that_a_slave_has_sent_on_is_as_old_as_the_first() -> None:
    """The other broker takes it for a half message: committed ones keep TRAN_MSG."""
    there, half_there = Queue("orders", "broker-b", 0), Queue(HALF.topic, "broker-b", 0)

    def asked_there(*escaped: MessageEscaped) -> list[str]:
        journal = ATransaction("5.3.3").half().commits().at_s(20).stored(0, half_there, KEY)
        journal.note("broker-b", HalfMessageStored(there, 0, 0, GROUP, KEY, -1))
        for fact in escaped:
            journal.note(f"{fact.queue.broker}-1", fact)
        journal.at_s(20.6).stored(1, half_there, KEY)
        journal.note("broker-b", TransactionChecked(there, 0, 1, 1, "shop@1", GROUP, KEY))
        return [what for what in journal.answers("unknown").objected() if "immune" in what]

    assert asked_there(MessageEscaped(Q0, "broker-b", 0, "delay level", KEY)) == []
    assert len(asked_there()) == 1
    elsewhere = MessageEscaped(Queue("orders", "broker-c", 0), "broker-b", 0, "delay level", KEY)
    assert len(asked_there(elsewhere)) == 1


def test_a_message_with_an_immunity_of_its_own_is_put_back_and_nobody_is_asked() -> None:
    journal = ATransaction().half_record()
    journal.note("broker-a", HalfMessageStored(Q0, 0, 0, GROUP, KEY, own_immunity_ms=150_000))
    for times in (1, 2):
        journal.at_s(60 * times).immune(times)
    assert journal.at_s(180).asked(3).at_s(181).objected() == []
    metrics = journal.ends().judged().metrics
    assert (metrics["transaction_checks.orders"], metrics["immune_checks.orders"]) == (1, 2)


def test_checks_of_an_immune_half_message_count_until_it_is_given_up() -> None:
    journal = ATransaction().half_record()
    journal.note("broker-a", HalfMessageStored(Q0, 0, 0, GROUP, KEY, own_immunity_ms=10**9))
    for times in range(1, 16):
        journal.at_s(60 * times).immune(times)
    journal.at_s(960).stored(0, GIVEN_UP, KEY)
    journal.note("broker-a", TransactionGivenUp(Q0, 15, 15, "checked too often", KEY))
    assert journal.objected() == []
    assert f"{KEY} was asked about for the 16th time" in journal.at_s(961).immune(16).objected()


def test_an_immune_copy_does_not_see_the_end_of_its_first_record() -> None:
    journal = ATransaction().half("commit").at_s(60).immune(1).commits().at_s(120).asked(2)
    assert journal.answers("commit").objected() == []
    assert journal.ends().judged().metrics["ends_forgotten"] == 1


def test_a_check_sooner_than_the_interval_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(60).asked(1).answers("unknown")
    journal.at_s(80).asked(2).answers("unknown")
    assert journal.objected() == [
        f"{KEY} was asked about again after 20.0 s: the interval of broker-a is 60 s"
    ]


def test_a_count_that_does_not_grow_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(60).asked(1).answers("unknown")
    journal.at_s(120).stored(2, HALF, KEY)
    journal.note("broker-a", TransactionChecked(Q0, 1, 2, 1, "shop@1", GROUP, KEY))
    assert journal.answers("unknown").objected() == [
        f"{KEY} was asked about for the 1th time, and its record counts 1"
    ]


def test_a_copy_that_is_another_message_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(60).stored(1, HALF, KEY, tags="TagA")
    journal.note("broker-a", TransactionChecked(Q0, 0, 1, 1, "shop@1", GROUP, KEY))
    (said,) = journal.answers("unknown").objected()
    assert said.startswith(f"{KEY} was stored again as '{KEY}' with the tags 'TagA'")


def test_a_message_that_was_given_up_is_kept_in_its_topic() -> None:
    journal = ATransaction().half("unknown")
    for number in range(1, 16):
        journal.at_s(60 * number).asked(number).answers("unknown")
    fact = TransactionGivenUp(Q0, 15, 15, "it has been checked 15 times", KEY)
    (said,) = journal.at_s(960).note("broker-a", fact).objected()
    assert said == f"{KEY} was given up, and is not in TRANS_CHECK_MAX_TIME_TOPIC"


def test_producers_answer_once_for_each_check() -> None:
    journal = ATransaction().half("unknown").at_s(60).asked(1).answers("unknown")
    journal.note(NODE, TransactionAnswered(GROUP, KEY, "unknown", ""))
    assert journal.objected() == [
        f"producers of {GROUP} answered 2 times about {KEY}, and were asked 1 times"
    ]


def test_an_end_of_an_older_record_does_not_end_the_newer_one() -> None:
    """The op names the older record: upstream asks about the newer one again."""
    journal = ATransaction().half(None).at_s(60).asked(1, client="").answers_late().commits()
    assert journal.at_s(120).asked(2, client="").at_s(121).objected() == []


def test_since_5_1_0_a_check_may_come_before_the_end_is_written() -> None:
    def asked_after(seconds: float) -> list[str]:
        journal = ATransaction("5.3.3").half(None).at_s(28).answers_late().commits()
        return journal.at_s(28 + seconds).asked(1).answers("commit").at_s(60).objected()

    forgotten = f"{KEY} has ended, and its producers are asked about it again"
    assert forgotten not in asked_after(4)
    assert forgotten in asked_after(9)


def test_a_copy_lost_with_the_power_may_never_be_asked_about_again() -> None:
    journal = ATransaction().half("unknown").at_s(60).asked(1).answers("unknown")
    cut = journal.power_lost_before_copy().at_s(300).ends().judged()
    assert objections(cut, "transaction_checks") == []
