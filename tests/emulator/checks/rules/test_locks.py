"""Locks: one holder at a time, and no call of a listener without a lock."""

from __future__ import annotations

from rocketmq_emulator.facts import NodeStarted, QueuesLocked, QueuesUnlocked
from tests.support.checks.small_journals import Q0, AJournal, client_of, objections


def members() -> AJournal:
    journal = AJournal().runs().consumer("billing-1", orderly=True)
    return journal.consumer("billing-2", orderly=True)


def lock(journal: AJournal, node: str) -> AJournal:
    return journal.note("broker-a", QueuesLocked("billing", client_of(node), (Q0,), ()))


def broken(journal: AJournal) -> list[str]:
    return objections(journal.judged(), "locks")


def test_a_listener_under_its_lock_is_right_also_after_a_hand_over() -> None:
    journal = lock(members(), "billing-1").at_s(20).given("billing-1", 0)
    journal.note("broker-a", QueuesUnlocked("billing", client_of("billing-1"), (Q0,)))
    assert broken(lock(journal, "billing-2").given("billing-2", 1)) == []


def test_a_lock_that_is_granted_twice_is_a_violation_until_it_has_expired() -> None:
    assert broken(lock(lock(members(), "billing-1").at_s(59), "billing-2")) == [
        (
            "broker-a gave billing-2@1 the lock of orders:0, which billing-1@1 was given 59.0 s "
            "before and has not given back"
        )
    ]
    assert broken(lock(lock(members(), "billing-1").at_s(61), "billing-2")) == []


def test_a_broker_that_is_started_again_has_no_locks() -> None:
    journal = lock(members(), "billing-1").note("broker-a", NodeStarted("broker", "", "4.9.7"))
    assert broken(lock(journal, "billing-2")) == []


def test_what_a_broker_forgot_and_gave_another_member_is_counted_and_no_violation() -> None:
    journal = lock(members(), "billing-1").note("broker-a", NodeStarted("broker", "", "4.9.7"))
    judgement = lock(journal, "billing-2").given("billing-1", 0).judged()
    assert objections(judgement, "locks") == []
    assert judgement.metrics["forgotten_locks.billing"] == 1


def test_a_listener_without_a_lock_is_a_violation() -> None:
    journal = lock(members(), "billing-2").given("billing-1", 0)
    assert broken(journal) == [
        "billing-1 was given offset 0 without ever having its lock: orders@broker-a:0"
    ]


def test_a_lock_is_30_s_old_at_most_and_its_answer_may_take_a_second() -> None:
    assert broken(lock(members(), "billing-1").at_s(30.9).given("billing-1", 0)) == []
    assert len(broken(lock(members(), "billing-1").at_s(31.1).given("billing-1", 0))) == 1


def test_a_listener_with_an_old_lock_is_a_violation() -> None:
    journal = lock(members(), "billing-1").at_s(33).given("billing-1", 0)
    assert broken(journal) == [
        "billing-1 was given offset 0 with a lock of 32 s ago: orders@broker-a:0"
    ]


def test_a_listener_whose_lock_another_member_took_is_a_violation() -> None:
    def main(ms: int) -> AJournal:
        journal = lock(members(), "billing-1").at_s(5).fault("clock_jump", "broker-a", ms=ms)
        journal.fault("clock_jump", "billing-1", ms=ms, number=2)
        return lock(journal, "billing-2").given("billing-1", 0)

    assert broken(main(60_000)) == []  # the lock had lapsed by its broker's clock
    assert broken(main(500))[1:] == [
        "billing-1 was given offset 0 while billing-2@1 has its lock: orders@broker-a:0"
    ]


def test_concurrent_groups_need_no_lock() -> None:
    assert broken(AJournal().runs().consumer("billing-1").given("billing-1", 0)) == []


def unlock(journal: AJournal, node: str) -> AJournal:
    return journal.note("broker-a", QueuesUnlocked("billing", client_of(node), (Q0,)))


def an_unlock_that_comes_late(
    after_s: float = 20, release: str = "4.9.7", *, goes_again: bool = False
) -> AJournal:
    """Released at 10 s, claimed again at 15 s, unlocked later, then locked by another member."""
    journal = AJournal().runs().consumer("billing-1", orderly=True, release=release)
    lock(journal.consumer("billing-2", orderly=True), "billing-1").claimed("billing-1", Q0)
    lock(journal.at_s(10).released("billing-1", Q0).at_s(15), "billing-1")
    journal.claimed("billing-1", Q0)
    if goes_again:
        lock(journal.at_s(18).released("billing-1", Q0).at_s(19), "billing-1")
        journal.claimed("billing-1", Q0)
    unlock(journal.at_s(10 + after_s), "billing-1")
    return lock(journal.at_s(10.5 + after_s), "billing-2")


def test_a_lock_that_its_member_gave_back_too_late_is_counted_and_no_violation() -> None:
    for goes_again in (False, True):
        journal = an_unlock_that_comes_late(goes_again=goes_again).at_s(31)
        judgement = journal.given("billing-1", 0).judged()
        assert objections(judgement, "locks") == []
        assert judgement.metrics["late_unlocks.billing"] == 1


def test_an_unlock_is_late_20_s_after_a_release_up_to_5_1_4_and_at_no_other_time() -> None:
    def main(after_s: float, release: str = "4.9.7") -> int:
        journal = an_unlock_that_comes_late(after_s, release)
        return len(broken(journal.given("billing-1", 0)))

    assert (main(20), main(20.9)) == (0, 0)
    assert (main(19), main(21.5)) == (1, 1)
    assert (main(20, "5.1.4"), main(20, "5.2.0")) == (0, 1)


def test_after_its_next_try_to_lock_the_queue_a_member_has_no_excuse() -> None:
    journal = an_unlock_that_comes_late().at_s(33)
    refused = QueuesLocked("billing", client_of("billing-1"), (), (Q0,))
    journal.note("broker-a", refused).given("billing-1", 0)
    assert broken(journal) == [
        "billing-1 was given offset 0 while billing-2@1 has its lock: orders@broker-a:0"
    ]


def test_a_member_that_did_not_claim_the_queue_again_has_no_excuse() -> None:
    journal = lock(members(), "billing-1").claimed("billing-1", Q0).at_s(10)
    unlock(journal.released("billing-1", Q0).at_s(30), "billing-1")
    assert len(broken(lock(journal, "billing-2").given("billing-1", 0))) == 1
