"""Excuses of the monitors of pulls, locks, listeners and commits: inside, outside, afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRoleChanged,
    FaultBegan,
    LogRecovered,
    MasterConnected,
    MetadataSynced,
    NodePaused,
    NodeResumed,
    NodeStarted,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
    TopicCreated,
)
from tests.support.checks.journals_of_members import ONE, TWO, a_cluster, a_fault, found, joined
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    AJournal,
    a_member,
    client_of,
    objections,
)

Q_OF_B = Queue("orders", "broker-b", 0)
A_AND_B = ("broker-a", "broker-b")


def metric(journal: AJournal, name: str) -> float:
    return journal.judged().metrics[name]


# Queues that are held and not pulled -----------------------------------------------------------


def not_pulled(node: str = "", *, word: str = "partition", ends_s: float = 100) -> AJournal:
    """Q0 is claimed at 1 s and never pulled; a fault of *node* holds from 20 s to 60 s."""
    journal = joined(a_cluster(), ONE).consumer(ONE).pulled(0, 0, Q1).at_s(1).claimed(ONE, Q0)
    if node:
        journal.at_s(20).fault(word, node).at_s(60).healed()
    return journal.at_s(ends_s).ends()


@pytest.mark.parametrize("node", [ONE, "broker-a"])
def test_a_held_queue_is_pulled_35_s_after_a_fault(node) -> None:
    assert found(not_pulled(node, ends_s=94), "queues_are_pulled") == (0, 1)
    assert found(not_pulled(node, ends_s=96), "queues_are_pulled") == (1, 0)
    assert found(not_pulled("broker-b", ends_s=94), "queues_are_pulled") == (1, 0)


def without_lock(node: str = ONE, queue: Queue = Q0, *, ends_s: float = 94) -> AJournal:
    """The broker refuses *node* the lock of *queue* at 40 s and at 60 s; ONE never pulls Q0."""
    journal = joined(a_cluster(), ONE).consumer(ONE, orderly=True).pulled(0, 0, Q1)
    journal.at_s(1).claimed(ONE, Q0)
    refused = QueuesLocked("billing", client_of(node), (), (queue,))
    journal.at_s(40).note("broker-a", refused).at_s(60).note("broker-a", refused)
    return journal.at_s(ends_s).ends()


def test_a_member_that_its_broker_refuses_the_lock_pulls_35_s_after_the_last_refusal() -> None:
    assert found(without_lock(), "queues_are_pulled") == (0, 1)
    assert found(without_lock(ends_s=96), "queues_are_pulled") == (1, 0)
    assert found(without_lock(TWO), "queues_are_pulled") == (1, 0)
    assert found(without_lock(queue=Q1), "queues_are_pulled") == (1, 0)


def not_given_up(
    *, own: int = 0, orderly: bool = True, pulled_s: float = 50, ends_s: float = 170
) -> AJournal:
    """A rebalance at 30 s gives ONE *own* of its two queues; it releases none."""
    journal = joined(a_cluster(), ONE).consumer(ONE, orderly=orderly).claimed(ONE, Q0, Q1)
    passed = RebalancePassed("billing", "orders", 4, (client_of(ONE),), own, "timer")
    journal.at_s(30).note(ONE, passed)
    for at_s, queue in ((pulled_s, Q0), (ends_s - 1, Q1)):
        answered = PullAnswered("billing", queue, 0, 19, 0, 0, f"{ONE}:1", 0)
        journal.at_s(at_s).note("broker-a", answered)
    return journal.at_s(ends_s).ends()


def test_an_orderly_queue_that_could_not_be_given_up_is_pulled_again_after_120_s() -> None:
    """The process queue stays in the table, dropped, until its last pull counts as expired."""
    assert found(not_given_up(), "queues_are_pulled") == (0, 1)
    assert found(not_given_up(own=2), "queues_are_pulled") == (1, 0)
    assert found(not_given_up(orderly=False), "queues_are_pulled") == (1, 0)
    assert found(not_given_up(pulled_s=56), "queues_are_pulled") == (1, 0)
    assert found(not_given_up(ends_s=176), "queues_are_pulled") == (1, 0)


def test_a_queue_stays_dropped_though_a_later_pass_gives_up_another_one() -> None:
    """Kept at 30 s as its listener ran, and assigned again; at 40 s only Q1 is given up."""

    def released(*kept: int, pulled_s: float = 50) -> AJournal:
        journal = joined(a_cluster(), ONE).consumer(ONE, orderly=True).claimed(ONE, Q0, Q1)
        for at_s in (*kept, 40):
            passed = RebalancePassed("billing", "orders", 4, (client_of(ONE),), 1, "timer")
            journal.at_s(at_s).note(ONE, passed)
        journal.released(ONE, Q1).at_s(pulled_s)
        answered = PullAnswered("billing", Q0, 0, 19, 0, 0, f"{ONE}:1", 0)
        return journal.note("broker-a", answered).at_s(170).ends()

    assert found(released(30), "queues_are_pulled") == (0, 1)
    assert found(released(), "queues_are_pulled") == (1, 0)
    assert found(released(30, pulled_s=60), "queues_are_pulled") == (1, 0)


def test_a_member_that_gave_its_queues_up_has_dropped_no_other_one() -> None:
    journal = not_given_up().at_s(171).released(ONE, Q1)
    assert found(journal.at_s(172).ends(), "queues_are_pulled")[0] == 1


def test_a_queue_of_a_broker_that_is_in_no_route_is_not_pulled() -> None:
    def away(broker: str) -> AJournal:
        journal = joined(a_cluster(), ONE).consumer(ONE).pulled(0, 0, Q1).claimed(ONE, Q0)
        journal.note("namesrv-a", BrokerExpired(broker, broker, 120_000))
        return journal.at_s(100).ends()

    assert found(away("broker-a"), "queues_are_pulled") == (0, 1)
    assert found(away("broker-b"), "queues_are_pulled") == (1, 0)


def test_a_member_that_is_at_work_at_a_message_of_the_queue_need_not_pull() -> None:
    def at_work(queue: Queue, *, finishes: bool = False) -> AJournal:
        journal = joined(a_cluster(), ONE).consumer(ONE).claimed(ONE, Q0, Q1, offsets=(0, 0))
        journal.pulled(0, 0, Q_OF_B).sent(0, queue).given(ONE, 0, queue)
        if finishes:
            journal.consumed(ONE, 0, queue)
        return journal.at_s(100).ends()

    assert found(at_work(Q0), "queues_are_pulled")[0] == 1  # for Q1, which is not pulled
    assert found(at_work(Q0, finishes=True), "queues_are_pulled")[0] == 2


# Pulls that fail -------------------------------------------------------------------------------


def two_failures(first_s: float, queue: Queue = Q0) -> AJournal:
    """Two pulls of *queue* fail half a second apart; Q0 was released and claimed again at 10 s."""
    journal = AJournal().runs().consumer(ONE).claimed(ONE, Q0, Q1).at_s(10)
    journal.released(ONE, Q0).claimed(ONE, Q0)
    failed = PullFailed("billing", queue, "the connection ended")
    return journal.at_s(first_s).note(ONE, failed).at_s(first_s + 0.5).note(ONE, failed)


def test_an_old_pull_of_a_queue_may_fail_for_30_s_after_it_was_given_up() -> None:
    assert found(two_failures(20), "pull_errors_wait") == (0, 1)
    assert found(two_failures(39.8), "pull_errors_wait") == (0, 1)
    assert found(two_failures(20, Q1), "pull_errors_wait") == (1, 0)
    assert found(two_failures(41), "pull_errors_wait") == (1, 0)


def failures_after_a_pause(
    paused_s: float, failed_s: float, *, node: str = ONE, released_s: float = 10
) -> AJournal:
    """Two pulls fail together; the member was paused up to 50 s, its queue released before."""
    journal = AJournal().runs().consumer(ONE).claimed(ONE, Q0).at_s(released_s)
    journal.released(ONE, Q0).claimed(ONE, Q0)
    journal.at_s(paused_s).note("world", NodePaused(node))
    failed = PullFailed("billing", Q0, "no answer in time")
    journal.at_s(50).note("world", NodeResumed(node))
    return journal.at_s(failed_s).note(ONE, failed).note(ONE, failed)


def test_an_old_pull_fails_late_if_its_member_was_paused_when_its_time_was_up() -> None:
    assert found(failures_after_a_pause(20, 50), "pull_errors_wait") == (0, 1)
    assert found(failures_after_a_pause(39.9, 50.9), "pull_errors_wait") == (0, 1)
    assert found(failures_after_a_pause(20, 51.1), "pull_errors_wait") == (1, 0)
    assert found(failures_after_a_pause(40.1, 50), "pull_errors_wait") == (1, 0)
    assert found(failures_after_a_pause(20, 50, node=TWO), "pull_errors_wait") == (1, 0)


def given_up_as_not_pulled(failed_s: float, node: str = ONE) -> AJournal:
    """Q0 is released as expired a minute after its pull failed; *node* was paused until 190 s."""
    journal = AJournal().runs().consumer(ONE).consumer(TWO).claimed(ONE, Q0)
    journal.at_s(10).fault("pause", node).at_s(190).healed().at_s(failed_s)
    journal.note(ONE, PullFailed("billing", Q0, "no answer in time")).at_s(failed_s + 60)
    return journal.note(ONE, QueuesReleased("billing", (Q0,), "pull expired"))


def test_a_pull_may_have_begun_long_ago_if_it_fails_within_30_s_after_its_member_stood_still() -> (
    None
):
    assert found(given_up_as_not_pulled(219), "expired_pulls") == (0, 1)
    assert found(given_up_as_not_pulled(221), "expired_pulls") == (1, 0)
    assert found(given_up_as_not_pulled(219, node=TWO), "expired_pulls") == (1, 0)


# Held pulls that are refused -------------------------------------------------------------------


def refused(
    at_s: float, *, by: str = ONE, queue: Queue = Q0, peers: tuple[str, str] = (ONE, TWO)
) -> AJournal:
    """A message comes at 10 s for the held pull of the first peer; the run ends at 70 s."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO)
    for node, peer in zip(peers, (PEER, "10.0.0.8:1"), strict=True):
        journal.note("broker-a", a_member(client_of(node), peer))
    journal.note("broker-a", PullHeld("billing", Q0, 0, 0, PEER, 1)).at_s(10).stored(0)
    return journal.at_s(at_s).note(by, PullFailed("billing", queue, "code 24: x")).at_s(70).ends()


def test_a_woken_pull_may_be_refused_in_time_by_its_own_broker_alone() -> None:
    assert late_wakes(refused(10.5)) == 0
    assert late_wakes(refused(11.5)) == 1
    assert late_wakes(refused(10.5, by=TWO)) == 1
    assert late_wakes(refused(10.5, queue=Q1)) == 1
    assert late_wakes(refused(10.5, by=TWO, peers=(TWO, ONE))) == 0


def late_wakes(journal: AJournal) -> int:
    return len(objections(journal.judged(), "wakes"))


# Locks -------------------------------------------------------------------------------------------


def locked(journal: AJournal, node: str) -> AJournal:
    return journal.note("broker-a", QueuesLocked("billing", client_of(node), (Q0,), ()))


def forgotten(broker: str, *, restarts_s: float = 10, given_s: float = 20) -> AJournal:
    """ONE gets the lock at 5 s, TWO at 15 s; ONE's listener is called at *given_s*."""
    journal = AJournal().runs().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (5, lambda: locked(journal, ONE)),
        (restarts_s, lambda: journal.note(broker, NodeStarted("broker", "", "4.9.7"))),
        (15, lambda: locked(journal, TWO)),
        (given_s, lambda: journal.given(ONE, 0)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_lock_that_its_broker_forgot_is_trusted_until_it_is_30_s_old() -> None:
    inside = forgotten("broker-a")
    assert objections(inside.judged(), "locks") == []
    assert metric(inside, "forgotten_locks.billing") == 1
    assert len(objections(forgotten("broker-a", given_s=37).judged(), "locks")) == 1
    assert len(objections(forgotten("broker-b").judged(), "locks")) == 2  # grant and call
    assert len(objections(forgotten("broker-a", restarts_s=2).judged(), "locks")) == 2


def lapsed(of: str, *, jumped_s: float = 8, ms: float = 60_000) -> AJournal:
    """The clock of *of* jumps; broker-a grants TWO the lock of ONE, whose listener is called."""
    journal = AJournal().runs().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (5, lambda: locked(journal, ONE)),
        (jumped_s, lambda: journal.fault("clock_jump", of, ms=ms)),
        (15, lambda: locked(journal, TWO)),
        (20, lambda: journal.given(ONE, 0)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_lock_that_lapsed_by_its_broker_s_clock_is_trusted_by_its_holder() -> None:
    inside = lapsed("broker-a")
    assert objections(inside.judged(), "locks") == []
    assert metric(inside, "excused_wrong_clocks.billing") == 2  # second grant, listener's call
    assert len(objections(lapsed("broker-a", ms=40_000).judged(), "locks")) == 2
    assert len(objections(lapsed("broker-b").judged(), "locks")) == 2
    assert len(objections(lapsed("broker-a", jumped_s=2).judged(), "locks")) == 2
    assert len(objections(lapsed("broker-a", jumped_s=17).judged(), "locks")) == 2


def given_back(after_s: float | None, *faults: tuple[float, float, str]) -> AJournal:
    """An orderly queue is released at 20 s and unlocked *after_s* later, or never."""
    journal = a_cluster().consumer(ONE, orderly=True).claimed(ONE, Q0)
    locked(journal, ONE).note(ONE, RouteChanged("orders", A_AND_B))
    steps: list[tuple[float, Callable[[], object]]] = [
        (20, lambda: journal.released(ONE, Q0)),
        (90, journal.ends),
    ]
    if after_s is not None:
        unlocked = QueuesUnlocked("billing", client_of(ONE), (Q0,))
        steps.append((20 + after_s, lambda: journal.note("broker-a", unlocked)))
    for number, (began_s, ended_s, node) in enumerate(faults):
        fault = FaultBegan(number, '{"fault":"partition"}', (node,))
        steps.append((began_s, lambda fault=fault: journal.note("world", fault)))
        steps.append((ended_s, lambda number=number: journal.healed(number)))
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_lock_is_given_back_within_25_s_unless_a_fault_of_that_time_kept_it() -> None:
    assert found(given_back(24), "queues_are_unlocked") == (0, 0)
    assert found(given_back(26), "queues_are_unlocked") == (1, 0)
    for node in (ONE, "broker-a"):
        assert found(given_back(None, (2, 10.5, node)), "queues_are_unlocked") == (0, 1)
        assert found(given_back(None, (2, 9.5, node)), "queues_are_unlocked") == (1, 0)
        assert found(given_back(None, (46, 50, node)), "queues_are_unlocked") == (1, 0)
    assert found(given_back(None, (10, 21, "broker-b")), "queues_are_unlocked") == (1, 0)


def test_locks_of_a_master_that_was_replaced_need_no_unlocking() -> None:
    def replaced(*, locks_s: float) -> AJournal:
        journal = a_cluster().consumer(ONE, orderly=True).claimed(ONE, Q0)
        journal.note(ONE, RouteChanged("orders", A_AND_B))
        journal.note("broker-a", BrokerRoleChanged("master", 1, "10.0.0.1:10911", 1))
        elected = BrokerRoleChanged("master", 2, "10.0.0.2:10911", 2)
        for at_s, do in sorted(
            [
                (locks_s, lambda: locked(journal, ONE)),
                (15, lambda: journal.note("broker-a-1", elected)),
            ],
            key=lambda step: step[0],
        ):
            journal.at_s(at_s)
            do()
        return journal.at_s(40).released(ONE, Q0).at_s(90).ends()

    assert found(replaced(locks_s=10), "queues_are_unlocked")[0] == 0
    assert found(replaced(locks_s=18), "queues_are_unlocked")[0] == 0


def test_a_member_that_left_before_it_was_to_unlock_keeps_the_lock_of_that_queue() -> None:
    """Its listener worked at the release: the client ended during the 20 s before the unlock."""

    def left(at_s: float, node: str = ONE, reason: str = "not mine") -> AJournal:
        journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO).claimed(ONE, Q0)
        locked(journal, ONE).note(ONE, RouteChanged("orders", A_AND_B))
        journal.at_s(20).released(ONE, Q0, reason=reason).at_s(at_s).stopped(node)
        return journal.at_s(90).ends()

    assert found(left(25), "queues_are_unlocked") == (0, 1)
    assert found(left(25, TWO), "queues_are_unlocked") == (1, 0)
    assert found(left(46), "queues_are_unlocked") == (1, 0)
    assert found(left(25, reason="shutdown"), "queues_are_unlocked") == (1, 0)


def kept(
    topic: str = "orders", *, node: str = ONE, lost_s: float = 10, back_s: float = 0
) -> AJournal:
    """A route of *node* loses broker-a; the queue is released at 20 s and not unlocked."""
    journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO).claimed(ONE, Q0)
    locked(journal, ONE).note(ONE, RouteChanged("orders", A_AND_B))
    steps: list[tuple[float, Callable[[], object]]] = [
        (lost_s, lambda: journal.note(node, RouteChanged(topic, ("broker-b",)))),
        (20, lambda: journal.released(ONE, Q0)),
        (90, journal.ends),
    ]
    if back_s:
        steps.append((back_s, lambda: journal.note(node, RouteChanged(topic, A_AND_B))))
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_member_whose_route_lacks_the_broker_knows_no_address_to_unlock_at() -> None:
    assert found(kept(), "queues_are_unlocked") == (0, 1)
    assert found(kept(lost_s=30), "queues_are_unlocked") == (0, 1)
    assert found(kept("invoices"), "queues_are_unlocked") == (1, 0)
    assert found(kept(node=TWO), "queues_are_unlocked") == (1, 0)
    assert found(kept(back_s=15), "queues_are_unlocked") == (1, 0)


def test_a_member_that_knows_only_slaves_of_the_broker_knows_no_address_to_unlock_at() -> None:
    """NameServers that restarted know the slave that registers first, not yet its master."""

    def slaves_only(*without_master: str, back: bool = False, topic: str = "orders") -> AJournal:
        journal = a_cluster().consumer(ONE, orderly=True).claimed(ONE, Q0)
        locked(journal, ONE).note(ONE, RouteChanged("orders", A_AND_B))
        journal.at_s(10).note(ONE, RouteChanged(topic, A_AND_B, without_master))
        if back:
            journal.at_s(15).note(ONE, RouteChanged("orders", A_AND_B))
        return journal.at_s(20).released(ONE, Q0, reason="shutdown").at_s(90).ends()

    assert found(slaves_only("broker-a"), "queues_are_unlocked") == (0, 1)
    assert found(slaves_only("broker-a", topic="invoices"), "queues_are_unlocked") == (0, 1)
    assert found(slaves_only("broker-b"), "queues_are_unlocked") == (1, 0)
    assert found(slaves_only("broker-a", back=True), "queues_are_unlocked") == (1, 0)


def two_at_work(node: str, began_s: float, ended_s: float) -> AJournal:
    """ONE is given message 0 at 100 s and does not finish it; TWO is given it at 110 s."""
    journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    locked(journal, ONE).stored(0)
    steps: list[tuple[float, Callable[[], object]]] = [
        (began_s, lambda: journal.fault("partition", node)),
        (ended_s, journal.healed),
        (100, lambda: journal.claimed(ONE, Q0, offsets=(0,)).given(ONE, 0)),
        (110, lambda: journal.claimed(TWO, Q0, offsets=(0,)).given(TWO, 0)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_two_listeners_may_work_at_a_queue_whose_lock_a_fault_let_lapse() -> None:
    for node in (ONE, TWO, "broker-a"):
        assert found(two_at_work(node, 10, 41), "one_listener_a_queue") == (0, 1)
        assert found(two_at_work(node, 10, 39), "one_listener_a_queue") == (1, 0)
        assert found(two_at_work(node, 111, 112), "one_listener_a_queue") == (1, 0)
    assert found(two_at_work("broker-b", 10, 41), "one_listener_a_queue") == (1, 0)


# Messages that come again ------------------------------------------------------------------------


def fails_again(*, given_first: bool, queue: Queue = Q0) -> AJournal:
    """A message fails 1 s after *queue* was claimed again, and comes again 1 s later."""
    journal = AJournal().runs().consumer(ONE).claimed(ONE, Q0, Q1, offsets=(0, 0)).at_s(10)
    if given_first:
        journal.given(ONE, 0)
    journal.claimed(ONE, queue, offsets=(0,))
    if not given_first:
        journal.given(ONE, 0)
    return journal.at_s(11).consumed(ONE, 0, ok=False).at_s(12).given(ONE, 0).consumed(ONE, 0)


def test_a_message_that_was_given_before_the_queue_was_claimed_anew_may_fail_beside_it() -> None:
    assert found(fails_again(given_first=True), "repeats_wait")[0] == 0
    assert found(fails_again(given_first=False), "repeats_wait")[0] == 1
    assert found(fails_again(given_first=True, queue=Q1), "repeats_wait")[0] == 1


def fails_by_both_claims(*, given_first: bool, given_s: tuple[float, ...] = ()) -> AJournal:
    """A message is given before and after a new claim of its queue; both fail; it comes again."""
    journal = AJournal().runs().consumer(ONE).claimed(ONE, Q0, offsets=(0,)).at_s(10)
    if given_first:
        journal.given(ONE, 0)
    journal.claimed(ONE, Q0, offsets=(0,)).given(ONE, 0).at_s(11).consumed(ONE, 0, ok=False)
    if not given_first:
        journal.given(ONE, 0)
    journal.at_s(12).consumed(ONE, 0, ok=False)
    for at_s in given_s:
        journal.at_s(at_s).given(ONE, 0).consumed(ONE, 0, ok=False)
    return journal


def test_a_message_that_two_claims_were_given_may_fail_twice_at_once_and_then_waits() -> None:
    both = fails_by_both_claims(given_first=True)
    assert found(both, "repeats_wait") == (0, 1)
    assert found(fails_by_both_claims(given_first=False), "repeats_wait") == (1, 0)
    assert found(fails_by_both_claims(given_first=True, given_s=(15,)), "repeats_wait") == (1, 1)
    assert found(fails_by_both_claims(given_first=True, given_s=(17,)), "repeats_wait") == (0, 1)
    later = fails_by_both_claims(given_first=True, given_s=(17, 20))
    assert found(later, "repeats_wait") == (1, 1)


# Commits -----------------------------------------------------------------------------------------


def lost_offsets(journal: AJournal) -> tuple[float, float]:
    metrics = journal.judged().metrics
    return metrics["lost_offsets.billing"], metrics["excused_lost_offsets.billing"]


def given_up(
    routes: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
    fault: tuple[str, float, float] | None = None,
    paid: tuple[str, float] | None = None,
) -> AJournal:
    """ONE consumes 4 messages and releases the queue at 100 s; only *paid* commits the offset."""
    journal = AJournal().runs().store().store("broker-b")
    for node, peer in ((ONE, PEER), (TWO, "10.0.0.8:1")):
        journal.note("broker-a", a_member(client_of(node), peer)).consumer(node)
    for node, topic, brokers in routes:
        journal.note(node, RouteChanged(topic, brokers))
    journal.claimed(ONE, Q0, offsets=(0,)).each(range(4), journal.sent).committed(0, Q1)
    journal.each(range(4), lambda offset: journal.consumed(ONE, offset))
    if fault is not None:
        a_fault(journal, *fault)
    journal.at_s(100).released(ONE, Q0)
    if paid is not None:
        journal.at_s(100 + paid[1]).committed(4, peer=paid[0])
    return journal.at_s(130).ends()


def test_a_member_whose_route_lacks_the_broker_writes_no_offset_there() -> None:
    without, whole = ("broker-b",), A_AND_B
    assert lost_offsets(given_up(((ONE, "orders", without),))) == (0, 1)
    assert lost_offsets(given_up(((TWO, "orders", without),))) == (1, 0)
    assert lost_offsets(given_up(((ONE, "invoices", without),))) == (1, 0)
    assert lost_offsets(given_up(((ONE, "orders", without), (ONE, "orders", whole)))) == (1, 0)


def given_up_at_a_slave(*, synced: bool, without: tuple[str, ...] = ("broker-a",)) -> AJournal:
    """As ``given_up``; the slave may have *synced* topics, and ONE's route lacks some masters."""
    journal = AJournal().runs().store().store("broker-b")
    journal.note("broker-a-1", MasterConnected("10.0.0.1:10912", 0))
    journal.note("broker-a", a_member(client_of(ONE), PEER)).consumer(ONE)
    if synced:
        journal.at_s(20).note("broker-a-1", MetadataSynced("10.0.0.1:10911", "topics"))
    journal.note(ONE, RouteChanged("orders", A_AND_B, without))
    journal.claimed(ONE, Q0, offsets=(0,)).each(range(4), journal.sent).committed(0, Q1)
    journal.each(range(4), lambda offset: journal.consumed(ONE, offset))
    return journal.at_s(100).released(ONE, Q0).at_s(130).ends()


def test_a_slave_that_has_copied_no_topics_takes_no_offset_of_them() -> None:
    assert lost_offsets(given_up_at_a_slave(synced=False)) == (0, 1)
    assert lost_offsets(given_up_at_a_slave(synced=True)) == (1, 0)
    assert lost_offsets(given_up_at_a_slave(synced=False, without=())) == (1, 0)


@pytest.mark.parametrize("node", [ONE, "broker-a"])
def test_a_fault_explains_an_offset_that_was_not_written_within_10_s_of_it(node) -> None:
    assert lost_offsets(given_up(fault=(node, 80, 91))) == (0, 1)
    assert lost_offsets(given_up(fault=(node, 80, 89))) == (1, 0)
    assert lost_offsets(given_up(fault=("broker-b", 80, 91))) == (1, 0)


def test_an_offset_may_come_over_a_connection_that_has_had_no_heartbeat_yet() -> None:
    assert lost_offsets(given_up(paid=("10.0.0.7:1", 5))) == (0, 0)
    assert lost_offsets(given_up(paid=("10.0.0.8:1", 5))) == (1, 0)  # TWO's connection
    assert lost_offsets(given_up(paid=("10.0.0.7:1", 15))) == (1, 0)


def a_late_commit(node: str, healed_s: float, topic: str = "orders") -> AJournal:
    """A commit 95 s after the member released the queue; broker-b has *topic*, too."""
    journal = AJournal().runs().store().consumer(ONE).pulled(0, 0).claimed(ONE, Q0)
    journal.note("broker-b", TopicCreated(topic, 2, 2, 6, "admin"))
    journal.note("broker-a", a_member(client_of(ONE))).sent(0).consumed(ONE, 0)
    journal.at_s(5).released(ONE, Q0).committed(1)
    return a_fault(journal, node, 8, healed_s).at_s(100).committed(1)


def test_a_broker_of_the_topic_that_does_not_answer_makes_claims_and_commits_late() -> None:
    inside = a_late_commit("broker-b", 91)
    assert objections(inside.judged(), "commits") == []
    assert metric(inside, "excused_late_commits.billing") == 1
    for journal in (a_late_commit("broker-b", 89), a_late_commit("broker-b", 91, "invoices")):
        assert len(objections(journal.judged(), "commits")) == 1


def not_written(node: str, began_s: float, ended_s: float, ends_s: float = 130) -> AJournal:
    """The member has consumed up to 4 at 100 s, and committed 2."""
    journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, offsets=(0,)).pulled(0, 0)
    journal.each(range(4), journal.sent).consumed(ONE, 0).consumed(ONE, 1).committed(2)
    steps: list[tuple[float, Callable[[], object]]] = [
        (began_s, lambda: journal.fault("partition", node)),
        (ended_s, journal.healed),
        (100, lambda: journal.consumed(ONE, 2).consumed(ONE, 3)),
        (ends_s, journal.ends),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


@pytest.mark.parametrize("node", [ONE, "broker-a"])
def test_an_offset_is_written_15_s_after_a_fault(node) -> None:
    inside = not_written(node, 105, 116)
    assert objections(inside.judged(), "commits") == []
    assert metric(inside, "excused_late_offsets.billing") == 1
    for journal in (
        not_written(node, 105, 114),
        not_written(node, 80, 99),
        not_written("broker-b", 105, 116),
        not_written(node, 105, 116, ends_s=400),
    ):
        assert metric(journal, "late_offsets.billing") == 1


def test_an_offset_that_its_broker_lost_with_the_end_of_its_log_is_not_missed() -> None:
    def consumed_beyond(end: int) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, offsets=(0,))
        journal.each(range(4), journal.sent).pulled(0, 4).consumed(ONE, 0).committed(1)
        journal.each(range(1, 4), lambda offset: journal.consumed(ONE, offset))
        journal.note("broker-a", LogRecovered(end, 0, end * 100)).store()
        return journal.at_s(100).ends()

    assert metric(consumed_beyond(1), "late_offsets.billing") == 0
    assert metric(consumed_beyond(3), "late_offsets.billing") == 1
