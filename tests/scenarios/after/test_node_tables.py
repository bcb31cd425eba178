"""Tables of nodes, computed from facts: written by hand, and of a run; forwards and backwards."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    BrokerExpired,
    BrokerIsolated,
    BrokerRegistered,
    BrokerReset,
    BrokerRoleChanged,
    BrokerUnregistered,
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FaultBegan,
    FaultEnded,
    LogCopied,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageStored,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    ReplyRuleRemoved,
    ReplyRuleSet,
    RouteChanged,
    StoreOpened,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.node_tables import ClusterTables, JournalCursor, Tables
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Leave,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

A0, A1 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
PEER = "10.0.0.9:1"
HOW = ("CONSUME_PASSIVELY", "CLUSTERING", "GO", 317)
BROKER = NodeStarted("broker", "10.0.0.1:10911", "4.9.7")
ME = ConsumerStarted("billing", "me", "push", False, False, ("orders",), ("*",), "4.9.7")


def entries_of(*facts: Fact, node: str = "broker-a") -> list[Entry]:
    """One fact per second, from second 0."""
    return [Entry(n + 1, n * 1_000, n * 1_000_000, node, fact) for n, fact in enumerate(facts)]


def after(*facts: Fact, node: str = "broker-a", at_s: float | None = None) -> Tables:
    tables = ClusterTables()
    for entry in entries_of(*facts, node=node):
        tables.take(entry)
    now_s = len(facts) - 1 if at_s is None else at_s
    return tables.at(round(now_s * 1_000_000))[node].tables


@pytest.mark.parametrize(
    ("begins", "table", "held", "ends"),
    [
        (
            MemberJoined("billing", "me", PEER, *HOW),
            "members",
            {"billing": {"me": PEER}},
            MemberLeft("billing", "me", PEER, "unregistered"),
        ),
        (
            QueuesLocked("billing", "me", (A0,), (A1,)),
            "locks",
            {"billing orders": {"0": "me"}},
            QueuesUnlocked("billing", "me", (A0,)),
        ),
        (
            PullHeld("billing", A0, 7, 15_000, PEER, 1),
            "held pulls",
            {"billing orders": {"0": 7}},
            PullAnswered("billing", A0, 7, 19, 0, 7, PEER, 1),
        ),
        (
            QueuesClaimed("billing", (A0,)),
            "owns",
            {"billing": {"orders@broker-a:0": ""}},
            QueuesReleased("billing", (A0,), "not mine"),
        ),
        (
            QueuesClaimed("billing", (A0, A1)),
            "owns",
            {"billing": {"orders@broker-a:0": "", "orders@broker-a:1": ""}},
            ConsumerStopped("billing", "me"),
        ),
        (
            BrokerRegistered("c", "broker-a", 0, "10.0.0.1:10911", 4, first=True),
            "brokers",
            {"broker-a": {"0": "10.0.0.1:10911", "topics": 4}},
            BrokerUnregistered("broker-a", 0, "10.0.0.1:10911", "asked"),
        ),
        (
            ReplyRuleSet(3, "{}", PEER),
            "reply rules",
            {"3": {"rule": "{}"}},
            ReplyRuleRemoved(3, "asked", 0),
        ),
        (
            FaultBegan(1, '{"fault":"slow_link","ms":200}', ("broker-a",)),
            "faults",
            {"1 slow_link": {"nodes": "broker-a", "ms": 200}},
            FaultEnded(1, "healed", 2),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fact) else "",
)
def test_what_begins_stands_in_its_table_until_it_ends(
    begins: Fact, table: str, held: Tables, ends: Fact
) -> None:
    assert after(begins) == {table: held}
    assert after(begins, ends) == {}


def test_offsets_topics_and_routes_are_as_they_were_told_last() -> None:
    assert after(
        TopicCreated("orders", 4, 4, 6, "send"),
        MessageStored(A0, 4, 0, "K", 99),
        OffsetCommitted("billing", A0, 2, PEER),
        OffsetCommitted("billing", A0, 5, PEER),
    ) == {
        "topics": {"orders": {"read": 4, "write": 4, "perm": 6}},
        "stored": {"orders": {"0": 5}},
        "committed": {"billing orders": {"0": 5}},
    }
    consumed = MessageConsumed("billing", "orders", A0, 4, "K", 0, True)  # ok
    routes = (
        RouteChanged("orders", ("broker-a", "broker-b")),
        RouteChanged("orders", ("broker-b",)),
    )
    assert after(consumed, *routes, node="billing-1") == {
        "delivered": {"billing": {"orders@broker-a:0": 5}},
        "routes": {"orders": {"broker-b": ""}},
    }


def test_locks_and_isolations_end_with_their_time() -> None:
    lock, isolation = QueuesLocked("billing", "me", (A0,), ()), BrokerIsolated("broker-b", 30_000)
    assert after(lock, isolation, at_s=30).keys() == {"locks", "avoided brokers"}
    assert after(lock, isolation, at_s=32).keys() == {"locks"}
    assert after(lock, isolation, at_s=60) == {}


@pytest.mark.parametrize("outlives", [True, False])
def test_a_broker_that_starts_again_has_what_its_store_kept(outlives: bool) -> None:
    opened = StoreOpened("ASYNC_FLUSH", outlives, 72)
    stored, member = MessageStored(A0, 4, 0, "K", 99), MemberJoined("billing", "me", PEER, *HOW)
    found = after(BROKER, opened, stored, member, BROKER)
    assert found == ({"stored": {"orders": {"0": 5}}} if outlives else {})


def test_what_a_broker_lost_with_its_power_is_gone_from_its_table() -> None:
    stored = [MessageStored(A0, n, n * 100, "K", 100) for n in range(3)]
    assert after(*stored, PowerLost(0, 200, 300, ())) == {"stored": {"orders": {"0": 2}}}


def test_a_reset_leaves_the_members_that_it_names() -> None:
    member = MemberJoined("billing", "me", PEER, *HOW)
    stored = MessageStored(A0, 4, 0, "K", 99)
    found = after(member, stored, BrokerReset(("billing",), ()))
    assert found == {"members": {"billing": {"me": PEER}}}


def test_nodes_are_running_paused_killed_and_running_again() -> None:
    pause, kill = (f'{{"fault":"{word}"}}' for word in ("pause", "kill"))
    tables = ClusterTables()
    states = []
    for entry in (
        *entries_of(FaultBegan(1, pause, ("broker-a",)), node="world"),
        *entries_of(FaultEnded(1, "healed", 1), node="world"),
        *entries_of(FaultBegan(2, kill, ("broker-a",)), node="world"),
        *entries_of(FaultEnded(2, "healed", 1), node="world"),
        *entries_of(BROKER),
        *entries_of(NodeKilled("broker-a"), node="world"),
        *entries_of(BROKER),
        *entries_of(NodePaused("broker-a"), node="world"),
        *entries_of(NodeResumed("broker-a"), node="world"),
    ):
        tables.take(entry)
        states.append(tables.at(0)["broker-a"].state)
    by_fault = ["paused", "running", "killed", "killed"]
    assert states == [*by_fault, "running", "killed", "running", "paused", "running"]


def test_a_walk_back_through_a_run_finds_what_the_way_there_found() -> None:
    plan = Plan(
        name="walked",
        topics={"orders": TopicPlan()},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=2),),
        load=(LoadPlan(topic="orders", rate=5),),
        timeline=(
            Step(does=Leave(node="billing-1"), at_ms=12_000),
            Step(does=Mark(text="the end"), at_ms=20_000),
        ),
        lasts_ms=20_000,
    )
    _, entries = finished_run(plan, seed=1)
    walk = JournalCursor(entries)
    numbers = range(0, len(entries) + 1, 97)
    there = [walk.go(number) for number in numbers]
    back = [walk.go(number) for number in reversed(numbers)]
    assert there == back[::-1]
    early, late = walk.go(walk.number_at(10)), walk.go(walk.number_at(19))
    owned = [len(early.nodes[f"billing-{n}"].tables["owns"]["billing"]) for n in (1, 2)]
    assert sum(owned) == 8 + 2  # each member also has a retry queue
    assert len(late.nodes["billing-2"].tables["owns"]["billing"]) >= 8
    assert "owns" not in late.nodes["billing-1"].tables
    brokers = [late.nodes[name].tables for name in ("broker-a", "broker-b")]
    assert [set(tables["members"]["billing"].values()) for tables in brokers]
    assert all(tables["committed"]["billing orders"].keys() <= set("0123") for tables in brokers)


# Masters that move ----------------------------------------------------------------------


def tables_after(*noted: tuple[str, Fact]) -> dict[str, Tables]:
    """One fact per second, each of its node, and the tables of all nodes after the last one."""
    tables, numbers = ClusterTables(), dict.fromkeys((node for node, _ in noted), 0)
    for second, (node, fact) in enumerate(noted):
        numbers[node] += 1
        at_us = second * 1_000_000
        tables.take(Entry(numbers[node], second * 1_000, at_us, node, fact))
    return {name: node.tables for name, node in tables.at(len(noted) * 1_000_000).items()}


def registered(broker_id: int, address: str, topics: int = 4) -> BrokerRegistered:
    return BrokerRegistered("c", "broker-a", broker_id, address, topics, first=True)


def test_a_name_server_has_each_id_of_a_broker_name_and_the_topics_of_the_smallest() -> None:
    first, second = "10.0.0.1:10911", "10.0.0.2:10911"
    pair = [("namesrv", registered(0, first)), ("namesrv", registered(1, second, topics=3))]
    assert tables_after(*pair)["namesrv"]["brokers"] == {
        "broker-a": {"0": first, "1": second, "topics": 4}
    }
    gone = ("namesrv", BrokerUnregistered("broker-a", 0, first, "channel closed"))
    assert tables_after(*pair, gone)["namesrv"]["brokers"] == {
        "broker-a": {"1": second, "topics": 4}
    }
    elected = ("namesrv", registered(0, second, topics=3))
    assert tables_after(*pair, gone, elected)["namesrv"]["brokers"] == {
        "broker-a": {"0": second, "topics": 3}
    }
    both = ("namesrv", BrokerExpired("broker-a", second, 120_000))
    assert "brokers" not in tables_after(*pair, gone, both)["namesrv"]


def test_an_elected_slave_has_the_role_and_the_queues_and_the_old_master_has_none() -> None:
    """What the slave had not copied is in no queue; its own messages follow."""

    def stored(offset: int) -> MessageStored:
        return MessageStored(A0, offset, offset * 100, f"K{offset}", 100)

    old, new = "broker-a", "broker-a-1"
    noted = [
        (old, NodeStarted("broker", "10.0.0.1:10911", "5.3.3")),
        (old, StoreOpened("ASYNC_FLUSH", outlives_process=True, retained_hours_max=72)),
        (old, BrokerRoleChanged("master", 1, "10.0.0.1:10911", 1)),
        (new, NodeStarted("broker", "10.0.0.2:10911", "5.3.3")),
        (new, StoreOpened("ASYNC_FLUSH", outlives_process=True, retained_hours_max=72)),
        (new, BrokerRoleChanged("slave", 2, "10.0.0.1:10911", 1)),
        *((old, stored(offset)) for offset in range(5)),
        (old, OffsetCommitted("billing", A0, 2, PEER)),
        (new, LogCopied(300, 300, 3)),
    ]
    before = tables_after(*noted)
    assert before[old]["stored"] == {"orders": {"0": 5}}
    assert before[new] == {"role": {"slave": {"epoch": 1, "id": 2}}}
    after_it = tables_after(*noted, (new, BrokerRoleChanged("master", 2, "10.0.0.2:10911", 2)))
    assert after_it[new] == {
        "role": {"master": {"epoch": 2, "id": 2}},
        "stored": {"orders": {"0": 3}},
        "committed": {"billing orders": {"0": 2}},
    }
    assert after_it[old].keys() == {"role"}


def test_a_slave_that_acts_as_the_master_has_that_role_until_its_master_is_back() -> None:
    began = ("broker-a-1", ActingMasterBegan(1))
    assert tables_after(began)["broker-a-1"]["role"] == {"acting master": {"id": 1}}
    ended = tables_after(began, ("broker-a-1", ActingMasterEnded(1, 0)))
    assert ended["broker-a-1"]["role"] == {"slave": {"id": 1}}
