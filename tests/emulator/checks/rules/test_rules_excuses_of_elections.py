"""What rules excuse around elections and missing masters: each inside, and just outside.

broker-a is the master; its slave broker-a-1 may be elected at 200 s, or may act for it.
"""

from __future__ import annotations

import json
from typing import Any, Self

import pytest

from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerRoleChanged,
    Fact,
    LogCopied,
    LogRecovered,
    MasterConnected,
    MasterDisconnected,
    MessageStored,
    MetadataSynced,
    NodeStarted,
    PowerLost,
    Queue,
    RouteChanged,
    RunEnded,
    SlaveConnected,
    StoreOpened,
    SyncStateSetChanged,
    TimerMessageDropped,
    TimerMessagePutAside,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.replication import NO_COMMON_EPOCH, TOPICS_TABLE
from rocketmq_emulator.protocol.messages.names import TIMER_TOPIC
from tests.support.checks.small_journals import (
    EPOCH_MS,
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    objections,
)

MASTER, SLAVE, ONE, TWO = "broker-a", "broker-a-1", "billing-1", "billing-2"
RELEASE = "5.3.3"
TIMERS = Queue(TIMER_TOPIC, MASTER, 0)
NEW = Queue("orders", MASTER, 2)  # of a topic that grows


class AJournalOfReplicas(AJournal):
    """A master and a slave, with a controller; of their facts only what the tests need."""

    def begins(self, *, controller: bool = True, **cluster: Any) -> Self:
        consumers = [{"group": "billing"}]
        self.runs(json.dumps({"cluster": cluster, "consumers": consumers}), RELEASE)
        for number, node in enumerate((MASTER, SLAVE)):
            self.note(node, NodeStarted("broker", f"10.0.0.{number}:10911", RELEASE))
            self.note(node, StoreOpened("ASYNC_FLUSH", True, 72))
            if controller:
                self.takes_role(node, "slave" if number else "master", 1)
        self.note(SLAVE, MasterConnected("10.0.0.0:10912", 0))
        return self.note(MASTER, SlaveConnected("10.0.0.1:1", 0, 0))

    def takes_role(self, node: str, role: str, epoch: int) -> Self:
        number = 1 if node == MASTER else 2
        return self.note(node, BrokerRoleChanged(role, number, "10.0.0.0:10911", epoch))

    def elects(self) -> Self:
        self.at_s(200).takes_role(SLAVE, "master", 2)
        registered = BrokerRegistered("c", MASTER, 0, "10.0.0.1:10911", 2, True, 2)
        return self.note("namesrv-a", registered)

    def copied(self, count: int) -> Self:
        """The slave has the first *count* records."""
        return self.note(SLAVE, LogCopied(count * RECORD_BYTES, count * RECORD_BYTES, count))

    def never_rests(self) -> tuple[float, float]:
        """How often the run counts as restless, and as excused."""
        self.note("world", RunEnded("finished", "queues change hands"))
        metrics = self.judged().metrics
        return metrics["unrest"], metrics["excused_unrest"]


EXCUSED, RESTLESS = (0, 1), (1, 0)


def found(journal: AJournal, checker: str) -> list[str]:
    judgement = journal.ends().judged()
    assert checker not in judgement.not_judged
    return objections(judgement, checker)


# Owners -------------------------------------------------------------------------------------


def two_owners(back_s: float, *, node: str = ONE, lacked: str = MASTER) -> list[str]:
    """Both members hold a queue from 10 s to 100 s; *node* has no route of *lacked* from 20 s."""
    both = {MASTER, "broker-b"}
    journal = AJournal().runs().store().store("broker-b")
    journal.note(MASTER, TopicCreated("orders", 2, 2, 6, "admin"))
    for member in (ONE, TWO, "billing-3"):
        journal.consumer(member).note(member, RouteChanged("orders", tuple(both)))
    journal.passed(ONE, 2, ONE).claimed(ONE, Q0).at_s(10).claimed(TWO, Q0)
    journal.at_s(20).note(node, RouteChanged("orders", tuple(both - {lacked})))
    if back_s:
        journal.at_s(back_s).note(node, RouteChanged("orders", tuple(both)))
    return found(journal.at_s(100).released(TWO, Q0), "ownership")


def test_two_owners_need_not_agree_while_the_routes_of_one_lack_the_broker() -> None:
    assert two_owners(back_s=60) == two_owners(back_s=0) == []
    assert two_owners(back_s=60, node=TWO) == []
    assert len(two_owners(back_s=30)) == 1  # they had the same routes for 70 s
    assert len(two_owners(back_s=60, node="billing-3")) == 1  # which does not hold the queue
    assert len(two_owners(back_s=60, lacked="broker-b")) == 1  # which has no queue of the topic


def unowned_after_an_election(*, synced_s: float, own: int = 0, elects: bool = True) -> list[str]:
    """The topic grows to 4 queues at 100 s; nobody holds queues 2 and 3.

    The slave copies topics at *synced_s*, and has a topic with *own* queues before.
    """
    journal = AJournalOfReplicas().begins().consumer(ONE)
    journal.note(MASTER, TopicCreated("orders", 2, 2, 6, "admin"))
    journal.passed(ONE, 2, ONE).claimed(ONE, Q0, Q1)
    if own:
        journal.at_s(40).note(SLAVE, TopicCreated("orders", own, own, 6, "send"))
    steps: list[tuple[float, str, Fact]] = [
        (synced_s, SLAVE, MetadataSynced("10.0.0.0:10911", TOPICS_TABLE)),
        (100, MASTER, TopicChanged("orders", 4, 4, 6)),
    ]
    for at_s, node, fact in sorted(steps, key=lambda step: step[0]):
        if at_s and (elects or node == SLAVE):
            journal.at_s(at_s).note(node, fact)
    if elects:
        journal.elects()
    return found(journal.at_s(600), "ownership")


def test_an_elected_slave_has_the_queues_of_its_last_copy_and_no_others_need_owners() -> None:
    assert unowned_after_an_election(synced_s=50) == []
    assert len(unowned_after_an_election(synced_s=150)) == 2


def test_queues_that_a_slave_made_itself_need_owners_once_it_is_elected() -> None:
    assert unowned_after_an_election(synced_s=0, own=4, elects=False) == []
    assert len(unowned_after_an_election(synced_s=0, own=4)) == 2
    assert unowned_after_an_election(synced_s=0, own=2) == []
    assert unowned_after_an_election(synced_s=50, own=4) == []  # the copy replaced it


# Unrest -------------------------------------------------------------------------------------


def other_logs(*, acts: bool = True, copied: int = 2) -> tuple[float, float]:
    """The master loses its second record with its power and stores another one."""
    journal = AJournalOfReplicas().begins(controller=False, acting_master=acts).consumer(ONE)
    journal.stored(0, key="a").stored(1, key="b").copied(copied)
    journal.note(MASTER, PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES))
    journal.note(MASTER, MessageStored(Q0, 1, RECORD_BYTES, "new", RECORD_BYTES))
    return journal.never_rests()


def test_a_run_may_never_rest_if_a_slave_that_may_act_has_another_log() -> None:
    assert other_logs() == EXCUSED
    assert other_logs(acts=False) == RESTLESS  # nobody delivers what such a slave has
    assert other_logs(copied=1) == RESTLESS


def a_closed_master(
    *, least: int = 2, size: int = 1, reason: str = NO_COMMON_EPOCH, copies: bool = False
) -> tuple[float, float]:
    """The set of broker-a has *size* members, as its slave has another log for good."""
    settings = {"min_in_sync_replicas": least}
    journal = AJournalOfReplicas().begins(broker_settings=settings).consumer(ONE)
    members = tuple(range(1, size + 1))
    journal.at_s(10).note("controller-a", SyncStateSetChanged(MASTER, members, 2))
    journal.note(SLAVE, MasterDisconnected("10.0.0.0:10912", reason))
    if copies:
        journal.copied(1)
    return journal.at_s(20).never_rests()


def test_a_run_may_never_rest_if_a_master_stores_nothing_as_its_slave_can_copy_nothing() -> None:
    assert a_closed_master() == EXCUSED
    assert a_closed_master(least=1) == RESTLESS
    assert a_closed_master(size=2) == RESTLESS
    assert a_closed_master(reason="the connection ended") == RESTLESS  # it comes back
    assert a_closed_master(copies=True) == RESTLESS


def a_lost_queue(*, synced_s: float, stored: Queue = NEW) -> tuple[float, float]:
    """A topic grows at 100 s and a message is in *stored*; the slave copied at *synced_s*."""
    journal = AJournalOfReplicas().begins().consumer(ONE)
    journal.note(MASTER, TopicCreated("orders", 2, 2, 6, "admin"))
    steps: list[tuple[float, str, Fact]] = [
        (synced_s, SLAVE, MetadataSynced("10.0.0.0:10911", TOPICS_TABLE)),
        (100, MASTER, TopicChanged("orders", 4, 4, 6)),
    ]
    for at_s, node, fact in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s).note(node, fact)
    journal.at_s(160).pulled(0, 0, NEW, "left").stored(0, stored).copied(1)
    return journal.elects().never_rests()


def test_a_run_may_never_rest_if_an_elected_master_lacks_a_queue_with_messages() -> None:
    assert a_lost_queue(synced_s=50) == EXCUSED
    assert a_lost_queue(synced_s=150) == RESTLESS
    assert a_lost_queue(synced_s=50, stored=Q0) == RESTLESS  # the new queues are empty


# Timers -------------------------------------------------------------------------------------


def a_dropped_timer(
    node: str = f"{MASTER}-1", *, dropped: int = 0, of: Queue = Q0, least: int = 1
) -> list[str]:
    """A timer message waits until 6 s, and *node* drops offset *dropped*, of a message to *of*.

    The sync-state set has one member from 2 s on.
    """
    settings = {"min_in_sync_replicas": least}
    journal = AJournalOfReplicas().begins(broker_settings=settings).consumer(ONE)
    stored = MessageStored(TIMERS, 0, 0, "k", RECORD_BYTES, "", "orders")
    journal.note(MASTER, stored).note(MASTER, TimerMessagePutAside(Q0, 0, EPOCH_MS + 6_000, "k"))
    journal.acknowledged(0, key="k")
    journal.at_s(2).note("controller-a", SyncStateSetChanged(MASTER, (1,), 2))
    journal.at_s(7).note(node, TimerMessageDropped(of, dropped, "a reason", "k"))
    return found(journal.at_s(300), "lost")


def test_an_acting_master_drops_timer_messages_that_it_cannot_send_away() -> None:
    assert a_dropped_timer() == []


@pytest.mark.parametrize(
    "otherwise",
    [
        {"node": MASTER},
        {"node": MASTER, "least": 2},  # few replicas do not refuse what a broker stores again
        {"node": "broker-b"},
        {"dropped": 1},  # another message's place
        {"of": Queue("orders", "broker-b", 0)},
    ],
)
def test_a_timer_message_that_is_dropped_otherwise_is_lost(otherwise: dict[str, Any]) -> None:
    assert len(a_dropped_timer(**otherwise)) == 1
