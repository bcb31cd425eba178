"""Damage that a fault explains, at its nodes and in its time; also just outside, and after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_emulator.facts import (
    BrokerRegistered,
    ConnectionClosed,
    LogRecovered,
    MemberLeft,
    MessageStored,
    NodeStarted,
    PullHeld,
    Queue,
    QueuesLocked,
    RebalancePassed,
    RequestReceived,
    RouteChanged,
)
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    a_member,
    client_of,
    objections,
)

ONE, TWO = "billing-1", "billing-2"
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
Q_OF_B = Queue("orders", "broker-b", 0)


def found(journal: AJournal, checker: str) -> int:
    return len(objections(journal.judged(), checker))


def metric(journal: AJournal, name: str) -> float:
    return journal.judged().metrics[name]


# Clocks --------------------------------------------------------------------------------------


def locked(journal: AJournal, node: str) -> AJournal:
    return journal.note("broker-a", QueuesLocked("billing", client_of(node), (Q0,), ()))


def a_second_grant(
    *, jumped_s: float, of: str = "broker-a", ms: float = 60_000, granted_s: float = 300
) -> AJournal:
    """The clock of *of* jumps at *jumped_s*; a lock is granted twice within 10 s."""
    journal = AJournal().runs().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (jumped_s, lambda: journal.fault("clock_jump", of, ms=ms)),
        (granted_s, lambda: locked(journal, ONE)),
        (granted_s + 10, lambda: locked(journal, TWO)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_lock_may_be_granted_twice_when_the_broker_s_clock_jumped_over_its_rest() -> None:
    inside = a_second_grant(jumped_s=305)
    assert found(inside, "locks") == 0
    assert metric(inside, "excused_wrong_clocks.billing") == 1
    assert found(a_second_grant(jumped_s=305, ms=500), "locks") == 1
    assert found(a_second_grant(jumped_s=305, of=ONE), "locks") == 1
    assert found(a_second_grant(jumped_s=305, of="broker-b"), "locks") == 1
    assert found(a_second_grant(jumped_s=299), "locks") == 1
    assert found(a_second_grant(jumped_s=10), "locks") == 1  # long before the grants


def given_with_an_old_lock(jumped_s: float, of: str = ONE, ms: float = -60_000) -> AJournal:
    """A message is given 40 s after the lock was renewed."""
    journal = AJournal().runs().consumer(ONE, orderly=True)
    if jumped_s < 100:
        journal.at_s(jumped_s).fault("clock_jump", of, ms=ms).at_s(jumped_s + 1).healed()
    locked(journal.at_s(100), ONE)
    if jumped_s >= 100:
        journal.at_s(jumped_s).fault("clock_jump", of, ms=ms)
    return journal.at_s(140).given(ONE, 0)


def test_a_member_trusts_an_old_lock_only_if_its_own_clock_went_back_since() -> None:
    inside = given_with_an_old_lock(110)
    assert found(inside, "locks") == 0
    assert metric(inside, "excused_wrong_clocks.billing") == 1
    assert found(given_with_an_old_lock(110, ms=-500), "locks") == 1
    assert found(given_with_an_old_lock(110, of="broker-a"), "locks") == 1
    assert found(given_with_an_old_lock(50), "locks") == 1


def test_a_clock_that_drifts_is_wrong_by_no_more_than_it_drifted() -> None:
    def granted(after_s: float) -> AJournal:
        journal = AJournal().runs().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
        journal.fault("clock_drift", "broker-a", ppm=5_000)  # 0.3 s in 60 s
        return locked(locked(journal, ONE).at_s(after_s), TWO)

    assert found(granted(59.8), "locks") == 0
    assert found(granted(59.0), "locks") == 1


def two_passes(jumped_s: float, node: str = ONE) -> AJournal:
    """Rebalances at 300 s and 310 s; the rule demands 20 s between them."""
    journal = AJournal().runs().consumer(ONE).consumer(TWO)
    fact = RebalancePassed("billing", "orders", 4, (client_of(ONE),), 4, "timer")
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (jumped_s, lambda: journal.fault("clock_jump", node, ms=60_000)),
        (300, lambda: journal.note(ONE, fact)),
        (310, lambda: journal.note(ONE, fact)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_monitor_lets_a_clock_off_that_was_moved_between_its_two_entries() -> None:
    across = two_passes(305)
    assert found(across, "pass_times") == 0
    assert metric(across, "excused_pass_times") == 1
    assert found(two_passes(305, node=TWO), "pass_times") == 1
    assert found(two_passes(299), "pass_times") == 1
    assert found(two_passes(10), "pass_times") == 1
    assert found(two_passes(311), "pass_times") == 1


# Two owners ----------------------------------------------------------------------------------


def two_owners(node: str = "", began_s: float = 30, ended_s: float = 130) -> AJournal:
    """Q0 has two owners from 20 s to 180 s; a fault of *node* holds for a part of that."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).claimed(ONE, Q0)
    journal.consumer("shipping-1", group="shipping").at_s(20).claimed(TWO, Q0)
    if node:
        journal.at_s(began_s).fault("partition", node).at_s(ended_s).healed()
    return journal.at_s(180).released(ONE, Q0).at_s(400).ends()


def test_a_fault_excuses_two_owners_that_could_not_know_of_each_other() -> None:
    for node in (ONE, TWO, "broker-a"):
        inside = two_owners(node)
        assert found(inside, "ownership") == 0
        assert metric(inside, "excused_overlap_s.billing") == 160
    for node in ("producer", "shipping-1", "broker-b"):
        assert found(two_owners(node), "ownership") == 1


def test_two_owners_have_60_s_after_the_fault_and_without_it() -> None:
    assert found(two_owners(ONE, 30, 119), "ownership") == 1
    assert found(two_owners(ONE, 81, 130), "ownership") == 1
    assert found(two_owners(ONE, 79, 130), "ownership") == 0
    assert found(two_owners(ONE, 179, 179.5), "ownership") == 1  # just before the end


def test_a_fault_of_the_old_owner_does_not_give_an_orderly_queue_away_without_its_lock() -> None:
    def claims(is_granted: bool) -> AJournal:
        journal = AJournal().runs().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
        locked(journal, ONE).claimed(ONE, Q0).fault("pause", ONE).at_s(70)
        return (locked(journal, TWO) if is_granted else journal).claimed(TWO, Q0)

    assert found(claims(is_granted=True), "ownership") == 0
    assert found(claims(is_granted=False), "ownership") == 1


# Commits -------------------------------------------------------------------------------------


def a_lower_commit(
    node: str = "", healed_s: float = 0, *, claims: str = "", commits_s: float = 100
) -> AJournal:
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.note("broker-a", a_member(client_of(ONE))).claimed(ONE, Q0, offsets=(0,))
    journal.each(range(10), journal.sent)
    journal.each(range(10), lambda offset: journal.consumed(ONE, offset))
    if node:
        journal.at_s(20).fault("stall", node).at_s(30).committed(10).at_s(healed_s).healed()
    else:
        journal.at_s(30).committed(10)
    if claims:
        journal.claimed(claims, Q0, offsets=(8,))
    return journal.at_s(commits_s).committed(8).committed(10)


def test_a_commit_below_the_last_one_is_explained_by_a_fault_that_held_it_up() -> None:
    for node in (ONE, "broker-a"):
        inside = a_lower_commit(node, 91)
        assert found(inside, "commits") == 0
        assert metric(inside, "excused_lower_commits.billing") == 1
        assert found(a_lower_commit(node, 89), "commits") == 1
    for node in (TWO, "broker-b", "producer"):
        assert found(a_lower_commit(node, 99), "commits") == 1
    assert found(a_lower_commit("broker-a", 40, commits_s=3_600), "commits") == 1


def test_a_member_that_claimed_anew_commits_from_there_on_and_nobody_else() -> None:
    assert found(a_lower_commit(), "commits") == 1
    assert found(a_lower_commit(claims=ONE), "commits") == 0
    assert found(a_lower_commit(claims=TWO), "commits") == 1
    assert found(a_lower_commit(claims=ONE).committed(8).committed(10), "commits") == 1


def a_late_commit(node: str, healed_s: float) -> AJournal:
    """A commit 95 s after the member released the queue."""
    journal = a_consumed_journal(5).note("broker-a", a_member(client_of(ONE)))
    journal.at_s(5).released(ONE, Q0).at_s(8).fault("stall", node).at_s(healed_s).healed()
    return journal.at_s(100).committed(5)


def test_a_late_commit_is_explained_by_a_fault_that_held_it_up() -> None:
    for node in (ONE, "broker-a"):
        inside = a_late_commit(node, 91)
        assert found(inside, "commits") == 0
        assert metric(inside, "excused_late_commits.billing") == 1
        assert found(a_late_commit(node, 89), "commits") == 1
    assert found(a_late_commit("producer", 99), "commits") == 1


# Pulls that wait ------------------------------------------------------------------------------


def a_rung_pull(queue: Queue = Q0) -> AJournal:
    journal = AJournal().runs().store().store("broker-b").consumer(ONE)
    held = PullHeld("billing", queue, 0, 0, PEER, 1)
    journal.note(queue.broker, held).at_s(10)
    return journal.note(queue.broker, MessageStored(queue, 0, 0, "k", 100))


def test_a_pull_that_was_rung_and_never_answered_is_late() -> None:
    assert found(a_rung_pull().at_s(10.9).ends(), "wakes") == 0
    assert found(a_rung_pull().at_s(11.1).ends(), "wakes") == 1
    assert found(a_rung_pull(Q_OF_B).at_s(11.1).ends(), "wakes") == 1


def test_a_pull_whose_connection_closed_may_go_unanswered_if_it_was_not_late_by_then() -> None:
    def closed(at_s: float, peer: str = PEER, broker: str = "broker-a") -> AJournal:
        journal = a_rung_pull().at_s(at_s).note(broker, ConnectionClosed(peer, "reset"))
        return journal.at_s(60).ends()

    assert found(closed(10.5), "wakes") == 0
    assert found(closed(12), "wakes") == 1
    assert found(closed(10.5, peer="10.0.0.8:1"), "wakes") == 1
    assert found(closed(10.5, broker="broker-b"), "wakes") == 1


def a_pull_under(word: str, node: str, *, began_s: float = 10.5, answered_s: float) -> AJournal:
    """A message comes at 10 s for a held pull; a fault ends at 20 s."""
    journal = AJournal().runs().store().consumer(ONE)
    journal.note("broker-a", PullHeld("billing", Q0, 0, 0, PEER, 1))
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (10, lambda: journal.stored(0)),
        (began_s, lambda: journal.fault(word, node)),
        (20, journal.healed),
        (answered_s, lambda: journal.pulled(0, 1)),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_broker_under_a_fault_answers_at_its_next_sweep() -> None:
    for began_s in (9, 10.5):
        inside = a_pull_under("pause", "broker-a", began_s=began_s, answered_s=25)
        assert found(inside, "wakes") == 0
        assert metric(inside, "excused_late_wakes") == 1
        late = a_pull_under("pause", "broker-a", began_s=began_s, answered_s=27)
        assert found(late, "wakes") == 1
    assert found(a_pull_under("pause", "producer", answered_s=25), "wakes") == 1
    assert found(a_pull_under("kill", "broker-a", answered_s=27), "wakes") == 0  # lost with it
    assert found(a_pull_under("kill", "broker-a", began_s=12, answered_s=27), "wakes") == 1


# Heartbeats and unregistering ------------------------------------------------------------------


def silent(node: str, began_s: float, ended_s: float, silent_s: float = 200) -> AJournal:
    """The only member's last heartbeat comes at 100 s."""
    heartbeat = RequestReceived(PEER, 34, 7)
    journal = AJournal().runs().consumer(ONE).note("broker-a", a_member(client_of(ONE)))
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        *((at_s, lambda: journal.note("broker-a", heartbeat)) for at_s in (10, 40, 70, 100)),
        (began_s, lambda: journal.fault("partition", node)),
        (ended_s, journal.healed),
        (100 + silent_s, journal.ends),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_fault_of_the_member_or_its_broker_keeps_heartbeats_away_while_it_holds() -> None:
    for node in (ONE, "broker-a"):
        inside = silent(node, 110, 250)
        assert found(inside, "heartbeats_come") == 0
        assert metric(inside, "excused_heartbeats_come") == 1
        assert found(silent(node, 110, 231), "heartbeats_come") == 0
        assert found(silent(node, 110, 229), "heartbeats_come") == 1  # the fault is over
        assert found(silent(node, 20, 30), "heartbeats_come") == 1
    for node in ("producer", "broker-b", TWO):
        assert found(silent(node, 110, 250), "heartbeats_come") == 1


def unrouted(
    lost_s: float, back_s: float, *, node: str = ONE, topic: str = "orders", at: str = "broker-a"
) -> int:
    """As ``silent``; the routes of *node* lack broker-a for a while; a heartbeat at 290 s."""
    heartbeat = RequestReceived(PEER, 34, 7)
    journal = AJournal().runs().store("broker-a").store("broker-b").consumer(ONE)
    journal.note(at, a_member(client_of(ONE)))
    journal.note(node, RouteChanged("orders", ("broker-a", "broker-b")))
    journal.note(node, RouteChanged("steps", ("broker-b",)))
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        *((at_s, lambda: journal.note(at, heartbeat)) for at_s in (10, 40, 70, 100, 290)),
        (lost_s, lambda: journal.note(node, RouteChanged(topic, ("broker-b",)))),
        (back_s, lambda: journal.note(node, RouteChanged("orders", ("broker-b", "broker-a")))),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return found(journal, "heartbeats_come")


def test_a_broker_that_is_in_none_of_a_client_s_routes_gets_no_heartbeat_of_it() -> None:
    assert unrouted(110, 255) == 0
    assert unrouted(110, 245) == 1  # the next one was due within 40 s
    assert unrouted(50, 95) == 1
    assert unrouted(110, 255, node=TWO) == 1
    assert unrouted(110, 255, topic="steps") == 1  # the route of orders still has it
    assert unrouted(110, 255, at="broker-a-1") == 0  # nor do its slaves
    assert unrouted(110, 245, at="broker-a-1") == 1
    assert unrouted(110, 255, at="broker-b-1") == 1


def unknown_to_a_name_server(back_s: float, *, at: str = "broker-a-1") -> int:
    """A NameServer starts again at 101 s, and *at* registers there late; a heartbeat at 190 s."""
    heartbeat, address = RequestReceived(PEER, 34, 7), "10.0.0.9:10911"
    journal = AJournal().runs().store("broker-a").consumer(ONE)
    journal.note(at, NodeStarted("broker", address, "5.3.3"))
    journal.note(at, a_member(client_of(ONE))).note(ONE, RouteChanged("orders", ("broker-a",)))
    name_server = NodeStarted("nameserver", "10.0.0.1:9876", "5.3.3")
    registered = BrokerRegistered("c", "broker-a", 2, address, 1, first=True)
    journal.note("namesrv-a", name_server).note("namesrv-a", registered)
    for at_s in (10, 40, 70, 100):
        journal.at_s(at_s).note(at, heartbeat)
    journal.at_s(101).note("namesrv-a", name_server)
    journal.at_s(back_s).note("namesrv-a", registered).at_s(190).note(at, heartbeat)
    return found(journal, "heartbeats_come")


def test_a_slave_that_a_new_name_server_does_not_know_yet_gets_no_heartbeat() -> None:
    """Its master is in the routes, and so the client has no fact about them.

    Upstream: MQClientInstance.cleanOfflineBroker; RouteInfoManager.registerBroker.
    """
    assert unknown_to_a_name_server(130) == 0
    assert unknown_to_a_name_server(119) == 1  # its poll, and the heartbeat, were due by 189 s
    assert unknown_to_a_name_server(130, at="broker-a") == 1  # a route without it is a fact


def test_whose_node_is_not_known_is_let_off_for_faults_of_that_time_alone() -> None:
    def foreign(began_s: float, ended_s: float) -> AJournal:
        journal = AJournal().note("broker-a", a_member("a Go client"))
        journal.at_s(began_s).fault("partition", "billing-9").at_s(ended_s).healed().at_s(200)
        journal.note("broker-a", RequestReceived(PEER, 34, 7))
        return journal.at_s(300).ends()

    assert found(foreign(180, 181), "heartbeats_come") == 0
    assert found(foreign(100, 101), "heartbeats_come") == 1


def test_a_member_unregisters_everywhere_unless_a_fault_of_that_time_kept_it_from_it() -> None:
    def left(node: str, began_s: float) -> AJournal:
        journal = AJournal().runs().consumer(ONE).note("broker-a", a_member(client_of(ONE)))
        journal.note("broker-b", a_member(client_of(ONE)))
        journal.at_s(began_s).fault("cut", node).at_s(began_s + 5).healed().at_s(1_000)
        journal.note("broker-a", MemberLeft("billing", client_of(ONE), PEER, "unregistered"))
        return journal.note("broker-b", MemberLeft("billing", client_of(ONE), PEER, "expired"))

    assert found(left("broker-b", 836), "members_unregister") == 0  # the fault ended 159 s before
    assert found(left("broker-b", 834), "members_unregister") == 1
    inside = left("broker-b", 990)
    assert found(inside, "members_unregister") == 0
    assert metric(inside, "excused_members_unregister") == 1
    assert found(left("producer", 990), "members_unregister") == 1
    assert found(left("broker-b", 100), "members_unregister") == 1


def unregisters_at_a(
    *, lost_s: float = 300, back_s: float = 0, node: str = ONE, lost: str = "broker-b"
) -> AJournal:
    """ONE unregisters at broker-a at 500 s; broker-b notes its closed channel 1 s later."""
    journal = AJournal().runs().consumer(ONE).consumer(TWO)
    for broker in ("broker-a", "broker-b"):
        journal.note(broker, a_member(client_of(ONE)))
    both = ("broker-a", "broker-b")
    left = tuple(broker for broker in both if broker != lost)
    journal.note(ONE, RouteChanged("orders", both)).note(TWO, RouteChanged("orders", both))
    steps: list[tuple[float, str, RouteChanged | MemberLeft]] = [
        (lost_s, node, RouteChanged("orders", left)),
        (500, "broker-a", MemberLeft("billing", client_of(ONE), PEER, "unregistered")),
        (501, "broker-b", MemberLeft("billing", client_of(ONE), PEER, "channel closed")),
    ]
    if back_s:
        steps.append((back_s, node, RouteChanged("orders", both)))
    for at_s, by, fact in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s).note(by, fact)
    return journal


def test_a_member_unregisters_at_no_broker_that_its_routes_lack_at_that_moment() -> None:
    inside = unregisters_at_a()
    assert found(inside, "members_unregister") == 0
    assert metric(inside, "excused_members_unregister") == 1
    assert found(unregisters_at_a(back_s=500.5), "members_unregister") == 0
    assert found(unregisters_at_a(back_s=499), "members_unregister") == 1
    assert found(unregisters_at_a(lost_s=500.5), "members_unregister") == 1
    assert found(unregisters_at_a(node=TWO), "members_unregister") == 1
    assert found(unregisters_at_a(lost="broker-a"), "members_unregister") == 1


@pytest.mark.parametrize("word", ["pause", "partition"])
def test_every_excuse_has_its_metric_also_where_nothing_was_wrong(word) -> None:
    metrics = a_consumed_journal().fault(word, "producer").healed().ends().judged().metrics
    names = {name for name in metrics if name.startswith("excused")}
    assert {"excused_stuck", "excused_unrest", "excused_overdue", "excused_late_delays"} <= names
    assert sum(metrics[name] for name in names) == 0


# Processes -----------------------------------------------------------------------------------


def goes_on(at: int, *, recovered_bytes: int | None, again_at: int | None = None) -> AJournal:
    """Two messages are noted; the broker restarts with *recovered_bytes*, and then stores *at*."""
    journal = AJournal().runs().store().stored(0).stored(1)
    if recovered_bytes is not None:
        count = recovered_bytes // RECORD_BYTES
        journal.note("broker-a", LogRecovered(count, 0, recovered_bytes))
    journal.stored(at)
    return journal if again_at is None else journal.stored(again_at)


def test_a_broker_killed_before_it_noted_what_it_stored_has_no_hole_in_its_queue() -> None:
    inside = goes_on(3, recovered_bytes=3 * RECORD_BYTES)
    assert found(inside, "places") == 0
    assert metric(inside, "excused_unnoted_places") == 1
    assert found(goes_on(3, recovered_bytes=None), "places") == 1
    assert found(goes_on(3, recovered_bytes=2 * RECORD_BYTES), "places") == 1
    assert found(goes_on(4, recovered_bytes=3 * RECORD_BYTES), "places") == 1
    assert found(goes_on(3, recovered_bytes=3 * RECORD_BYTES, again_at=5), "places") == 1


def acknowledged_late(*offsets: int, recovered_bytes: int) -> AJournal:
    """Two messages are noted, others only acknowledged; the broker restarts with all of them."""
    journal = AJournal().runs().store().sent(0).sent(1)
    for offset in offsets:
        journal.acknowledged(offset, key=f"0-{offset}")
    count = recovered_bytes // RECORD_BYTES
    return journal.note("broker-a", LogRecovered(count, 0, recovered_bytes)).stored(4)


def test_what_such_a_broker_acknowledged_and_recovered_is_not_lost() -> None:
    inside = acknowledged_late(2, 3, recovered_bytes=4 * RECORD_BYTES)
    assert found(inside, "lost") == found(inside, "places") == 0
    assert metric(inside, "excused_unnoted_places") == 2
    assert found(acknowledged_late(3, recovered_bytes=4 * RECORD_BYTES), "lost") == 0
    assert found(acknowledged_late(2, 3, recovered_bytes=3 * RECORD_BYTES), "lost") == 1
    assert found(acknowledged_late(2, 3, recovered_bytes=2 * RECORD_BYTES), "lost") == 1
    assert found(acknowledged_late(2, 3, 9, recovered_bytes=4 * RECORD_BYTES), "lost") == 1
