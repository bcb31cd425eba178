"""Plans whose masters are elected: their nodes, faults on masters and controllers, elections."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.cluster.fault_values import CutLink, Kill, Lag, Pause, PowerOff, Stop
from rocketmq_emulator.facts import (
    ActionRefused,
    BrokerRoleChanged,
    MasterElected,
    MessageSent,
    MessageStored,
    NodeKilled,
)
from rocketmq_emulator.scenarios import BadScenario, scenario
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Elect,
    LoadPlan,
    Step,
)
from rocketmq_emulator.scenarios.plan.validity import refusals_of
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan, facts_of

MASTER, SLAVE = "broker-a", "broker-a-1"
FAULT_MS = 15_000  # the slave is in the sync-state set, and messages are being sent
FROM_MS, UNTIL_MS = 10_000, 60_000


def a_controlled_plan(*steps: Step, controllers: int = 1, settings=None, **fields):
    cluster = ClusterPlan(
        brokers=1,
        slaves=1,
        controllers=controllers,
        release="5.3.3",
        broker_settings=settings or {},
    )
    load = LoadPlan(topic="orders", rate=20, from_ms=FROM_MS, until_ms=UNTIL_MS)
    group = ConsumersPlan(group="billing", topics={"orders": "*"})
    return a_plan(*steps, cluster=cluster, load=(load,), consumers=(group,), **fields)


def run_of(*steps: Step, **fields):
    """The row and the entries of a run with *steps*; no checker raised."""
    result, entries = finished_run(a_controlled_plan(*steps, **fields), 1)
    assert result.verdict != "error", result.reason
    assert judge(entries).raised == {}
    return result, entries


def a_fault(fault, for_ms: int | None = 40_000) -> Step:
    return Step(does=fault, at_ms=FAULT_MS, for_ms=for_ms)


# The cluster of a plan -----------------------------------------------------------------


@scenario
async def an_election_by_hand(run) -> None:
    cluster = await run.cluster(
        brokers=1, slaves=1, controllers=3, topics={"orders": 1}, release="5.3.3"
    )
    assert cluster.controller_names == ("controller-a", "controller-b", "controller-c")
    await run.sleep(10)
    cluster.elect("broker-a", node="broker-a-1")
    await run.sleep(5)


def test_python_scenarios_and_files_give_controllers_and_elections() -> None:
    written = """
        name = "an_election_by_hand"
        lasts = "15s"
        [cluster]
        brokers = 1
        slaves = 1
        controllers = 3
        release = "5.3.3"
        [topics]
        orders = 1
        [[timeline]]
        at = "10s"
        elect = { broker = "broker-a", node = "broker-a-1" }
    """
    plan = an_election_by_hand.plan()
    read = read_plan(written, "election.toml")
    assert (read.cluster, read.timeline[0].does) == (plan.cluster, plan.timeline[0].does)
    _, entries = finished_run(plan, 1)
    assert [fact.master_epoch for fact in facts_of(entries, MasterElected)] == [1, 2]


@pytest.mark.parametrize(
    ("cluster", "elect", "problem"),
    [
        ({"controllers": 2}, None, "a cluster has 0, 1 or 3 controllers"),
        ({"controllers": 1, "release": "4.9.7"}, None, "controllers need a release from 5.1.1 on"),
        ({}, Elect(broker=MASTER, node=SLAVE), "give the cluster controllers = 1 or 3"),
        ({"controllers": 1}, Elect(broker=SLAVE, node=SLAVE), "broker-a-1 is a node"),
        (
            {"controllers": 1, "brokers": 2},
            Elect(broker=MASTER, node="broker-b-1"),
            "there is no node of broker-a 'broker-b-1'",
        ),
    ],
)
def test_controllers_and_elections_that_cannot_be_are_refused(cluster, elect, problem) -> None:
    given = {"brokers": 1, "slaves": 1, "release": "5.3.3", **cluster}

    @scenario
    async def bad(run) -> None:
        await run.cluster(topics={"orders": 1}, **given)
        if elect is not None:
            run.elect(elect.broker, node=elect.node)
        await run.sleep(1)

    with pytest.raises(BadScenario, match=problem):
        bad.plan()


def test_worlds_without_a_verb_refuse_a_fault_of_a_controller_by_name() -> None:
    plan = a_controlled_plan(a_fault(PowerOff(node="controller")))
    assert [*refusals_of(plan, "virtual")] == []
    ((place, why),) = refusals_of(plan, "processes")
    assert (place, why) == (
        ("timeline", 0, "power_off"),
        "the processes world cannot do power_off: use virtual",
    )


# Elections ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Kill, Stop, PowerOff, Pause], ids=lambda kind: kind.__name__)
def test_a_slave_is_elected_and_the_load_goes_on(fault) -> None:
    result, entries = run_of(a_fault(fault(node=MASTER)))
    assert (result.verdict, result.reason) == ("passed", "")
    elected = [e for e in entries if type(e.fact) is MasterElected]
    assert [e.fact.broker_id for e in elected] == [1, 2]
    stored = [e.node for e in entries if type(e.fact) is MessageStored]
    at_slave = stored[stored.index(SLAVE) :]
    assert (stored[0], at_slave[-1]) == (MASTER, SLAVE)
    if fault is not Pause:  # it stores what waited for the paused process, for nobody
        assert set(at_slave) == {SLAVE}
    assert result.metrics["election_s"] == pytest.approx(
        (elected[-1].mono_us / 1e6) - began_s(entries), abs=0.01
    )
    assert 15 < result.metrics["without_writes_s"] < 40  # until the producer polls its route


def began_s(entries) -> float:
    """When the fault of the timeline began, in seconds."""
    return next(e.mono_us for e in entries if type(e.fact).__name__ == "FaultBegan") / 1e6


def test_the_old_master_comes_back_as_a_slave() -> None:
    _, entries = run_of(a_fault(Kill(node=MASTER), 20_000))
    roles = [(e.node, e.fact.role) for e in entries if type(e.fact) is BrokerRoleChanged]
    assert roles == [
        (MASTER, "master"),
        (SLAVE, "slave"),
        (SLAVE, "master"),
        (MASTER, "slave"),
    ]


def test_a_master_is_elected_by_hand_and_a_refusal_is_noted() -> None:
    there = Step(does=Elect(broker=MASTER, node=SLAVE), at_ms=FAULT_MS)
    again = Step(does=Elect(broker=MASTER, node=SLAVE), after_ms=5_000)
    result, entries = run_of(there, again)
    assert (result.verdict, result.reason) == ("passed", "")
    assert [fact.broker_id for fact in facts_of(entries, MasterElected)] == [1, 2]
    (refused,) = facts_of(entries, ActionRefused)
    assert "code 2011" in refused.reason
    assert refused.text == "broker-a, node broker-a-1"


@pytest.mark.parametrize("by", [Kill, Pause, PowerOff, Stop], ids=lambda kind: kind.__name__)
def test_a_master_serves_while_the_only_controller_is_away(by) -> None:
    result, entries = run_of(a_fault(by(node="controller")))
    assert (result.verdict, result.reason) == ("passed", "")
    assert {e.node for e in entries if type(e.fact) is MessageStored} == {MASTER}
    assert len(facts_of(entries, MessageSent)) == 20 * (UNTIL_MS - FROM_MS) // 1_000


def test_with_three_controllers_one_may_be_away_when_the_master_dies() -> None:
    leader = a_fault(Kill(node="controller-a"), 30_000)
    master = Step(does=Kill(node=MASTER), after_ms=12_000, for_ms=20_000)
    result, entries = run_of(leader, master, controllers=3)
    assert (result.verdict, result.reason) == ("passed", "")
    assert [fact.broker_id for fact in facts_of(entries, MasterElected)] == [1, 2]


def test_a_link_of_a_controller_can_be_cut() -> None:
    """The controller loses the master's heartbeats, and elects another one: the master lives."""
    cut = CutLink(between=(MASTER, "controller"))
    _, entries = run_of(a_fault(cut))
    assert [fact.broker_id for fact in facts_of(entries, MasterElected)] == [1, 2]
    assert not facts_of(entries, NodeKilled)


# What is lost ---------------------------------------------------------------------------


def test_what_the_elected_slave_lacks_is_counted_as_lost_with_its_master() -> None:
    lag = Step(does=Lag(node=SLAVE, ms=500), at_ms=FAULT_MS, for_ms=10_000)
    kill = Step(does=Kill(node=MASTER), after_ms=3_000, for_ms=20_000)
    result, entries = run_of(lag, kill)
    acked = {fact.uniq_key for fact in facts_of(entries, MessageSent)}
    by_slave = {
        e.fact.uniq_key for e in entries if e.node == SLAVE and type(e.fact) is MessageStored
    }
    assert 5 <= result.metrics["lost_with_masters"] <= 15
    assert result.metrics["lost_with_masters.broker-a"] <= len(acked - by_slave)
    assert (result.verdict, result.reason) == ("passed", "")
