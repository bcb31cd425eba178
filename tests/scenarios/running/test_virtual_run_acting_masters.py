"""Plans whose slaves act as masters: their settings, and a master that dies and comes back."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    DelayedDelivered,
    FaultBegan,
    MessageEscaped,
    MessageStored,
    NodeStarted,
    PreOnlineEnded,
)
from rocketmq_emulator.scenarios import BadScenario, scenario
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, LoadPlan, Step
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan

MASTER, SLAVE, OTHER = "broker-a", "broker-a-1", "broker-b"
DIES_MS, BACK_MS = 20_000, 50_000
ACTS_MS_MAX = 2_000  # after its master died: it asks for the members every second


def at(entries, kind, node):
    return [e.mono_us / 1_000 for e in entries if type(e.fact) is kind and e.node == node]


def entries_of(load: LoadPlan):
    plan = a_plan(
        Step(does=Kill(node=MASTER), at_ms=DIES_MS, for_ms=BACK_MS - DIES_MS),
        cluster=ClusterPlan(slaves=1, release="5.3.3", acting_master=True),
        load=(load,),
        lasts_ms=90_000,
    )
    result, entries = finished_run(plan, 1)
    assert result.verdict == "passed", result.reason
    return result, entries


# The cluster of a plan -----------------------------------------------------------------


@scenario
async def slaves_that_act(run) -> None:
    await run.cluster(
        brokers=2, slaves=2, acting_master=True, topics={"orders": 1}, release="5.3.3"
    )
    await run.sleep(1)


def test_python_scenarios_and_files_let_slaves_act() -> None:
    written = """
        name = "slaves_that_act"
        lasts = "1s"
        [cluster]
        brokers = 2
        slaves = 2
        acting_master = true
        release = "5.3.3"
        [topics]
        orders = 1
    """
    plan = slaves_that_act.plan()
    assert plan.cluster.acting_master
    assert read_plan(written, "acting.toml").cluster == plan.cluster


def test_every_broker_and_name_server_gets_the_settings_and_single_ones_override_them() -> None:
    spec = ClusterSpec(
        slaves=2,
        acting_master=True,
        release="5.3.3",
        broker_settings={"remote_escape": False},
        settings_of={SLAVE: {"slave_read": False}},
    )
    configs = {name: spec.broker_config(name) for name in spec.broker_names}
    assert all(config.slave_acting_master for config in configs.values())
    assert {config.total_replicas for config in configs.values()} == {3}
    assert not any(config.remote_escape for config in configs.values())
    assert {name for name, config in configs.items() if not config.slave_read} == {SLAVE}
    assert spec.name_server_config("namesrv").support_acting_master


def test_without_the_field_no_slave_acts() -> None:
    spec = ClusterSpec(slaves=1, release="5.3.3")
    config = spec.broker_config(SLAVE)
    assert (config.slave_acting_master, config.remote_escape, config.total_replicas) == (
        False,
        False,
        1,
    )
    assert not spec.name_server_config("namesrv").support_acting_master


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ('release = "5.3.3"', "acting_master needs slaves that can act: slaves=1"),
        ('slaves = 1\nrelease = "4.9.7"', "needs release 5.0.0 or a later one"),
    ],
)
def test_a_plan_in_which_no_slave_can_act_is_refused_with_the_reason(cluster, text) -> None:
    written = f'name = "wrong"\n[cluster]\nacting_master = true\n{cluster}\n[topics]\norders = 1\n'
    with pytest.raises(BadScenario, match=text):
        read_plan(written, "wrong.toml")


def test_a_cluster_with_controllers_has_no_acting_master() -> None:
    with pytest.raises(ValueError, match="acting_master and controllers exclude each other"):
        ClusterSpec(slaves=1, controllers=1, acting_master=True, release="5.3.3")


# A master dies and comes back -----------------------------------------------------------


def test_a_slave_acts_from_its_masters_death_to_its_return() -> None:
    load = LoadPlan(topic="orders", rate=10, from_ms=10_000, until_ms=70_000)
    result, entries = entries_of(load)
    (died,) = at(entries, FaultBegan, "world")
    (began,) = at(entries, ActingMasterBegan, SLAVE)
    (ended,) = at(entries, ActingMasterEnded, SLAVE)
    back = at(entries, PreOnlineEnded, MASTER)[-1]
    assert died < began < died + ACTS_MS_MAX
    assert at(entries, NodeStarted, MASTER)[-1] <= back < ended < back + ACTS_MS_MAX
    assert not at(entries, MessageStored, SLAVE)  # an acting master stores none
    assert result.tried["one_master"] > 0


def test_delayed_messages_that_are_due_meanwhile_are_delivered_at_another_broker() -> None:
    load = LoadPlan(
        topic="orders", rate=4, from_ms=10_000, until_ms=19_000, delay_levels=(3,)
    )  # 10 s
    result, entries = entries_of(load)
    (began,) = at(entries, ActingMasterBegan, SLAVE)
    (ended,) = at(entries, ActingMasterEnded, SLAVE)
    escaped = at(entries, MessageEscaped, SLAVE)
    assert escaped
    assert began < min(escaped) < max(escaped) < ended
    to = {e.fact.to_broker for e in entries if type(e.fact) is MessageEscaped}
    assert to == {OTHER}
    assert at(entries, DelayedDelivered, OTHER)  # its own messages
    names = ("lost", "waiting", "escaped_again", "late_delays")
    assert [result.metrics[name] for name in names] == [0, 0, 0, 0]
    assert result.metrics["escaped.broker-a"] == len(escaped)
