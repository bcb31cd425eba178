"""Failures, each with the cause that a maintainer would write about it."""

from __future__ import annotations

import json

import msgspec
import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.cli.commands.explain import explanation_lines
from rocketmq_emulator.facts import (
    BrokerRegistered,
    DelayedDelivered,
    FaultBegan,
    MemberLeft,
    MessageSentBack,
    NodeStarted,
    NodeStopped,
    PowerLost,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
    RouteChanged,
    SendAttempted,
    SendFailed,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import EntryKey
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.explaining import explained
from rocketmq_emulator.scenarios.after.unmet_expectations import (
    UnmetExpectations,
    unmet_expectations,
)
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from tests.support.checks.small_journals import (
    EPOCH_MS,
    Q0,
    Q1,
    AJournal,
    a_consumed_journal,
    a_member,
    client_of,
)

ONE, TWO, BOTH = "billing-1", "billing-2", ("billing-1", "billing-2")


def expecting(metric: str, bound: float = 0) -> AJournal:
    """A run that expects a metric not to be above *bound*."""
    expectation = Expectation(metric=metric, operator="<=" if bound else "==", bound=bound)
    plan = msgspec.json.encode(Plan(name="a story", expect=(expectation,))).decode()
    return AJournal().runs(plan).store()


def began(journal: AJournal, word: str, *nodes: str) -> AJournal:
    """A fault that names its nodes."""
    fault = json.dumps({"fault": word, "node": list(nodes)})
    return journal.note("world", FaultBegan(1, fault, nodes))


def left(node: str, reason: str) -> MemberLeft:
    return MemberLeft("billing", client_of(node), "10.0.0.1:1", reason)


def two_lists() -> AJournal:
    """A broker drops a member that cannot reach it, another keeps it."""
    journal = expecting("overlap_s", 1).consumer(ONE).consumer(TWO)
    for broker in ("broker-a", "broker-b"):
        journal.note(broker, a_member(client_of(ONE))).note(broker, a_member(client_of(TWO)))
    journal.at_s(1).passed(ONE, 1, *BOTH).claimed(ONE, Q0).claimed(TWO, Q1)
    began(journal.at_s(10), "partition", ONE, "broker-a").at_s(131.2)
    journal.note("broker-a", left(ONE, "expired"))
    journal.at_s(140).passed(TWO, 2, TWO).claimed(TWO, Q0)
    journal.at_s(141).passed(ONE, 1, *BOTH)
    return journal.at_s(160).released(TWO, Q0).at_s(170).ends()


def a_dead_member_is_listed() -> AJournal:
    journal = expecting("unowned_s", 5).consumer(ONE).consumer(TWO)
    journal.note("broker-a", a_member(client_of(ONE))).at_s(1).claimed(ONE, Q0).claimed(TWO, Q1)
    began(journal.at_s(30), "power_off", ONE).at_s(50).passed(TWO, 1, *BOTH).at_s(150)
    journal.note("broker-a", left(ONE, "expired")).passed(TWO, 2, TWO)
    return journal.claimed(TWO, Q0).at_s(200).ends()


def a_commit_passes_a_message() -> AJournal:
    journal = a_consumed_journal(2).note("broker-a", a_member(client_of(ONE)))
    journal.at_s(10).sent(2).sent(3).given(ONE, 3).consumed(ONE, 3).at_s(15).committed(4)
    return journal.at_s(300).ends()


def a_retry_never_comes() -> AJournal:
    journal = a_consumed_journal(1).sent(1, key="K").at_s(10).given(ONE, 1)
    journal.consumed(ONE, 1, key="K", ok=False)
    sent_back = MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 100, "10.0.0.9:1")
    journal.note("broker-a", sent_back).stored(0, Queue(SCHEDULE_TOPIC, "broker-a", 2), key="K")
    delivered = DelayedDelivered(Queue("%RETRY%billing", "broker-a", 0), 3, 10)
    return journal.at_s(20).note("broker-a", delivered).at_s(300).ends()


def a_queue_is_handed_over_without_a_commit() -> AJournal:
    journal = expecting("duplicates").consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,)).at_s(5)
    journal.each(range(6), lambda offset: journal.sent(offset).consumed(ONE, offset)).committed(2)
    began(journal.at_s(8), "kill", ONE).at_s(9).claimed(TWO, Q0, offsets=(2,))
    journal.each(range(2, 6), lambda offset: journal.consumed(TWO, offset))
    return journal.committed(6).at_s(20).ends()


def a_route_is_old() -> AJournal:
    journal = expecting("unowned_s", 51).note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
    journal.consumer(ONE).note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.passed(ONE, 1, ONE, queues=1).claimed(ONE, Q0).at_s(40)
    journal.note("broker-a", TopicChanged("orders", 2, 2, 6))
    for second in range(60, 140, 20):
        journal.at_s(second).passed(ONE, 1, ONE, queues=1)
    journal.at_s(142).note(ONE, RouteChanged("orders", ("broker-a",)))
    return journal.passed(ONE, 2, ONE).claimed(ONE, Q1).at_s(150).ends()


def pulls_fail() -> AJournal:
    journal = expecting("backlog").consumer(ONE).pulled(0, 0).claimed(ONE, Q0, offsets=(0,))
    journal.at_s(10).each(range(5), journal.sent).at_s(11)
    journal.each(range(2), lambda offset: journal.consumed(ONE, offset)).committed(2)
    for second in range(12, 42):
        journal.at_s(second).note(ONE, PullFailed("billing", Q0, "no route"))
    return journal.at_s(50).ends()


def a_broker_hangs() -> AJournal:
    journal = expecting("failed_sends").note("producer", RouteChanged("orders", ("broker-a",)))
    began(journal.sent(0).at_s(10), "pause", "broker-a")
    for second in (13, 16, 19):
        attempt = SendAttempted("orders", Q0, f"K{second}", 1, 3_000, "TimedOut")
        journal.at_s(second).note("producer", attempt)
        journal.note("producer", SendFailed("orders", f"K{second}", 1, "late", maybe_stored=True))
    return journal.at_s(20).healed().at_s(30).ends()


def a_lock_is_kept() -> AJournal:
    journal = expecting("delivery_gap_s", 5).consumer(ONE, orderly=True)
    journal.consumer(TWO, orderly=True).pulled(0, 0).claimed(ONE, Q0, offsets=(0,))
    journal.at_s(9).note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    began(journal.at_s(10), "kill", ONE).sent(0)
    for second in (11, 31, 51):
        refused = QueuesLocked("billing", client_of(TWO), (), (Q0,))
        journal.at_s(second).note("broker-a", refused)
    journal.at_s(71).note("broker-a", QueuesLocked("billing", client_of(TWO), (Q0,), ()))
    journal.claimed(TWO, Q0, offsets=(0,)).at_s(72).given(TWO, 0).consumed(TWO, 0)
    return journal.at_s(80).ends()


def a_broker_is_restarted() -> AJournal:
    """It knows the group again with the next heartbeat; until then it refuses its pulls."""
    journal = expecting("delivery_gap_s", 5).note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.consumer(ONE).pulled(0, 0).claimed(ONE, Q0, offsets=(0,)).at_s(40)
    journal.note("broker-a", NodeStopped("broker", "asked")).at_s(45)
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(46).sent(0)
    for second in range(46, 61):
        failed = PullFailed("billing", Q0, "code 24: the consumer's group info not exist")
        journal.at_s(second).note(ONE, failed)
    journal.at_s(60.5).note("broker-a", a_member(client_of(ONE))).at_s(61).pulled(0, 1)
    return journal.given(ONE, 0).consumed(ONE, 0).at_s(80).ends()


def a_listener_is_slow() -> AJournal:
    journal = expecting("delivery_gap_s", 5).consumer(ONE).pulled(0, 0)
    journal.note("broker-a", a_member(client_of(ONE))).claimed(ONE, Q0, offsets=(0,))
    journal.at_s(10).sent(0).pulled(0, 1).given(ONE, 0).at_s(40).consumed(ONE, 0)
    held = PullHeld("billing", Q0, 1, EPOCH_MS + 60_000, "10.0.0.9:1", 7)
    return journal.note("broker-a", held).at_s(50).ends()


def listeners_are_busy() -> AJournal:
    journal = expecting("longest_deliver_ms", 5_000).consumer(ONE).pulled(0, 0)
    journal.note("broker-a", a_member(client_of(ONE))).claimed(ONE, Q0, offsets=(0,)).at_s(10)
    journal.each(range(5), journal.sent).pulled(0, 5)
    for offset in range(5):
        journal.at_s(10 + 2 * offset).given(ONE, offset)
        journal.at_s(12 + 2 * offset).consumed(ONE, offset)
    return journal.at_s(30).ends()


def a_commit_is_too_late() -> AJournal:
    journal = expecting("duplicates").consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,)).at_s(40).sent(0).consumed(ONE, 0)
    journal.released(ONE, Q0).committed(1).claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0)
    return journal.at_s(50).ends()


def a_queue_is_claimed_again_later() -> AJournal:
    """The last claim of the member that consumed a message again is another one."""
    journal = a_commit_is_too_late().at_s(60).released(TWO, Q0).claimed(ONE, Q0, offsets=(1,))
    journal.at_s(70).released(ONE, Q0).claimed(TWO, Q0, offsets=(475,))
    return journal.at_s(80).ends()


def two_owners_consume() -> AJournal:
    """Each is the first to consume some of the messages; the first owner had claimed before."""
    journal = expecting("duplicates").consumer(ONE).consumer(TWO).pulled(0, 0).at_s(1)
    journal.claimed(TWO, Q0, offsets=(0,)).released(TWO, Q0).claimed(ONE, Q0, offsets=(0,))
    journal.at_s(40).each(range(4), journal.sent).consumed(ONE, 0).consumed(ONE, 1)
    journal.claimed(TWO, Q0, offsets=(0,)).at_s(41)
    for node, offset in ((TWO, 0), (TWO, 1), (TWO, 3), (ONE, 3)):
        journal.consumed(node, offset)
    return journal.at_s(47.5).released(ONE, Q0).at_s(60).ends()


def a_queue_is_readable_again() -> AJournal:
    """Its owner has released it long before the broker is back."""
    journal = expecting("unowned_s", 5).note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
    journal.note("broker-b", TopicCreated("orders", 1, 1, 6, "admin")).consumer(ONE)
    queue = Queue("orders", "broker-b", 0)
    journal.passed(ONE, 2, ONE).claimed(ONE, Q0, queue)
    began(journal.at_s(40), "kill", "broker-b").at_s(60)
    journal.note(ONE, RouteChanged("orders", ("broker-a",))).passed(ONE, 1, ONE, queues=1)
    journal.released(ONE, queue).at_s(70).healed()
    journal.note("namesrv", BrokerRegistered("c", "broker-b", 0, "", 1, first=True)).at_s(80)
    journal.passed(ONE, 1, ONE, queues=1).at_s(90)
    journal.note(ONE, RouteChanged("orders", ("broker-a", "broker-b")))
    return journal.at_s(91).passed(ONE, 2, ONE).claimed(ONE, queue).at_s(99).ends()


def too_many_members() -> AJournal:
    members = ("billing-1", "billing-2", "billing-3")
    journal = expecting("queueless_members")
    for node in members:
        journal.consumer(node)
    journal.claimed(ONE, Q0).claimed(TWO, Q1).at_s(21)
    for node, own in zip(members, (1, 1, 0), strict=True):
        journal.passed(node, own, *members)
    return journal.at_s(60).ends()


def a_rebalance_is_late() -> AJournal:
    journal = expecting("rebalance_gap_s", 30).note(
        "broker-a", TopicCreated("orders", 2, 2, 6, "")
    )
    began(journal.consumer(ONE).at_s(20).passed(ONE, 2, ONE).at_s(35), "pause", "broker-a")
    for number in range(3):
        journal.at_s(50 + 20 * number).passed(ONE, 1, ONE, topic=f"steps-{number}")
    return journal.at_s(119).healed().passed(ONE, 2, ONE).at_s(130).ends()


def an_orderly_queue_goes_on_after_a_failure() -> AJournal:
    journal = AJournal().runs().store().consumer(ONE, orderly=True).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,)).sent(0).sent(1).at_s(5).given(ONE, 0)
    journal.consumed(ONE, 0, ok=False).at_s(5.2).given(ONE, 1).consumed(ONE, 1)
    return journal.at_s(10).given(ONE, 0).consumed(ONE, 0).committed(2).ends()


def a_bell_is_not_rung(*, is_answered: bool = True) -> AJournal:
    journal = AJournal().runs().store().consumer(ONE).at_s(1)
    journal.note("broker-a", a_member(client_of(ONE), "10.0.0.0:1"))
    for number, group in enumerate(("billing", "news")):
        held = PullHeld(group, Q0, 0, EPOCH_MS + 30_000, f"10.0.0.{number}:1", 7)
        journal.note("broker-a", held)
    journal.at_s(2).sent(0)
    journal.note("broker-a", PullAnswered("news", Q0, 0, 0, 1, 1, "10.0.0.1:1", 7))
    if is_answered:
        answer = PullAnswered("billing", Q0, 0, 0, 1, 1, "10.0.0.0:1", 7)
        journal.at_s(5).note("broker-a", answer)
    return journal.at_s(10).ends()


def power_goes() -> AJournal:
    journal = expecting("hidden").consumer(ONE).pulled(0, 0).claimed(ONE, Q0, offsets=(0,))
    journal.at_s(5).each(range(4), lambda offset: journal.sent(offset).consumed(ONE, offset))
    began(journal.committed(4).at_s(10), "power_off", "broker-a")
    journal.note("broker-a", PowerLost(100, 200, 400, ())).at_s(12).healed()
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.at_s(15).sent(2, key="new-2").sent(3, key="new-3").sent(4, key="new-4").pulled(4, 1)
    return journal.at_s(16).consumed(ONE, 4, key="new-4").committed(5).at_s(300).ends()


def a_commit_overtakes_a_listener() -> AJournal:
    journal = a_consumed_journal(2).note("broker-a", a_member(client_of(ONE))).at_s(10)
    journal.sent(2).sent(3).given(ONE, 2).given(ONE, 3).consumed(ONE, 3).at_s(15).committed(4)
    return journal.at_s(18).consumed(ONE, 2).at_s(20).ends()


def a_message_at_a_used_offset_is_passed() -> AJournal:
    """The message that its member was given at that offset was another one."""
    journal = a_consumed_journal(2).note("broker-a", a_member(client_of(ONE))).at_s(10)
    journal.sent(2).given(ONE, 2).at_s(12).note("broker-a", PowerLost(200, 200, 300, ())).store()
    journal.at_s(15).sent(2, key="new-2").sent(3, key="new-3").released(ONE, Q0)
    journal.at_s(20).claimed(ONE, Q0, offsets=(2,))
    return journal.consumed(ONE, 3, key="new-3").at_s(25).committed(4).at_s(60).ends()


OF_RULE = (
    (
        a_message_at_a_used_offset_is_passed,
        "lost",
        (
            "broker-a stored 2 of orders@broker-a:0 at 15.0 s. An earlier one had this offset, "
            "stored at 10.0 s, and was lost with the log's end. No member of billing gave it to a "
            "listener. billing-1 committed 4 at 25.0 s and so passed it: no pull of the group "
            "begins before a committed offset."
        ),
    ),
    (
        a_commit_passes_a_message,
        "lost",
        (
            "broker-a stored 2 of orders@broker-a:0 at 10.0 s. No member of billing gave it to "
            "a listener. billing-1 committed 4 at 15.0 s and so passed it: no pull of the group "
            "begins before a committed offset."
        ),
    ),
    (
        a_retry_never_comes,
        "lost",
        (
            "The listener of billing-1 failed at 10.0 s, so the message was sent back for a "
            "retry. broker-a stored the copy that waits at 10.0 s, at delay level 3. broker-a "
            "reports that it delivered 1 message of that level since, the last at 20.0 s, but "
            "it stored no copy of this one. No other copy of it is left that a member could "
            "pull."
        ),
    ),
    (
        a_commit_overtakes_a_listener,
        "commits",
        (
            "billing-1 gave 2 of orders@broker-a:0 to its listener at 10.0 s, and the listener "
            "had not finished it. billing-1 committed 4 at 15.0 s, beyond it. The listener "
            "finished it at 18.0 s. If the member ends between the two, no member of the group "
            "gets the message."
        ),
    ),
    (
        an_orderly_queue_goes_on_after_a_failure,
        "order",
        (
            "billing-1 failed to consume 0 of orders@broker-a:0 at 5.0 s: an orderly listener "
            "gets it again before later ones. billing-1 consumed 1 at 5.2 s nevertheless. The "
            "queue was held by billing-1 since 0.000 s. 0 was consumed at 10.0 s, after it."
        ),
    ),
    (
        a_bell_is_not_rung,
        "wakes",
        (
            "broker-a held the pull of billing-1 (billing) from 0 of orders@broker-a:0 since "
            "1.0 s. A message came at 2.0 s, which the pull waited for. The pulls of news were "
            "answered at once. This one was answered at 5.0 s, 3.0 s later: the message did not "
            "wake it."
        ),
    ),
)
OF_METRIC = (
    (
        two_lists,
        (
            "The fault partition billing-1, broker-a held from 10.0 s to the end. broker-a "
            "dropped billing-1 at 131.2 s, as nothing came from it for 120 s; broker-b kept it. "
            "So two lists of the members of billing were in use: billing-2 had billing-2, "
            "billing-1 had billing-1 and billing-2. billing-2 claimed orders@broker-a:0 at "
            "140.0 s, which billing-1 held since 1.0 s. Both held it for 20.0 s, until "
            "billing-2 released it at 160.0 s (not mine)."
        ),
    ),
    (
        a_dead_member_is_listed,
        (
            "The fault power_off billing-1 held from 30.0 s to the end. billing-1 met the fault "
            "power_off at 30.0 s, and orders@broker-a:0 had no owner in billing from then on. "
            "Lists of members still had billing-1: billing-2 left the queue to it in its "
            "rebalance at 50.0 s. broker-a dropped billing-1 at 150.0 s, as nothing came from "
            "it for 120 s. billing-2 claimed it at 150.0 s, after 120.0 s."
        ),
    ),
    (
        a_queue_is_handed_over_without_a_commit,
        (
            "billing consumed 4 messages again; all are from 2 to 5 of orders@broker-a:0: "
            "billing-1 consumed them, then billing-2. The fault kill billing-1 held from 8.0 s "
            "to the end. billing-1 met the fault kill at 8.0 s. billing-2 claimed the queue at "
            "9.0 s and began at 2. The last commit before was of 2, at 5.0 s."
        ),
    ),
    (
        a_route_is_old,
        (
            "broker-a got 2 queues of orders instead of 1 at 40.0 s. No member had claimed "
            "orders@broker-a:1 before. billing-1 counted 1 queue of orders, while brokers had 2: "
            "its route was another. billing-1 got the new route at 142.0 s, with its next poll "
            "(every 30 s), and rebalanced after it. billing-1 claimed it at 142.0 s, after "
            "102.0 s."
        ),
    ),
    (
        pulls_fail,
        (
            "billing has not finished 3 messages of orders@broker-a:0, from 2 on. billing-1 "
            "holds the queue since 0.000 s. 30 times its pull failed, from 12.0 s to 41.0 s: no "
            "route. It finished its last message there, 1, at 11.0 s."
        ),
    ),
    (
        a_broker_hangs,
        (
            "3 of 4 sends failed, from 13.0 s to 19.0 s. 3 of 3 attempts that failed went to "
            "broker-a, from 13.0 s to 19.0 s: TimedOut. The fault pause broker-a held from "
            "10.0 s to 20.0 s. The route of producer had broker-a in all that time. A send that "
            "failed had made 1 attempt at most."
        ),
    ),
    (
        a_lock_is_kept,
        (
            "orders@broker-a:0 had messages from 10.0 s to 72.0 s, and billing consumed none of "
            "them. The fault kill billing-1 held from 10.0 s to the end. broker-a refused "
            "billing-2 the lock 3 times, from 11.0 s to 51.0 s; members ask every 20 s. "
            "billing-1 had it, got or renewed it at 9.0 s, and a lock lasts 60 s: until "
            "69.0 s. billing-2 claimed the queue at 71.0 s. The next message was consumed at "
            "72.0 s."
        ),
    ),
    (
        a_broker_is_restarted,
        (
            "orders@broker-a:0 had messages from 46.0 s to 61.0 s, and billing consumed none of "
            "them. broker-a was stopped at 40.0 s and started again at 45.0 s. 15 pulls by "
            "billing-1 failed, from 46.0 s to 60.0 s: the broker did not know the group (24) "
            "until a heartbeat came; its next pull came at 61.0 s. The first heartbeat of "
            "billing-1 came to broker-a at 60.5 s: members send one every 30 s. billing-1 held "
            "it all the time, since 0.000 s. The next message was consumed at 61.0 s."
        ),
    ),
    (
        a_listener_is_slow,
        (
            "orders@broker-a:0 had messages from 10.0 s to 40.0 s, and billing consumed none of "
            "them. billing-1 held it all the time, since 0.000 s. The listener of billing-1 had "
            "0 for 30.0 s, from 10.0 s to 40.0 s. The next message was consumed at 40.0 s."
        ),
    ),
    (
        listeners_are_busy,
        (
            "Of billing, 4 of orders@broker-a:0 took longest: 10.0 s, from 10.0 s to 20.0 s. It "
            "was stored at 10.0 s, pulled at 10.0 s, given to a listener at 18.0 s, and "
            "consumed at 20.0 s. billing-1 had pulled 4 at 10.0 s, and it waited there until "
            "18.0 s: 3 messages of all queues went to its listeners in that time."
        ),
    ),
    (
        a_commit_is_too_late,
        (
            "billing consumed 1 message again; it is 0 of orders@broker-a:0: billing-1 consumed "
            "it, then billing-2. billing-1 released it (not mine) at 40.0 s. billing-2 claimed "
            "the queue at 40.0 s and began at 0. The commit of 1 came at 40.000 s, after "
            "billing-2 had asked where to begin."
        ),
    ),
    (
        a_queue_is_claimed_again_later,
        (
            "billing consumed 1 message again; it is 0 of orders@broker-a:0: billing-1 consumed "
            "it, then billing-2. billing-1 released it (not mine) at 40.0 s. billing-2 claimed "
            "the queue at 40.0 s and began at 0. The commit of 1 came at 40.000 s, after "
            "billing-2 had asked where to begin."
        ),
    ),
    (
        two_owners_consume,
        (
            "billing consumed 3 messages again; all are between 0 and 3 of orders@broker-a:0: "
            "billing-1 and billing-2 both consumed them. billing-1 still held the queue until "
            "47.5 s, so it had two owners. billing-2 claimed the queue at 40.0 s and began at 0. "
            "No offset had been committed there."
        ),
    ),
    (
        a_queue_is_readable_again,
        (
            "The fault kill broker-b held from 40.0 s to 70.0 s. billing-1 released it (not "
            "mine) at 60.0 s, and orders@broker-b:0, which can be read since 70.0 s, had no "
            "owner in billing. billing-1 counted 1 queue of orders, while brokers had 2: its "
            "route was another. The route of billing-1 had broker-a since 60.0 s. billing-1 got "
            "the new route at 90.0 s, with its next poll (every 30 s), and rebalanced after it. "
            "billing-1 claimed it at 91.0 s, after 21.0 s."
        ),
    ),
    (
        too_many_members,
        (
            "billing had 3 members and orders 2 queues at 21.0 s. A queue has one owner in a "
            "group, so at most 2 members get one; the members that sort last get none: "
            "billing-3. The last rebalance of billing-3 gave it 0 of 2 queues."
        ),
    ),
    (
        a_rebalance_is_late,
        (
            "billing-1 rebalanced orders at 20.0 s and not again until 119.0 s: 99.0 s instead "
            "of 20 s. The fault pause broker-a held from 35.0 s to 119.0 s. Meanwhile it "
            "rebalanced 3 other topics, one after the other: a call that waits delays all "
            "topics after it."
        ),
    ),
    (
        power_goes,
        (
            "broker-a lost power at 10.0 s with 300 bytes of its log not flushed, and kept 100 "
            "of them. So it lost 2 messages, among them those of orders@broker-a:0 from 2 on. "
            "After its restart it used these offsets again, from 15.0 s on. billing had "
            "committed 4 there: it continues from that offset, and never gets new messages "
            "before it."
        ),
    ),
)


def cause_of_rule(journal: AJournal, checker: str) -> str:
    """The cause of the first violation of *checker*, as one paragraph."""
    judgement = judge(journal.entries)
    violations = tuple(each for each in judgement.violations if each.checker == checker)
    found = explained(journal.entries, msgspec.structs.replace(judgement, violations=violations))
    assert found is not None
    return " ".join(found.cause)


def cause_of_expectation(journal: AJournal) -> str:
    """The cause of the only expectation, as one paragraph."""
    unmet = unmet_expectations(journal.entries, judge(journal.entries), "a story")
    assert len(unmet.unmet) == 1
    return " ".join(sentence for each in unmet.causes for sentence in each.cause)


@pytest.mark.parametrize(
    ("journal", "checker", "expected"), OF_RULE, ids=[case[0].__name__ for case in OF_RULE]
)
def test_a_broken_rule_has_the_cause_that_a_maintainer_would_write(
    journal, checker, expected
) -> None:
    assert cause_of_rule(journal(), checker) == expected


@pytest.mark.parametrize(
    ("journal", "expected"), OF_METRIC, ids=[case[0].__name__ for case in OF_METRIC]
)
def test_an_unmet_expectation_has_the_cause_that_a_maintainer_would_write(
    journal, expected
) -> None:
    assert cause_of_expectation(journal()) == expected


def test_the_screen_has_the_cause_before_the_facts() -> None:
    journal = power_goes()
    judgement = judge(journal.entries)
    unmet = unmet_expectations(journal.entries, judgement, "a story")
    lines = explanation_lines(None, unmet, [])
    assert lines[1] == "the cause of hidden == 0:"
    assert lines[2].startswith("  broker-a lost power at 10.0 s")
    at = [number for number, line in enumerate(lines) if line.startswith("the facts")]
    assert at
    assert at[0] > 2


def test_a_rule_without_a_cause_shows_evidence_that_repeats_as_one_line() -> None:
    journal = AJournal().runs().store().consumer(ONE)
    for second in range(1, 10):
        journal.at_s(second).note(ONE, PullFailed("billing", Q0, "no route"))
    evidence = tuple(
        EntryKey(each.mono_us, each.node, each.seq)
        for each in journal.entries
        if isinstance(each.fact, PullFailed)
    )
    violation = Violation(
        checker="pull_errors_wait", rule="", what="too soon", mono_us=journal.now_us, node=ONE,
        entries=evidence,
    )  # fmt: skip
    judgement = Judgement(violations=(violation,), metrics={}, fact_count=12)
    found = explained(journal.entries, judgement)
    assert found is not None
    assert found.cause == ()
    shown = [(told.count, told.node) for told in found.facts if told.is_evidence]
    assert shown == [(9, ONE)]
    assert "the cause:" not in explanation_lines(found, UnmetExpectations(), [])
