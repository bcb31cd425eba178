"""Each monitor objects to a journal with its violation, and not to the same one without it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.facts import (
    BrokerIsolated,
    ConnectionOpened,
    HeartbeatReceived,
    MemberJoined,
    MemberLeft,
    MessageSentBack,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesReleased,
    RebalancePassed,
    RequestReceived,
    RouteChanged,
    RouteQueriesFailing,
    RouteQueriesRecovered,
    SendAttempted,
)
from tests.support.checks import journals_of_members
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    AJournal,
    a_member,
    client_of,
    objections,
)

ME = "billing-1"
BOTH = (client_of("billing-1"), client_of("billing-2"))
PLAN = json.dumps({"consumers": [{"group": "billing"}], "load": [{"topic": "orders"}]})
AWARE = json.dumps(
    {"load": [{"topic": "orders", "settings": {"send_latency_fault_enable": True}}]}
)
Q_OF_B = Queue("orders", "broker-b", 0)


def a_group(release: str = "4.9.7", plan: str = PLAN, **consumer: object) -> AJournal:
    """One member, which broker-a lists."""
    journal = AJournal().runs(plan, release=release)
    journal.consumer(ME, release=release, **consumer)
    return journal.note("broker-a", a_member(client_of(ME)))


def held(journal: AJournal, ms: int = 15_000) -> AJournal:
    until_ms = 1_700_000_000_000 + journal.now_us // 1_000 + ms
    return journal.note("broker-a", PullHeld("billing", Q0, 0, until_ms, PEER, 1))


def answered(journal: AJournal, code: int = 19) -> AJournal:
    return journal.note("broker-a", PullAnswered("billing", Q0, 0, code, 0, 0, PEER, 1))


def passed(journal: AJournal, node: str, own: int, cause: str = "timer", **fields) -> AJournal:
    known = {"group": "billing", "topic": "orders", "queue_count": 4, "members": BOTH, **fields}
    return journal.note(node, RebalancePassed(own_count=own, cause=cause, **known))


def tried(journal: AJournal, attempt: int, key: str = "k", **fields) -> AJournal:
    known = {"queue": Q0, "took_ms": 1, "outcome": "TimedOut", **fields}
    return journal.note(
        "producer", SendAttempted(topic="orders", uniq_key=key, attempt=attempt, **known)
    )


# Each journal is right with one value and wrong with another -------------------------------


def heartbeats(seconds: float) -> AJournal:
    heartbeat = RequestReceived(PEER, 34, 7)
    journal = a_group().note("broker-a", heartbeat).at_s(seconds).note("broker-a", heartbeat)
    return journal.at_s(seconds + 1).ends()


def noted_heartbeats(seconds: float) -> AJournal:
    """Heartbeats as virtual runs note them."""
    heartbeat = HeartbeatReceived(client_of(ME), PEER)
    journal = a_group().note("broker-a", heartbeat).at_s(seconds).note("broker-a", heartbeat)
    return journal.at_s(seconds + 1).ends()


def silence(seconds: float) -> AJournal:
    journal = a_group().note("broker-a", RequestReceived(PEER, 34, 7))
    return journal.at_s(seconds).ends()


def farewell(reason: str) -> AJournal:
    journal = a_group().note("broker-b", a_member(client_of(ME)))
    journal.note("broker-a", MemberLeft("billing", client_of(ME), PEER, "unregistered"))
    return journal.note("broker-b", MemberLeft("billing", client_of(ME), PEER, reason))


def outage(is_over: bool) -> AJournal:
    journal = AJournal().note("producer", RouteQueriesFailing("refused", 0, 30_000))
    if is_over:
        journal.note("producer", RouteQueriesRecovered("10.0.0.1:9876", 1_000))
    return journal.note("producer", RouteChanged("orders", ("broker-a",)))


def deletion(brokers: tuple[str, ...]) -> AJournal:
    return AJournal().note("producer", RouteChanged("orders", brokers))


def stray_send(queue: Queue) -> AJournal:
    journal = AJournal().note("producer", RouteChanged("orders", ("broker-a",))).at_s(3)
    return tried(journal, 1, queue=queue)


def attempts(count: int) -> AJournal:
    journal = AJournal().runs(PLAN)
    return journal.each(range(1, count + 1), lambda number: tried(journal, number))


def one_way(attempt: int) -> AJournal:
    journal = AJournal().runs(PLAN)
    return journal.each(
        range(1, attempt + 1), lambda number: tried(journal, number, outcome="ONE_WAY")
    )


def retried_with_one_id(first_attempts: int) -> AJournal:
    """A member sends two copies of a message back at once; both sends are tried again."""
    journal = AJournal()
    for number, outcome in (*[(1, "NoAnswer: x")] * first_attempts, *[(2, "SEND_OK")] * 2):
        journal.note("billing-1", SendAttempted("%RETRY%billing", Q0, "k", number, 1, outcome))
    return journal


def second_key(key: str) -> AJournal:
    return tried(tried(AJournal().runs(PLAN), 1), 2, key=key)


def retry_in_queue(queue: Queue) -> AJournal:
    journal = AJournal().runs(json.dumps({"load": [{"producers": 2}, {"mode": "async"}]}))
    for attempt, place in ((1, Q0), (2, queue)):
        fact = SendAttempted("orders", place, "k", attempt, 1, "TimedOut")
        journal.note("producer-1", fact).note("producer-3", fact)
    return journal


def isolation(plan: str) -> AJournal:
    return AJournal().runs(plan).note("producer", BrokerIsolated("broker-a", 30_000))


def penalty_of_4(ms: int) -> AJournal:
    return AJournal().runs(AWARE).note("producer", BrokerIsolated("broker-a", ms))


def penalty_of_5(ms: int) -> AJournal:
    journal = AJournal().runs(AWARE, release="5.3.3")
    return journal.note("producer", BrokerIsolated("broker-a", ms))


def passes_by_time(seconds: float) -> AJournal:
    return passed(passed(a_group(), ME, 2).at_s(seconds), ME, 2)


def passes_since_5_2(seconds: float) -> AJournal:
    return passed(passed(a_group("5.3.3"), ME, 2).at_s(seconds), ME, 2, "notice")


def shares(second: int) -> AJournal:
    return passed(passed(a_group().consumer("billing-2"), ME, 2), "billing-2", second)


def uneven(first: int) -> AJournal:
    return passed(passed(a_group().consumer("billing-2"), ME, first), "billing-2", 4 - first)


def unlisted(own: int) -> AJournal:
    return passed(a_group(), ME, own, members=(BOTH[1],))


def a_share(is_broadcasting: bool) -> AJournal:
    return passed(a_group(broadcast=is_broadcasting), ME, 4, members=BOTH[:1])


def first_pull(ms: int) -> AJournal:
    journal = a_group("5.3.3").claimed(ME, Q0)
    return held(journal.at_s((journal.now_us + ms * 1_000) / 1e6))


def second_pull(is_answered: bool) -> AJournal:
    journal = held(a_group())
    return held(answered(journal) if is_answered else journal)


def failed_pulls(ms: int) -> AJournal:
    failure = PullFailed("billing", Q0, "no answer")
    journal = a_group().claimed(ME, Q0).note(ME, failure)
    return journal.at_s((journal.now_us + ms * 1_000) / 1e6).note(ME, failure)


def hold(ms: int) -> AJournal:
    return held(a_group(), ms)


def expiry(seconds: float) -> AJournal:
    journal = a_group().claimed(ME, Q0).at_s(seconds)
    return journal.note(ME, QueuesReleased("billing", (Q0,), "pull expired"))


def repair_of_4(seconds: float) -> AJournal:
    return held(answered(a_group(), 21).at_s(seconds))


def repair_of_5(seconds: float) -> AJournal:
    return held(answered(a_group("5.3.3"), 21).at_s(seconds))


def level(number: int) -> AJournal:
    fact = MessageSentBack("billing", "orders", "%RETRY%billing", 2, number, 0, PEER)
    return AJournal().note("broker-a", fact)


def repeat(seconds: float) -> AJournal:
    return a_group().consumed(ME, 0, ok=False).at_s(seconds).consumed(ME, 0)


def orderly_repeat(seconds: float) -> AJournal:
    return a_group(orderly=True).consumed(ME, 0, ok=False).at_s(seconds).consumed(ME, 0)


def broadcast_repeat(offset: int) -> AJournal:
    journal = a_group(broadcast=True).consumed(ME, 0, ok=False)
    return journal.at_s(60).consumed(ME, offset)


def send_back(is_broadcasting: bool) -> AJournal:
    fact = MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 0, PEER)
    return a_group(broadcast=is_broadcasting).consumed(ME, 0, ok=False).note("broker-a", fact)


JOURNALS: tuple[tuple[str, Callable[..., AJournal], object, object], ...] = (
    # monitor, journal, right, wrong
    ("heartbeats_come", heartbeats, 30, 90),
    ("heartbeats_come", noted_heartbeats, 30, 90),
    ("heartbeats_come", silence, 31, 90),
    ("members_unregister", farewell, "unregistered", "channel closed"),
    ("routes_outlive_name_servers", outage, True, False),
    ("routes_outlive_name_servers", deletion, ("broker-a",), ()),
    ("sends_follow_routes", stray_send, Q0, Q_OF_B),
    ("attempts_are_bounded", attempts, 3, 4),
    ("attempts_are_bounded", one_way, 1, 2),
    ("attempts_are_bounded", second_key, "k", "another"),
    ("attempts_are_bounded", retried_with_one_id, 2, 1),
    ("async_retries_stay", retry_in_queue, Queue("orders", "broker-b", 0), Q1),
    ("isolations_are_tabled", isolation, AWARE, PLAN),
    ("isolations_are_tabled", penalty_of_4, 600_000, 2_000),
    ("isolations_are_tabled", penalty_of_5, 2_000, 600_000),
    ("pass_times", passes_by_time, 20.1, 19.9),
    ("pass_times", passes_since_5_2, 1.1, 0.9),
    ("shares_add_up", shares, 2, 3),
    ("shares_add_up", uneven, 2, 1),
    ("shares_add_up", unlisted, 0, 1),
    ("broadcasters_share_nothing", a_share, False, True),
    ("first_pulls", first_pull, 501, 100),
    ("one_pull_at_a_time", second_pull, True, False),
    ("pull_errors_wait", failed_pulls, 1_000, 900),
    ("held_pulls", hold, 20_000, 25_000),
    ("expired_pulls", expiry, 121, 60),
    ("illegal_offsets_rest", repair_of_4, 10.1, 9.9),
    ("illegal_offsets_rest", repair_of_5, 0.6, 0.4),
    ("retry_levels", level, 4, 3),
    ("repeats_wait", repeat, 5.1, 4.9),
    ("repeats_wait", orderly_repeat, 1.1, 0.9),
    ("repeats_wait", broadcast_repeat, 1, 0),
    ("repeats_wait", send_back, False, True),
    *journals_of_members.JOURNALS,
)


@pytest.mark.parametrize(("name", "journal_of", "right", "wrong"), JOURNALS)
def test_a_monitor_objects_to_the_story_told_wrong_and_only_to_that(
    name: str, journal_of: Callable[..., AJournal], right: object, wrong: object
) -> None:
    def said(value: object) -> list[str]:
        return objections(judge(journal_of(value).entries, [MONITORS[name]]), name)

    assert said(right) == []
    assert len(said(wrong)) == 1


def test_every_monitor_has_a_bad_journal() -> None:
    assert {name for name, *_ in JOURNALS} == MONITORS.keys()


def test_every_monitor_runs_on_every_journal() -> None:
    assert MONITORS.items() <= ALL.items()


def test_heartbeats_that_no_broker_notes_are_not_missed() -> None:
    assert objections(a_group().at_s(90).ends().judged(), "heartbeats_come") == []
    journal = a_group().at_s(90).note("broker-a", RequestReceived(PEER, 34, 7)).ends()
    assert objections(journal.judged(), "heartbeats_come") == []


def test_a_member_that_was_killed_or_cancelled_need_not_unregister() -> None:
    journal = a_group().stopped(ME)
    journal.note("broker-a", MemberLeft("billing", client_of(ME), PEER, "channel closed"))
    assert objections(journal.judged(), "members_unregister") == []


def test_a_broker_that_a_fault_touched_may_lose_a_member_otherwise() -> None:
    journal = a_group().fault("partition", "broker-b", ME)
    journal.note("broker-a", MemberLeft("billing", client_of(ME), PEER, "unregistered"))
    journal.note("broker-b", MemberLeft("billing", client_of(ME), PEER, "expired"))
    assert objections(journal.judged(), "members_unregister") == []


def test_a_node_whose_clock_was_moved_is_let_off() -> None:
    journal = a_group().fault("clock_drift", ME)
    journal = passed(passed(journal, ME, 2).at_s(19), ME, 2)
    assert objections(journal.judged(), "pass_times") == []


def test_a_group_whose_plan_sets_the_timer_is_let_off() -> None:
    part = {"group": "billing", "settings_of": {ME: {"rebalance_interval_ms": 5_000}}}
    journal = a_group(plan=json.dumps({"consumers": [part]}))
    journal = passed(passed(journal, ME, 2).at_s(6), ME, 2)
    assert objections(journal.judged(), "pass_times") == []


def test_two_members_may_pull_one_queue_while_it_changes_hands() -> None:
    journal = held(a_group())
    journal.note("broker-a", a_member("other", "10.0.0.8:1"))
    assert objections(held(held(journal)).judged(), "one_pull_at_a_time") == []


def test_a_new_connection_may_pull_what_a_lost_one_is_waiting_for() -> None:
    journal = held(a_group()).note("broker-a", ConnectionOpened("10.0.0.9:2", "peer"))
    assert objections(held(journal).judged(), "one_pull_at_a_time") == []


def test_a_pull_of_a_queue_that_was_given_up_may_fail_beside_the_new_one() -> None:
    error = PullFailed("billing", Q0, "the connection ended")
    again = a_group().claimed(ME, Q0).released(ME, Q0).claimed(ME, Q0)
    assert objections(again.note(ME, error).note(ME, error).judged(), "pull_errors_wait") == []
    later = again.at_s(31).note(ME, error).note(ME, error)
    assert len(objections(later.judged(), "pull_errors_wait")) == 1


def joined(client: str, peer: str) -> MemberJoined:
    return MemberJoined("billing", client, peer, "CONSUME_PASSIVELY", "CLUSTERING", "GO", 397)


def lost(journal: AJournal) -> AJournal:
    """The broker loses another member's connection."""
    journal.note("broker-a", joined("other", "10.0.0.8:1"))
    return journal.note("broker-a", MemberLeft("billing", "other", "10.0.0.8:1", "channel closed"))


def test_a_member_that_lost_its_connection_may_pull_before_its_next_heartbeat() -> None:
    known = lost(a_group().consumer("billing-2"))
    assert objections(held(held(known)).judged(), "one_pull_at_a_time") == []
    ended = lost(a_group().consumer("billing-2").stopped("billing-2"))
    assert len(objections(held(held(ended)).judged(), "one_pull_at_a_time")) == 1
    foreign = AJournal().note("broker-a", joined("a Go client", PEER))
    assert objections(held(held(lost(foreign))).judged(), "one_pull_at_a_time") == []


def test_the_pull_of_a_member_that_left_may_be_held_late() -> None:
    other = PullHeld("billing", Q0, 0, 1_700_000_015_000, "10.0.0.8:1", 7)
    journal = a_group().note("broker-a", other)
    assert objections(held(journal).judged(), "one_pull_at_a_time") == []


def test_a_foreign_client_with_two_pulls_under_way_is_found_by_the_broker_s_facts_alone() -> None:
    journal = AJournal().note("broker-a", a_member("a Go client"))
    journal = held(held(journal))
    assert len(objections(journal.judged(), "one_pull_at_a_time")) == 1


def test_the_retry_of_a_message_waits_the_longest_level_at_most() -> None:
    fact = MessageSentBack("billing", "orders", "%RETRY%billing", 30, 18, 0, PEER)
    assert objections(AJournal().note("broker-a", fact).judged(), "retry_levels") == []


def test_a_queue_that_is_claimed_anew_begins_anew() -> None:
    journal = a_group().consumed(ME, 0, Q1, ok=False).claimed(ME, Q1).consumed(ME, 0, Q1)
    assert objections(journal.judged(), "repeats_wait") == []


def test_a_member_that_stood_still_may_fail_late_what_it_began_long_ago() -> None:
    journal = a_group().claimed(ME, Q0).at_s(10).fault("pause", ME).at_s(190).healed()
    journal.note(ME, PullFailed("billing", Q0, "no answer in time"))
    journal.note(ME, QueuesReleased("billing", (Q0,), "pull expired"))
    assert objections(journal.judged(), "expired_pulls") == []
