"""Journals of members, routes, registrations and sends, each right or wrong by one value."""

from __future__ import annotations

import json

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerIsolated,
    BrokerRegistered,
    HalfMessageSent,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
    SendAttempted,
    SendFailed,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, client_of, objections

PLAN = json.dumps(
    {
        "consumers": [{"group": "billing"}],
        "load": [{"topic": "orders"}, {"topic": "steps", "keys": 4}],
    }
)
ONE, TWO = "billing-1", "billing-2"
Q_OF_B = Queue("orders", "broker-b", 0)


def found(journal: AJournal, name: str) -> tuple[int, float]:
    """The numbers of objections and of excuses of the checker *name*."""
    judgement = judge(journal.entries, [ALL[name]])
    return len(objections(judgement, name)), judgement.metrics[f"excused_{name}"]


def a_fault(journal: AJournal, node: str, began_s: float, ended_s: float) -> AJournal:
    return journal.at_s(began_s).fault("partition", node, number=9).at_s(ended_s).healed(9)


def a_cluster(**broker_settings: object) -> AJournal:
    plan = {**json.loads(PLAN), "cluster": {"broker_settings": broker_settings}}
    journal = AJournal().runs(json.dumps(plan))
    journal.note("namesrv-a", NodeStarted("nameserver", "", "4.9.7"))
    for producer in ("producer-1", "producer-2"):
        journal.note(producer, NodeStarted("producer", "", "4.9.7"))
    for broker in ("broker-a", "broker-b"):
        journal.note(broker, NodeStarted("broker", "", "4.9.7"))
        journal.note(broker, TopicCreated("orders", 2, 2, 6, "admin"))
        registered(journal, broker)
    return journal


def registered(journal: AJournal, broker: str) -> AJournal:
    fact = BrokerRegistered("c", broker, 0, broker, 9, first=False, known_count=9)
    return journal.note("namesrv-a", fact)


def joined(journal: AJournal, node: str, broker: str = "broker-a") -> AJournal:
    fact = MemberJoined(
        "billing", client_of(node), f"{node}:1", "CONSUME_PASSIVELY", "CLUSTERING", "JAVA", 0
    )
    return journal.note(broker, fact)


def passed(journal: AJournal, node: str, *members: str, queues: int = 4) -> AJournal:
    clients = tuple(map(client_of, members))
    return journal.note(node, RebalancePassed("billing", "orders", queues, clients, 2, "timer"))


def listed(brokers: tuple[str, ...]) -> AJournal:
    journal = a_cluster().consumer(ONE)
    for broker in brokers:
        joined(journal, ONE, broker)
    return journal.at_s(45).ends()


def with_a_leaver(after_s: float) -> AJournal:
    journal = a_cluster().consumer(ONE).consumer(TWO).at_s(10).stopped(TWO)
    return passed(journal.at_s(10 + after_s), ONE, ONE, TWO)


def with_a_vanished_member(after_s: float) -> AJournal:
    journal = a_cluster().consumer(ONE).consumer(TWO).at_s(9).fault("partition", TWO, number=2)
    journal.at_s(10).fault("kill", TWO)
    return passed(journal.at_s(10 + after_s), ONE, ONE, TWO)


def a_share_of(queues: int) -> AJournal:
    return passed(a_cluster().consumer(ONE).at_s(70), ONE, ONE, queues=queues)


def a_share_of_a_route(queues: int) -> AJournal:
    journal = a_cluster().consumer(ONE).note(ONE, RouteChanged("orders", ("broker-a", "broker-b")))
    return passed(journal, ONE, ONE, queues=queues)


def a_share_while_a_broker_is_read_only(queues: int) -> AJournal:
    journal = a_cluster().at_s(2).consumer(ONE).at_s(10).fault("read_only", "broker-b")
    journal.note("broker-b", SettingsChanged("admin", ("brokerPermission=4",)))
    return passed(journal.at_s(20), ONE, ONE, queues=queues)


def a_share_of_the_dead(after_s: float) -> AJournal:
    journal = a_cluster().at_s(2).consumer(ONE).at_s(100).fault("kill", "broker-b")
    return passed(journal.at_s(100 + after_s), ONE, ONE, queues=4)


def a_share_after_a_change(after_s: float) -> AJournal:
    journal = a_cluster().consumer(ONE).at_s(70)
    journal.note("broker-b", TopicCreated("orders", 8, 8, 6, "admin"))
    return passed(journal.at_s(70 + after_s), ONE, ONE, queues=4)


def woken(after_s: float, **broker_settings: object) -> AJournal:
    journal = joined(a_cluster(**broker_settings).consumer(ONE).consumer(TWO), ONE)
    joined(journal.at_s(20), TWO)
    return passed(journal.at_s(20 + after_s), ONE, ONE, TWO)


def woken_by_a_merged_notice(after_s: float) -> AJournal:
    return woken(after_s, real_time_notices=False)


def woken_by_a_leaver(after_s: float) -> AJournal:
    journal = joined(joined(a_cluster().consumer(ONE).consumer(TWO), ONE), TWO)
    passed(journal, ONE, ONE, TWO)
    passed(journal, TWO, ONE, TWO)
    left = MemberLeft("billing", client_of(TWO), f"{TWO}:1", "channel closed")
    journal.at_s(20).stopped(TWO).note("broker-a", left)
    return passed(journal.at_s(20 + after_s), ONE, ONE)


def a_change_of_hands(after_s: float) -> AJournal:
    journal = a_cluster().consumer(ONE).consumer(TWO).claimed(ONE, Q0).at_s(after_s)
    return journal.claimed(TWO, Q0)


def a_release(after_s: float) -> AJournal:
    journal = a_cluster().consumer(ONE).claimed(ONE, Q0, Q1).at_s(20)
    passed(journal, ONE, ONE, TWO).at_s(20 + after_s)
    return journal.note(ONE, QueuesReleased("billing", (Q0,), "not mine"))


def refused_as_old(for_s: float) -> AJournal:
    journal = a_cluster().at_s(60).consumer(ONE).claimed(ONE, Q0).at_s(80)
    refused = PullFailed("billing", Q0, "code 25: SUBSCRIPTION_NOT_LATEST")
    journal.note(ONE, refused).at_s(80 + for_s / 2).note(ONE, refused)
    return journal.at_s(80 + for_s).note(ONE, refused)


def registrations(after_s: float) -> AJournal:
    journal = registered(a_cluster().at_s(min(after_s, 30)), "broker-b")
    return registered(journal.at_s(after_s), "broker-a")


def dropped(silent_ms: int) -> AJournal:
    return a_cluster().note("namesrv-a", BrokerExpired("broker-a", "broker-a", silent_ms))


def a_send_to_the_dead(after_s: float) -> AJournal:
    journal = a_cluster().at_s(100).fault("kill", "broker-b").at_s(100 + after_s)
    return attempt(journal, 1, Q_OF_B, "RemoteFailed: no answer")


def attempt(
    journal: AJournal, number: int, queue: Queue, outcome: str, node: str = "producer-1"
) -> AJournal:
    return journal.note(node, SendAttempted(queue.topic, queue, "k", number, 1, outcome))


def a_retry_at(queue: Queue) -> AJournal:
    journal = a_cluster()
    journal.note("producer-1", RouteChanged("orders", ("broker-a", "broker-b")))
    return attempt(attempt(journal, 1, Q0, "RemoteFailed: x"), 2, queue, "SEND_OK")


def a_retry_to_a_chosen_queue(load: int) -> AJournal:
    node, journal = f"producer-{load}", a_cluster()
    journal.note(node, RouteChanged("orders", ("broker-a", "broker-b")))
    attempt(journal, 1, Q0, "RemoteFailed: x", node)
    return attempt(journal, 2, Q_OF_B, "SEND_OK", node)


def a_send_of(seconds: float) -> AJournal:
    journal = attempt(a_cluster().at_s(10), 1, Q0, "RemoteFailed: x")
    return attempt(journal.at_s(10 + seconds), 2, Q_OF_B, "SEND_OK")


def a_retry_after_an_attempt_of(took_ms: int) -> AJournal:
    failed = SendAttempted("orders", Q0, "k", 1, took_ms, "RemoteFailed: x")
    journal = a_cluster().at_s(10).note("producer-1", failed)
    return attempt(journal, 2, Q_OF_B, "SEND_OK")


def two_isolations(available_in_ms: int) -> AJournal:
    journal = AJournal().runs(AWARE, release="5.3.3")
    journal.note("producer-1", BrokerIsolated("broker-a", 10_000, 10_000)).at_s(4)
    return journal.note("producer-1", BrokerIsolated("broker-a", 2_000, available_in_ms))


def two_listeners(finishes: bool) -> AJournal:
    journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    journal.stored(0).stored(1).at_s(100).claimed(ONE, Q0, offsets=(0,)).given(ONE, 0)
    if finishes:
        journal.consumed(ONE, 0)
    journal.released(ONE, Q0).claimed(TWO, Q0, offsets=(0,))
    return journal.given(TWO, 0)


def a_failed_send(ends: bool) -> AJournal:
    journal = attempt(a_cluster().at_s(10), 1, Q0, "RemoteFailed: x")
    if ends:
        journal.note("producer-1", SendFailed("orders", "k", 1, "x", maybe_stored=True))
    return journal.at_s(30).ends()


def a_half_message_that_is_not_flushed(ends: bool) -> AJournal:
    journal = attempt(a_cluster().at_s(10), 1, Q0, "FLUSH_DISK_TIMEOUT")
    if ends:
        sent = HalfMessageSent("orders", Q0, 0, "k", 1, 2, "FLUSH_DISK_TIMEOUT")
        journal.note("producer-1", sent)
    return journal.at_s(30).ends()


def a_send_that_is_stored_and_fails(maybe_stored: bool, topic: str = "orders") -> AJournal:
    journal = AJournal().runs().store().stored(0, key="k")
    attempt(journal, 1, Q0, "TimedOut: x")
    return journal.note("producer-1", SendFailed(topic, "k", 1, "x", maybe_stored))


def a_stored_message_whose_send_fails_in(topic: str) -> AJournal:
    """A consumer sends a message back to its retry topic with the key that it has."""
    return a_send_that_is_stored_and_fails(maybe_stored=False, topic=topic)


def an_attempt_that_fails_after(fault_s: float) -> AJournal:
    """An attempt fails *fault_s* after a fault of its broker ended at 50 s."""
    journal = a_fault(a_cluster(), "broker-a", 40, 50).at_s(50 + fault_s)
    return attempt(journal, 1, Q0, "NoAnswer: x")


def an_attempt_that_fails_at_a_broker_with(perm: int) -> AJournal:
    journal = a_cluster().at_s(5).note("broker-a", TopicChanged("orders", 2, 2, perm))
    return attempt(journal.at_s(10), 1, Q0, "NoPermission: x")


def an_attempt_that_fails_when_it_restarted(restarted_s: float) -> AJournal:
    journal = a_cluster().at_s(restarted_s).note("broker-a", NodeStarted("broker", "", "4.9.7"))
    return attempt(journal.at_s(200), 1, Q0, "NoAnswer: x")


AWARE = json.dumps(
    {"load": [{"topic": "orders", "settings": {"send_latency_fault_enable": True}}]}
)


def a_failure_that_isolates(for_ms: int) -> AJournal:
    journal = AJournal().runs(AWARE)
    attempt(journal, 1, Q0, "RemoteFailed: x").note(
        "producer-1", BrokerIsolated("broker-a", for_ms)
    )
    return attempt(journal, 1, Q_OF_B, "SEND_OK")


ASYNC = AWARE.replace('"settings"', '"mode": "async", "settings"')


def an_isolation_of(broker: str) -> AJournal:
    """An attempt at broker-a failed and isolates it; then *broker* is isolated, if another."""
    journal = attempt(AJournal().runs(AWARE), 1, Q0, "RemoteFailed: x")
    journal.note("producer-1", BrokerIsolated("broker-a", 600_000))
    if broker != "broker-a":
        journal.note("producer-1", BrokerIsolated(broker, 600_000))
    return journal


def an_asynchronous_isolation_before(outcome: str) -> AJournal:
    """An attempt at another broker has just ended; the next one is at the isolated broker."""
    journal = attempt(AJournal().runs(ASYNC), 1, Q_OF_B, "SEND_OK").note(
        "producer-1", BrokerIsolated("broker-a", 600_000)
    )
    return attempt(journal, 1, Q0, outcome)


def an_asynchronous_isolation_at_the_end_of_an_attempt_at(queue: Queue) -> AJournal:
    journal = attempt(AJournal().runs(ASYNC), 1, queue, "NoMaster: x")
    journal.note("producer-1", BrokerIsolated("broker-a", 600_000))
    return attempt(journal.at_s(1), 1, Q_OF_B, "SEND_OK")


def a_failure_and(isolates: bool) -> AJournal:
    journal = attempt(AJournal().runs(AWARE), 1, Q0, "RemoteFailed: x")
    if isolates:
        journal.note("producer-1", BrokerIsolated("broker-a", 600_000))
    return attempt(journal, 1, Q_OF_B, "SEND_OK")


def a_slow_answer_that_isolates(took_ms: int) -> AJournal:
    journal = AJournal().runs(AWARE).at_s(took_ms / 1_000)
    fact = SendAttempted("orders", Q0, "k", 1, took_ms, "SEND_OK")
    journal.note("producer-1", fact).note("producer-1", BrokerIsolated("broker-a", 60_000))
    return attempt(journal, 1, Q_OF_B, "SEND_OK")


def an_answer_without_isolation_after(took_ms: int) -> AJournal:
    journal = AJournal().runs(AWARE).at_s(took_ms / 1_000)
    journal.note("producer-1", SendAttempted("orders", Q0, "k", 1, took_ms, "SEND_OK"))
    return attempt(journal, 1, Q_OF_B, "SEND_OK")


def an_isolation_at_100_s(other: int = 6, release: str = "4.9.7") -> AJournal:
    """broker-a is isolated for 30 s after a slow answer; broker-b has the permission *other*."""
    journal = AJournal().runs(AWARE, release)
    journal.note("producer-1", RouteChanged("orders", ("broker-a", "broker-b")))
    for broker, perm in (("broker-a", 6), ("broker-b", other)):
        journal.note(broker, TopicCreated("orders", 2, 2, perm, "admin"))
    slow = SendAttempted("orders", Q0, "k", 1, 700, "SEND_OK")
    return (
        journal.at_s(100)
        .note("producer-1", slow)
        .note("producer-1", BrokerIsolated("broker-a", 30_000))
    )


def a_send_there_at(at_s: float) -> AJournal:
    return attempt(an_isolation_at_100_s().at_s(at_s), 1, Q0, "SEND_OK")


def a_send_there_where_the_other_one_has(perm: int) -> AJournal:
    return attempt(an_isolation_at_100_s(perm).at_s(110), 1, Q0, "SEND_OK")


def a_send_there_after_a_fast_answer_to(release: str) -> AJournal:
    """The fast answer is to a send that began before the isolation."""
    journal = an_isolation_at_100_s(release=release)
    fast = SendAttempted("orders", Q0, "k", 1, 540, "SEND_OK")
    return attempt(journal.at_s(100.5).note("producer-1", fast).at_s(110), 1, Q0, "SEND_OK")


def a_send_there_by_a_new_process(restarts: bool) -> AJournal:
    journal = an_isolation_at_100_s().at_s(105)
    if restarts:
        journal.note("producer-1", NodeStarted("producer", "", "4.9.7"))
    return attempt(journal.at_s(110), 1, Q0, "SEND_OK")


def a_send_there_while_the_other_one_has(master: str) -> AJournal:
    """Without *master* only slaves of broker-b are in the route."""
    without = () if master else ("broker-b",)
    journal = an_isolation_at_100_s().at_s(103)
    journal.note("producer-1", RouteChanged("orders", ("broker-a", "broker-b"), without))
    return attempt(journal.at_s(110), 1, Q0, "SEND_OK")


def a_send_there_before_the_route_gets_the_other_one(took_ms: int) -> AJournal:
    journal = an_isolation_at_100_s().at_s(103)
    journal.note("producer-1", RouteChanged("orders", ("broker-a",))).at_s(112)
    journal.note("producer-1", RouteChanged("orders", ("broker-a", "broker-b")))
    sent = SendAttempted("orders", Q0, "k", 1, took_ms, "SEND_OK")
    return journal.at_s(114).note("producer-1", sent)


def a_send_there_while_the_other_one_rests_until_112_s(took_ms: int) -> AJournal:
    """A send that began later, at the other one, ends before this one."""
    journal = an_isolation_at_100_s().at_s(106)
    journal.note("producer-1", BrokerIsolated("broker-b", 6_000))
    attempt(journal.at_s(113), 1, Q_OF_B, "SEND_OK")
    sent = SendAttempted("orders", Q0, "k", 1, took_ms, "SEND_OK")
    return journal.at_s(114).note("producer-1", sent)


def a_held_queue(last_pull_s: float) -> AJournal:
    journal = joined(a_cluster().consumer(ONE), ONE).claimed(ONE, Q0).at_s(last_pull_s)
    held = PullHeld("billing", Q0, 0, 1_700_000_000_000 + int(last_pull_s * 1_000), f"{ONE}:1", 1)
    return journal.note("broker-a", held).at_s(100).ends()


def a_queue_given_up(unlocks: bool) -> AJournal:
    journal = a_cluster().consumer(ONE, orderly=True).claimed(ONE, Q0).at_s(20)
    client = client_of(ONE)
    journal.note("broker-a", QueuesLocked("billing", client, (Q0,), ()))
    journal.note(ONE, QueuesReleased("billing", (Q0,), "not mine"))
    if unlocks:
        journal.note("broker-a", QueuesUnlocked("billing", client, (Q0,)))
    return journal.at_s(60).ends()


JOURNALS = (
    ("queues_are_pulled", a_held_queue, 80, 40),
    ("queues_are_unlocked", a_queue_given_up, True, False),
    ("members_are_listed", listed, ("broker-a", "broker-b"), ("broker-a",)),
    ("leavers_are_forgotten", with_a_leaver, 2, 9),
    ("leavers_are_forgotten", with_a_vanished_member, 120, 160),
    ("routes_are_current", a_share_of, 4, 3),
    ("routes_are_shared", a_share_of_a_route, 4, 2),
    ("routes_are_current", a_share_after_a_change, 50, 61),
    ("routes_are_current", a_share_while_a_broker_is_read_only, 4, 2),
    ("routes_are_current", a_share_of_the_dead, 50, 61),
    ("notices_wake", woken, 1, 9),
    ("notices_wake", woken_by_a_merged_notice, 15.2, 22),
    ("notices_wake", woken_by_a_leaver, 1, 9),
    ("shares_rest", a_change_of_hands, 50, 61),
    ("releases_follow_passes", a_release, 1, 5),
    ("subscriptions_are_latest", refused_as_old, 2, 5),
    ("registrations_come", registrations, 31, 60),
    ("expiries_wait", dropped, 120_000, 12_000),
    ("dead_brokers_leave", a_send_to_the_dead, 30, 40),
    ("retries_change_broker", a_retry_at, Q_OF_B, Q1),
    ("retries_change_broker", a_retry_to_a_chosen_queue, 1, 2),
    ("send_timeouts", a_send_of, 2.9, 3.3),
    ("send_timeouts", a_retry_after_an_attempt_of, 2_999, 3_000),
    ("isolations_are_tabled", two_isolations, 6_000, 8_000),
    ("one_listener_a_queue", two_listeners, True, False),
    ("healthy_attempts_succeed", an_attempt_that_fails_after, 159, 161),
    ("healthy_attempts_succeed", an_attempt_that_fails_at_a_broker_with, 4, 6),
    ("healthy_attempts_succeed", an_attempt_that_fails_when_it_restarted, 45, 30),
    ("failures_isolate", a_failure_that_isolates, 600_000, 180_000),
    ("failures_isolate", a_failure_and, True, False),
    ("failures_isolate", an_isolation_of, "broker-a", "broker-b"),
    ("failures_isolate", an_asynchronous_isolation_before, "RemoteFailed: x", "SEND_OK"),
    ("failures_isolate", an_asynchronous_isolation_at_the_end_of_an_attempt_at, Q0, Q_OF_B),
    ("failures_isolate", a_slow_answer_that_isolates, 1_000, 990),
    ("failures_isolate", a_slow_answer_that_isolates, 1_990, 2_010),
    ("failures_isolate", an_answer_without_isolation_after, 549, 553),
    ("isolated_brokers_rest", a_send_there_at, 130, 129.9),
    ("isolated_brokers_rest", a_send_there_where_the_other_one_has, 4, 6),
    ("isolated_brokers_rest", a_send_there_after_a_fast_answer_to, "4.9.7", "5.3.3"),
    ("isolated_brokers_rest", a_send_there_by_a_new_process, True, False),
    ("isolated_brokers_rest", a_send_there_while_the_other_one_has, "", "a master"),
    ("isolated_brokers_rest", a_send_there_before_the_route_gets_the_other_one, 3_000, 1_000),
    ("isolated_brokers_rest", a_send_there_while_the_other_one_rests_until_112_s, 3_000, 1_000),
    ("sends_end", a_failed_send, True, False),
    ("sends_end", a_half_message_that_is_not_flushed, True, False),
    ("sends_end", a_send_that_is_stored_and_fails, True, False),
    ("sends_end", a_stored_message_whose_send_fails_in, "%RETRY%billing", "orders"),
)
