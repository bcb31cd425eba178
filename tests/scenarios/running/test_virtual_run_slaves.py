"""Plans whose masters have slaves: their nodes, their settings, and faults of either."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.fault_values import (
    CutLink,
    Kill,
    Lag,
    Partition,
    Pause,
    PowerOff,
    SlowDisk,
)
from rocketmq_emulator.facts import (
    FaultBegan,
    FaultEnded,
    LogCopied,
    LogFlushed,
    LogRecovered,
    MasterConnected,
    MasterDisconnected,
    MessageSent,
    MessageStored,
    NodeKilled,
    NodePaused,
    PowerLost,
    SlaveAcknowledged,
    SlaveConnected,
    SlaveDisconnected,
)
from rocketmq_emulator.scenarios import BadScenario, scenario
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, LoadPlan, Step
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan, facts_of

BOTH = pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
MASTER, SLAVE = "broker-a", "broker-a-1"
SYNC = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
FLUSHED = {"flush_disk_type": "SYNC_FLUSH", "store": "store"}
FAULT_MS = 15_000  # slaves of 4.x have reported by then, and messages are being sent


def entries_of(*steps: Step, release: str = "4.9.7", settings=None, **fields):
    cluster = ClusterPlan(brokers=1, slaves=1, release=release, broker_settings=settings or {})
    load = LoadPlan(topic="orders", rate=20, from_ms=12_000, until_ms=30_000)
    plan = a_plan(*steps, cluster=cluster, load=(load,), lasts_ms=60_000, **fields)
    result, entries = finished_run(plan, 1)
    assert result.verdict != "error", result.reason
    return entries


def at(entries, kind, node=None, **fields):
    """The times in ms of the facts of *kind*, at *node* and with *fields*."""
    return [
        entry.mono_us / 1_000
        for entry in entries
        if type(entry.fact) is kind
        and node in (None, entry.node)
        and all(getattr(entry.fact, name) == value for name, value in fields.items())
    ]


def copied_at(entries, node=SLAVE):
    """By position in the log: when the slave had it, and when its master had stored it."""
    stored = {
        e.fact.position + e.fact.size_bytes: e.mono_us / 1_000
        for e in entries
        if type(e.fact) is MessageStored and e.node == MASTER
    }
    ends = [
        (e.fact.position, e.mono_us / 1_000)
        for e in entries
        if type(e.fact) is LogCopied and e.node == node
    ]
    return [
        (stored_ms, next(ms for position, ms in ends if position >= end))
        for end, stored_ms in stored.items()
        if any(position >= end for position, _ in ends)
    ]


# The cluster of a plan -----------------------------------------------------------------


@scenario
async def a_master_with_two_slaves(run) -> None:
    cluster = await run.cluster(
        brokers=1, slaves=2, topics={"orders": 1}, broker_settings=SYNC, release="5.3.3"
    )
    assert cluster.broker_names == (MASTER, SLAVE, "broker-a-2")
    await run.sleep(1)
    cluster.kill("broker-a-2")
    await run.sleep(1)


def test_python_scenarios_and_files_give_slaves_and_the_roles_of_masters() -> None:
    written = """
        name = "a_master_with_two_slaves"
        lasts = "2s"
        [cluster]
        brokers = 1
        slaves = 2
        release = "5.3.3"
        broker_settings = { broker_role = "SYNC_MASTER", in_sync_replicas = 2 }
        [topics]
        orders = 1
        [[timeline]]
        at = "1s"
        kill = "broker-a-2"
    """
    plan = a_master_with_two_slaves.plan()
    assert read_plan(written, "slaves.toml").cluster == plan.cluster
    assert plan.cluster.slaves == 2
    _, entries = finished_run(plan, 1)
    assert {e.node for e in entries if type(e.fact) is MasterConnected} == {SLAVE, "broker-a-2"}


@pytest.mark.parametrize(
    ("cluster", "step", "text"),
    [
        ("slaves = 9", "", "a broker has 0 to 8 slaves"),
        ("slaves = -1", "", "a broker has 0 to 8 slaves"),
        ('broker_settings = { broker_role = "SLAVE" }', "", "must fit"),
        ("", 'kill = "broker-a-1"', "'broker-a-1'"),
        ("slaves = 1", 'lag = { node = "broker-a", ms = 5 }', "there is no slave 'broker-a'"),
        ("slaves = 1", 'lag = "broker-a-1"', "without them nothing is late"),
    ],
)
def test_a_plan_whose_slaves_are_wrong_is_refused_with_the_reason(cluster, step, text) -> None:
    step = f'[[timeline]]\nat = "1s"\n{step}' if step else ""
    written = f'name = "wrong"\n[cluster]\nbrokers = 1\n{cluster}\n[topics]\norders = 1\n{step}'
    with pytest.raises(BadScenario, match=text):
        read_plan(written, "wrong.toml")


# Faults of nodes ------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("node", [MASTER, SLAVE])
@pytest.mark.parametrize(("kind", "fact"), [(Kill, NodeKilled), (Pause, NodePaused)])
def test_a_fault_of_a_master_or_a_slave_is_not_one_of_the_other(release, node, kind, fact) -> None:
    step = Step(does=kind(node=node), at_ms=FAULT_MS, for_ms=5_000)
    entries = entries_of(step, release=release)
    (began,) = facts_of(entries, FaultBegan)
    assert began.nodes == (node,)
    assert [each.node for each in facts_of(entries, fact)] == [node]
    stored, copied = facts_of(entries, MessageStored, MASTER), facts_of(entries, LogCopied, SLAVE)
    assert sum(each.message_count for each in copied) == len(stored) > 200


@BOTH
@pytest.mark.parametrize("node", [MASTER, SLAVE])
def test_power_loss_of_either_leaves_the_other_and_replication_goes_on(release, node) -> None:
    step = Step(does=PowerOff(node=node), at_ms=FAULT_MS, for_ms=5_000)
    entries = entries_of(step, release=release, settings={**SYNC, **FLUSHED})
    (lost,) = [entry.node for entry in entries if type(entry.fact) is PowerLost]
    (recovered,) = [entry.node for entry in entries if type(entry.fact) is LogRecovered]
    assert (lost, recovered) == (node, node)
    assert at(entries, MasterDisconnected, SLAVE) or at(entries, SlaveDisconnected, MASTER)
    ends = [e.fact.position for e in entries if type(e.fact) is SlaveAcknowledged]
    stored = facts_of(entries, MessageStored, MASTER)
    assert ends[-1] == stored[-1].position + stored[-1].size_bytes


def test_a_slow_disk_of_a_slave_slows_its_flushes_alone() -> None:
    step = Step(does=SlowDisk(node=SLAVE, flush_ms=2_500), at_ms=FAULT_MS, for_ms=10_000)
    entries = entries_of(step, settings=FLUSHED)
    (ended,) = facts_of(entries, FaultEnded)
    assert ended.acted_count
    flushes = {node: at(entries, LogFlushed, node) for node in (MASTER, SLAVE)}
    held = {
        node: sum(FAULT_MS < ms < FAULT_MS + 10_000 for ms in times)
        for node, times in flushes.items()
    }
    assert held[SLAVE] <= 4 < held[MASTER]


def test_a_set_names_masters_or_slaves_alone() -> None:
    steps = [
        Step(does=Kill(node=name), at_ms=ms, for_ms=1_000)
        for name, ms in (("masters", 15_000), ("slaves", 20_000), ("brokers", 25_000))
    ]
    began = facts_of(entries_of(*steps), FaultBegan)
    assert [each.nodes for each in began] == [(MASTER,), (SLAVE,), (MASTER, SLAVE)]


# Faults of the link between them ----------------------------------------------------------


@BOTH
def test_a_lag_delays_what_the_slave_copies_and_nothing_after_it(release: str) -> None:
    step = Step(does=Lag(node=SLAVE, ms=700), at_ms=FAULT_MS, for_ms=5_000)
    pairs = copied_at(entries_of(step, release=release))
    behind = [ms - stored for stored, ms in pairs if 15_000 < stored < 19_500]
    after = [ms - stored for stored, ms in pairs if stored > 21_000]
    assert min(behind) >= 700
    assert max(behind) <= 810  # the master looks every 100 ms
    assert max(after) <= 110


def test_a_lag_of_bytes_a_second_lets_no_more_through() -> None:
    step = Step(does=Lag(node="slaves", bytes_per_s=1_000), at_ms=FAULT_MS, for_ms=10_000)
    entries = entries_of(step)
    copied = sum(
        e.fact.copied_bytes
        for e in entries
        if type(e.fact) is LogCopied and FAULT_MS < e.mono_us / 1_000 < FAULT_MS + 10_000
    )
    assert 5_000 < copied <= 11_000


@BOTH
def test_a_cut_of_the_link_ends_the_copy_until_it_is_over(release: str) -> None:
    step = Step(does=CutLink(between=(MASTER, SLAVE)), at_ms=FAULT_MS, for_ms=8_000)
    entries = entries_of(step, release=release)
    (cut,) = at(entries, SlaveDisconnected, MASTER)
    assert FAULT_MS <= cut < FAULT_MS + 10
    assert not [ms for ms in at(entries, LogCopied, SLAVE) if FAULT_MS + 10 < ms < 23_000]
    assert [ms for ms in at(entries, SlaveConnected, MASTER) if ms > 23_000]
    assert len(copied_at(entries)) == len(facts_of(entries, MessageStored, MASTER))
    assert len(facts_of(entries, MessageSent)) > 300  # clients reach the master all the time


@BOTH
@pytest.mark.parametrize("way", [(MASTER, SLAVE), (SLAVE, MASTER)])
def test_a_partition_one_way_holds_the_log_or_the_reports(release: str, way) -> None:
    cut = Partition(between=way, one_way=True)
    entries = entries_of(Step(does=cut, at_ms=FAULT_MS, for_ms=6_000), release=release)
    held = {
        kind: [ms for ms in at(entries, kind) if FAULT_MS + 1_000 < ms < FAULT_MS + 6_000]
        for kind in (LogCopied, SlaveAcknowledged)
    }
    assert not held[SlaveAcknowledged]  # without the log there is nothing to report
    assert bool(held[LogCopied]) == (way[0] == SLAVE)
