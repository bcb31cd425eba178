"""A plan is run in the virtual world and judged."""

from __future__ import annotations

import time

import msgspec
import pytest
import trio

from rocketmq_emulator.client import Message, Producer
from rocketmq_emulator.cluster.fault_values import Kill, Pause, PowerOff
from rocketmq_emulator.facts import (
    ActionBegan,
    ConsumerStarted,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSent,
    MessageStored,
    NodeKilled,
    NodeStarted,
    QueuesClaimed,
    RunEnded,
    RunStarted,
    TopicChanged,
)
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Expectation,
    GrowTopic,
    Heal,
    Join,
    Leave,
    Limits,
    ListenerPlan,
    LoadPlan,
    Mark,
    Plan,
    ProgramPlan,
    RollingRestart,
    Step,
    TopicPlan,
    When,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run, text_of
from tests.support.scenarios.running_plans import a_plan, facts_of


def a_run(*steps: Step, seed: int = 1, **fields):
    return finished_run(a_plan(*steps, **fields), seed)


def test_a_run_is_a_journal_that_holds_its_plan_first_and_its_end_last() -> None:
    plan = a_plan()
    result, entries = finished_run(plan, seed=7)
    first, last = entries[0].fact, entries[-1].fact
    assert isinstance(first, RunStarted)
    assert msgspec.json.decode(first.plan, type=Plan) == plan
    assert (first.seed, first.world) == (7, "virtual")
    assert last == RunEnded("finished", "")
    assert (result.verdict, result.seed, result.fact_count) == ("passed", 7, len(entries))


@pytest.mark.parametrize("seed", range(1, 5))  # which decides the order of tasks that are due
def test_a_step_at_the_start_of_the_clients_that_it_names_comes_after_it(seed: int) -> None:
    step = Step(at_ms=0, does=Pause(node="billing"), for_ms=1_000)
    result, entries = a_run(step, seed=seed, lasts_ms=3_000)
    assert result.verdict == "passed"
    (began,) = facts_of(entries, FaultBegan)
    assert set(began.nodes) == {"billing-1", "billing-2"}


def test_the_load_is_sent_consumed_and_waited_for() -> None:
    load = LoadPlan(topic="orders", rate=20, until_ms=10_000, producers=2)
    _, entries = a_run(load=(load,))
    sent = [fact.uniq_key for fact in facts_of(entries, MessageSent)]
    assert len(sent) == 200
    assert {fact.uniq_key for fact in facts_of(entries, MessageConsumed)} == set(sent)
    assert len(facts_of(entries, MessageSent, "producer-2")) == 100


def test_a_node_is_killed_and_started_again_when_the_time_is_up() -> None:
    step = Step(does=Kill(node="broker-b"), at_ms=5_000, for_ms=10_000)
    _, entries = a_run(step)
    assert len(facts_of(entries, NodeStarted, "broker-b")) == 2
    assert facts_of(entries, FaultBegan, "world")[0].nodes == ("broker-b",)
    assert facts_of(entries, FaultEnded, "world")[0].reason == "time is up"
    began, ended = (
        next(entry.mono_us for entry in entries if isinstance(entry.fact, kind))
        for kind in (FaultBegan, FaultEnded)
    )
    assert ended - began >= 10_000_000


def test_a_fault_without_an_end_holds_until_it_is_healed_by_name_or_the_timeline_ends() -> None:
    _, entries = a_run(
        Step(does=Pause(node="billing-1"), at_ms=1_000, name="still"),
        Step(does=Pause(node="billing-2"), at_ms=1_000),
        Step(does=Heal(step="still"), after_ms=2_000),
        Step(does=Join(group="billing"), after_ms=3_000),
    )
    ended = {
        entry.fact.fault_id: round(entry.mono_us / 1_000_000)
        for entry in entries
        if isinstance(entry.fact, FaultEnded)
    }
    assert ended[2] - ended[1] == 3


def test_a_step_waits_for_the_fact_that_it_names() -> None:
    when = When(kind="QueuesClaimed", node="billing-3")
    _, entries = a_run(
        Step(does=Join(group="billing"), at_ms=5_000),
        Step(does=Leave(node="billing-3", kill=True), when=when, after_ms=500),
    )
    claimed = [e.mono_us for e in entries if isinstance(e.fact, QueuesClaimed)]
    left = [e for e in entries if isinstance(e.fact, MemberLeft)]
    (killed,) = [e for e in entries if isinstance(e.fact, NodeKilled)]
    assert (killed.fact.node, left[0].fact.reason) == ("billing-3", "channel closed")
    assert killed.mono_us <= left[0].mono_us
    assert min(at for at in claimed if at > 5_000_000) + 500_000 <= left[0].mono_us


def test_a_fact_that_never_comes_ends_the_run_and_says_which() -> None:
    when = When(kind="BrokerExpired", node="namesrv", wait_ms_max=30_000)
    result, entries = a_run(Step(does=Join(group="billing"), when=when))
    assert result.verdict == "error"
    assert "step 1 (join) waited 30 s for a fact BrokerExpired of namesrv" in result.reason
    assert entries[-1].fact.reason == "error"


def test_nodes_restart_one_after_the_other_and_topics_grow() -> None:
    nodes = ("broker-a", "broker-b")
    _, entries = a_run(
        Step(does=RollingRestart(nodes=nodes, down_ms=1_000, between_ms=4_000), at_ms=2_000),
        Step(does=GrowTopic(topic="orders", queues=6), at_ms=5_000),
    )
    started = [e for e in entries if isinstance(e.fact, NodeStarted) and e.node in nodes]
    assert [entry.node for entry in started[2:]] == [*nodes]
    assert started[3].mono_us - started[2].mono_us >= 5_000_000
    assert [fact.read_queue_count for fact in facts_of(entries, TopicChanged)] == [6, 6]
    grown = [entry.mono_us for entry in entries if isinstance(entry.fact, TopicChanged)]
    assert max(grown) < started[3].mono_us  # the next step did not wait for the restarts


def test_each_action_of_the_timeline_is_noted_when_it_begins_a_mark_with_its_text() -> None:
    _, entries = a_run(
        Step(does=Mark(text="half time"), at_ms=1_000),
        Step(does=GrowTopic(topic="orders", queues=6), at_ms=2_000),
        Step(does=Join(group="billing", members=2), at_ms=3_000),
    )
    began = [entry for entry in entries if isinstance(entry.fact, ActionBegan)]
    assert [entry.fact.what() for entry in began] == [
        "half time",
        "grow_topic orders, queues 6",
        "join billing, members 2",
    ]
    assert {entry.node for entry in began} == {"world"}
    assert [began[n + 1].mono_us - began[n].mono_us for n in (0, 1)] == [1_000_000] * 2


def test_brokers_and_groups_restart_by_the_name_of_all() -> None:
    result, entries = a_run(
        Step(does=Leave(node="billing-2"), at_ms=1_000),
        Step(does=RollingRestart(nodes=("brokers",), down_ms=500, between_ms=500), at_ms=2_000),
        Step(does=RollingRestart(nodes=("billing",), down_ms=500), at_ms=10_000),
    )
    assert result.verdict == "passed", result.reason
    again = [entry.node for entry in entries if isinstance(entry.fact, NodeStarted)]
    assert again[-2:] == ["broker-a", "broker-b"]
    members = [entry.node for entry in entries if isinstance(entry.fact, ConsumerStarted)]
    assert members[-1] == "billing-1"
    assert members.count("billing-2") == 1  # it has left: it is not started again


def test_an_error_of_a_step_names_the_step() -> None:
    absent = RollingRestart(nodes=("brokers", "broker-z"))
    result, _ = a_run(Step(does=Mark(text="begin"), at_ms=500), Step(does=absent, at_ms=1_000))
    assert result.verdict == "error"
    assert "there is no node named 'broker-z'; did you mean" not in result.reason
    assert "there are billing-1, billing-2, broker-a, broker-b, namesrv" in result.reason
    assert "in step 2 (rolling_restart)" in result.reason


def test_a_topic_grows_once_its_broker_can_be_asked_again() -> None:
    result, entries = a_run(
        Step(does=PowerOff(node="broker-b"), at_ms=2_000, for_ms=9_000),
        Step(does=GrowTopic(topic="orders", queues=6), at_ms=2_010),
    )
    assert result.verdict != "error", result.reason
    grown = [e for e in entries if isinstance(e.fact, TopicChanged) and e.node == "broker-b"]
    assert grown[-1].fact.read_queue_count == 6
    assert grown[-1].mono_us >= 11_000_000


def test_a_topic_grows_once_brokers_have_registered_with_a_new_name_server() -> None:
    result, entries = a_run(
        Step(does=Kill(node="namesrv"), at_ms=2_000, for_ms=1_000),
        Step(does=GrowTopic(topic="orders", queues=6), at_ms=4_000),
        Step(does=Mark(text="later"), at_ms=40_000),
    )
    assert result.verdict != "error", result.reason
    grown = [e.node for e in entries if isinstance(e.fact, TopicChanged)]
    assert sorted(grown) == ["broker-a", "broker-b"]


def test_members_enter_at_their_times() -> None:
    group = ConsumersPlan(
        group="billing", topics={"orders": "*"}, members=3, starts_ms=2_000, every_ms=3_000
    )
    _, entries = a_run(consumers=(group,))
    joined = [e for e in entries if isinstance(e.fact, MemberJoined) and e.node == "broker-a"]
    assert [round(entry.mono_us / 1_000_000) % 100 for entry in joined] == [2, 5, 8]


@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
def test_keys_bursts_sizes_and_tags_shape_a_load(mode) -> None:
    load = LoadPlan(
        topic="orders", rate=50, mode=mode, keys=5, key_skew=1.0, burst=10, tags=("a", "b"),
        size_bytes=50, size_jitter_bytes=100, until_ms=4_000,
    )  # fmt: skip
    _, entries = a_run(load=(load,))
    stored = facts_of(entries, MessageStored)
    assert len(stored) == 200
    assert len({fact.size_bytes for fact in stored}) > 10
    assert len({fact.queue for fact in stored}) <= 5
    times = {e.mono_us // 100_000 for e in entries if isinstance(e.fact, MessageStored)}
    assert len(times) == 20


def test_listeners_fail_raise_and_hang_by_chance() -> None:
    listener = ListenerPlan(takes_ms=5, jitter_ms=5, fails=0.2, raises=0.1, hangs=0.01)
    group = ConsumersPlan(group="billing", topics={"orders": "*"}, listener=listener)
    result, entries = a_run(consumers=(group,), quiet_ms_max=7_200_000)
    consumed = facts_of(entries, MessageConsumed)
    assert 20 < sum(not fact.ok for fact in consumed) < 120
    assert result.metrics["lost"] == 0


def test_listeners_fail_at_their_time_only() -> None:
    listener = ListenerPlan(fails=1.0, from_ms=5_000, until_ms=8_000)
    group = ConsumersPlan(group="billing", topics={"orders": "*"}, listener=listener)
    _, entries = a_run(consumers=(group,))
    at_s = [
        entry.mono_us / 1e6
        for entry in entries
        if isinstance(entry.fact, MessageConsumed) and not entry.fact.ok
    ]
    assert len(at_s) == 30
    assert (round(at_s[0]), round(at_s[-1])) == (5, 8)


def test_lite_pull_and_orderly_groups_consume_too() -> None:
    groups = (
        ConsumersPlan(group="pulling", topics={"orders": "*"}, kind="lite_pull"),
        ConsumersPlan(group="ordered", topics={"orders": "*"}, orderly=True, strategy="by_circle"),
    )
    _, entries = a_run(consumers=groups)
    assert facts_of(entries, QueuesClaimed, "pulling-1")
    assert facts_of(entries, MessageConsumed, "ordered-1")


# Expectations and limits ----------------------------------------------------------------------


def test_an_expectation_that_does_not_hold_fails_the_run_and_says_the_number() -> None:
    result, _ = a_run(expect=(Expectation(metric="lost", operator=">=", bound=3),))
    assert result.verdict == "failed"
    assert result.reason == "lost >= 3 was expected, it is 0"


def test_an_expectation_of_an_unknown_metric_is_an_error_with_the_nearest_word() -> None:
    result, _ = a_run(expect=(Expectation(metric="losst", bound=3),))
    assert result.verdict == "error"
    assert "'losst'" in result.reason
    assert "lost" in result.reason


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(virtual_s_max=15), "15 virtual seconds"),
        (Limits(facts_max=300), "300 facts"),
        (Limits(steps_max=300), "300 steps"),
    ],
)
def test_a_run_that_passes_a_limit_says_what_waited_for_what(limits, said) -> None:
    step = Step(does=Kill(node="broker-b"), at_ms=2_000, for_ms=3_600_000)
    result, entries = a_run(step, limits=limits)
    assert result.verdict == "error"
    assert entries[-1].fact.reason == "limit"
    assert f"it passed {said}" in result.reason
    assert "tasks: " in result.reason
    assert "the run was " in result.reason


def test_a_limit_names_the_faults_that_held_and_the_backlog() -> None:
    listener = ListenerPlan(takes_ms=1e9)
    group = ConsumersPlan(group="billing", topics={"orders": "*"}, listener=listener)
    step = Step(does=Kill(node="broker-b"), at_ms=2_000, for_ms=3_600_000)
    result, _ = a_run(step, limits=Limits(virtual_s_max=30), consumers=(group,))
    assert '"fault":"kill","node":"broker-b"' in result.reason
    assert "billing had" in result.reason
    assert "at its listener" in result.reason


# Programs of users ----------------------------------------------------------------------------


async def sleeps_in_real_time(_process, _namesrv) -> None:
    await trio.sleep(3)
    time.sleep(0.001)  # noqa: ASYNC251  # the call that is refused


async def reads_the_wall_clock(_process, _namesrv) -> None:
    time.time()


async def wants_a_thread(_process, _namesrv) -> None:
    await trio.to_thread.run_sync(print)


async def raises(_process, _namesrv, *, text: str) -> None:
    raise LookupError(text)


async def sends_before_the_start(process, namesrv) -> None:
    await Producer(process=process, namesrv=namesrv, group="shop").send(Message("orders", b""))


def run_of_program(function, **arguments):
    run = f"{__name__}:{function.__name__}"
    return a_run(programs=(ProgramPlan(name="mine", run=run, arguments=arguments),))


@pytest.mark.parametrize(
    ("program", "word"),
    [
        (sleeps_in_real_time, "time.sleep"),
        (reads_the_wall_clock, "time.time"),
        (wants_a_thread, "trio.to_thread.run_sync"),
    ],
)
def test_real_time_and_threads_are_refused_with_their_place(program, word) -> None:
    result, entries = run_of_program(program)
    assert result.verdict == "error"
    assert f"({program.__name__}) uses {word} in the virtual world" in result.reason
    assert "test_virtual_run.py" in result.reason
    assert entries[-1].fact.reason == "error"


def test_time_is_as_it_was_after_a_run() -> None:
    before = (time.sleep, time.time, trio.to_thread.run_sync)
    run_of_program(reads_the_wall_clock)
    assert (time.sleep, time.time, trio.to_thread.run_sync) == before


def test_a_program_that_raises_is_an_error_that_says_what_and_where() -> None:
    result, _ = run_of_program(raises, text="no such order")
    assert result.verdict == "error"
    assert "LookupError: no such order" in result.reason
    assert "at raises, test_virtual_run.py" in result.reason


def test_the_place_of_an_error_is_the_last_line_of_the_users_own_code() -> None:
    result, _ = run_of_program(sends_before_the_start)
    assert result.verdict == "error"
    assert "at sends_before_the_start, test_virtual_run.py" in result.reason


def test_a_broker_that_only_some_topics_have_gets_no_other_queues() -> None:
    topics = {"orders": TopicPlan(queues=2, brokers=("broker-b",))}
    _, entries = a_run(topics=topics)
    assert {fact.queue.broker for fact in facts_of(entries, MessageSent)} == {"broker-b"}


def test_of_several_errors_at_once_the_first_is_told() -> None:
    inner = ExceptionGroup("two", [ValueError("no port"), KeyError("other")])
    assert text_of(ExceptionGroup("one", [inner])) == "ValueError: no port"
