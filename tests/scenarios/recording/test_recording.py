"""A Python scenario becomes a plan; code that no plan can contain is refused with its line."""

from __future__ import annotations

import datetime as dt
import random
import time
from typing import Any

import pytest
import trio

from rocketmq_emulator.client.consumer.group.allocation import AVG_BY_CIRCLE
from rocketmq_emulator.cluster.fault_values import Kill, Pause, ReadOnly, SlowLink
from rocketmq_emulator.scenarios import (
    AVERAGELY,
    BadScenario,
    Run,
    Scenario,
    fact,
    idle_members,
    metric,
    nothing_lost,
    scenario,
)
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Expectation,
    Heal,
    Join,
    LoadPlan,
    Mark,
    Step,
    When,
)


@scenario(issue="apache/rocketmq#3465")
async def a_broker_turns_read_only(run: Run) -> None:
    cluster = await run.cluster(brokers=2, topics={"orders": 4})
    billing = await run.consumers("billing", members=8, topic="orders", strategy=AVERAGELY)
    with run.load("orders", rate=200):
        await run.sleep(30)
        with cluster.read_only("broker-b"):
            await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), idle_members("billing") == 0)
    assert billing.members[-1] == "billing-8"


@scenario
async def a_group_filters_by_sql(run: Run) -> None:
    await run.cluster(brokers=1, topics={"orders": 1})
    await run.consumers("billing", topic="orders", sql="TAGS = 'paid'")
    await run.sleep(1)


def test_an_sql92_expression_stands_in_the_plan_with_its_type() -> None:
    (part,) = a_group_filters_by_sql.plan().consumers
    assert part.topics == {"orders": "SQL92: TAGS = 'paid'"}


def test_the_example_of_the_page_is_recorded() -> None:
    plan = a_broker_turns_read_only.plan()
    assert (plan.name, plan.issue) == ("a_broker_turns_read_only", "apache/rocketmq#3465")
    assert plan.topics["orders"].queues == 4
    assert plan.consumers == (ConsumersPlan(group="billing", topics={"orders": "*"}, members=8),)
    assert plan.load == (LoadPlan(topic="orders", rate=200, until_ms=90_000),)
    assert plan.timeline == (Step(at_ms=30_000, does=ReadOnly(broker="broker-b"), for_ms=60_000),)
    assert plan.expect == (
        Expectation(metric="lost", operator="==", bound=0),
        Expectation(metric="idle_members", operator="==", bound=0, scope="billing"),
    )
    assert plan.lasts_ms is None


async def _the_usual(run: Run) -> Any:
    return await run.cluster(topics={"orders": 4}), await run.consumers("billing", topic="orders")


def test_arguments_are_parameters_and_their_defaults_give_their_types() -> None:
    @scenario
    async def it(run: Run, members: int = 3, strategy: str = "averagely") -> None:
        """A title.

        What it
        teaches.
        """
        await run.cluster(topics={"orders": {"queues": 4, "perm": 4}})
        await run.consumers("billing", topic="orders", members=members, strategy=strategy)

    plan = it.plan({"members": "5"}, strategy="by_circle")
    assert (plan.title, plan.teaches) == ("A title", "What it teaches.")
    assert (plan.consumers[0].members, plan.consumers[0].strategy) == (5, "by_circle")
    assert plan.parameters == {"members": 5, "strategy": "by_circle"}
    assert plan.topics["orders"].perm == 4
    with pytest.raises(BadScenario, match="there is no parameter 'membrs'; did you mean members"):
        it.plan({"membrs": "5"})


def test_a_parameter_without_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="it: the parameter members needs a default"):

        @scenario
        async def it(run: Run, members: int) -> None: ...


def test_words_take_what_files_take() -> None:
    @scenario
    async def it(run: Run) -> None:
        cluster, billing = await _the_usual(run)
        await run.consumers("shipping", topic="orders", tags="a", strategy=AVG_BY_CIRCLE)
        cluster.slow_link(("broker-a", "billing"), ms="1s", jitter="5ms", for_ms=2_000)
        await run.sleep("200ms")
        slow = run.slow_link(around="broker-b", ms=5)
        await run.sleep(1)
        with run.fault(Kill(node="billing-1")):
            slow.heal()
            await run.sleep(1)
        billing.grow(2)
        await run.sleep(1)
        run.kill("billing-3")

    plan = it.plan()
    assert plan.consumers[1].strategy == "by_circle"
    assert [(step.at_ms, step.does, step.for_ms) for step in plan.timeline] == [
        (0, SlowLink(between=("broker-a", "billing"), ms=1_000, jitter_ms=5), 2_000),
        (200, SlowLink(around="broker-b", ms=5), 1_000),
        (1_200, Kill(node="billing-1"), 1_000),
        (2_200, Join(group="billing", members=2), None),
        (3_200, Kill(node="billing-3"), None),
    ]
    assert plan.lasts_ms == 3_200


def test_what_follows_a_fact_is_recorded_by_its_distance() -> None:
    @scenario
    async def it(run: Run) -> None:
        cluster, _ = await _the_usual(run)
        with run.load("orders", rate=5):
            with cluster.pause("billing-1"):
                await run.sleep(1)
                await run.until(
                    fact("QueuesClaimed", node="billing-1", wait="1m", group="billing")
                )
                await run.sleep(2)
                with cluster.kill("broker-a"):
                    await run.sleep(3)
            await run.sleep(4)
        await run.until_quiet(60)

    when = When(
        kind="QueuesClaimed", node="billing-1", fields={"group": "billing"}, wait_ms_max=60_000
    )
    pause, kill, heal, mark = it.plan().timeline
    assert (pause.at_ms, pause.name, pause.for_ms) == (0, "pause-1", None)
    assert (kill.at_ms, kill.when, kill.after_ms, kill.for_ms) == (None, when, 2_000, 3_000)
    assert (heal.at_ms, heal.does, heal.after_ms) == (None, Heal(step="pause-1"), 3_000)
    assert (mark.does, mark.after_ms) == (
        Mark(text="the load of orders ends with the timeline"),
        4_000,
    )
    assert it.plan().quiet_ms_max == 60_000


# Refused code -------------------------------------------------------------------------------


async def sleeps_by_trio(run: Run) -> None:
    await trio.sleep(1)


async def asks_the_time(run: Run) -> None:
    time.time()


async def asks_the_date(run: Run) -> None:
    dt.datetime.now()  # noqa: DTZ005


async def rolls_dice(run: Run) -> None:
    random.random()


async def chooses(run: Run) -> None:
    random.choice([1, 2])


async def reads_state(run: Run) -> None:
    cluster, _ = await _the_usual(run)
    cluster.status()


async def misspells(run: Run) -> None:
    cluster, _ = await _the_usual(run)
    cluster.kil("broker-a")


async def misspells_a_field(run: Run) -> None:
    cluster, _ = await _the_usual(run)
    cluster.slow_link(around="broker-a", millis=5)


async def asks_a_metric(run: Run) -> None:
    if idle_members("billing"):
        return


async def joins_expectations(run: Run) -> None:
    run.expect(idle_members("billing") == 0 and idle_members("stock") == 0)


async def expects_a_range(run: Run) -> None:
    run.expect(1 <= idle_members("billing") <= 3)


async def expects_nothing(run: Run) -> None:
    run.expect(idle_members("billing"))  # type: ignore[arg-type]


async def holds_no_time(run: Run) -> None:
    cluster, _ = await _the_usual(run)
    with cluster.kill("broker-a"):
        pass


async def goes_on_after_the_end(run: Run) -> None:
    await run.until_quiet()
    await run.sleep(1)


async def has_a_bug(run: Run) -> None:
    {}["x"]


REFUSED = {
    sleeps_by_trio: "sleep of trio cannot be recorded: use run.sleep and run.until",
    asks_the_time: "time of time cannot be recorded: the time of the run is not known yet",
    asks_the_date: "datetime.now of datetime cannot be recorded: the time of the run",
    rolls_dice: "Random.random of random cannot be recorded: random choices follow from the seed",
    chooses: "choice of random cannot be recorded: random choices follow from the seed",
    reads_state: "a scenario cannot 'status'",
    misspells: "a scenario cannot 'kil'; did you mean kill?; it is recorded",
    misspells_a_field: "slow_link.millis: there is no such field here",
    asks_a_metric: "idle_members has no value yet",
    joins_expectations: "give each comparison to run.expect, one by one",
    expects_a_range: "give each comparison to run.expect, one by one",
    expects_nothing: r"idle_members('billing') is no expectation; compare a metric",
    holds_no_time: "kill holds for no time: sleep inside its block",
    goes_on_after_the_end: "nothing more can be done: until it is quiet",
    has_a_bug: "KeyError: 'x'",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_what_cannot_be_recorded_is_refused_at_its_line(function: Any) -> None:
    last_line = max(line for *_, line in function.__code__.co_lines() if line)
    with pytest.raises(BadScenario) as caught:
        Scenario(function, {}).plan()
    text = str(caught.value)
    assert REFUSED[function] in text
    assert last_line - 1 <= caught.value.problems[0].line <= last_line
    assert text.startswith(f"{__file__}:")


def test_a_rolling_restart_takes_no_recorded_time_and_cannot_be_awaited() -> None:
    @scenario
    async def brokers_restart(run: Run) -> None:
        await run.cluster(brokers=2, topics={"orders": 4})
        with run.load("orders", rate=5):
            await run.sleep(10)
            run.rolling_restart(["brokers"], down_ms=5_000, between_ms=10_000)
            run.mark("beside it")
            await run.sleep(30)
        await run.until_quiet()

    assert [step.at_ms for step in brokers_restart.plan().timeline] == [10_000, 10_000]

    @scenario
    async def it_is_awaited(run: Run) -> None:
        await run.cluster(brokers=2, topics={"orders": 4})
        await run.rolling_restart(["brokers"])  # type: ignore[misc]

    with pytest.raises(BadScenario, match="rolling_restart takes no time"):
        it_is_awaited.plan()


def test_chance_with_a_seed_of_its_own_is_recorded() -> None:
    @scenario
    async def it(run: Run) -> None:
        await run.cluster(topics={"orders": random.Random(7).randrange(1, 9)})

    assert it.plan() == it.plan()


async def _has_problems(run: Run) -> None:
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", topic="order")
    run.load("orders", rate=10, key_skew=2)
    with run.kill("broker-x"):
        await run.sleep(5)
    await run.until(fact("QueuesClaimd"))
    _pauses(run)
    run.expect(metric("lost") == 0, metric("lost", "zzz") == 0)
    run.expect(metric("lots", "billing") == 0)
    run.limits(facts_max=0)
    await run.until_quiet(-1)


def _pauses(run: Run) -> None:
    run.pause("nobody")


def test_each_problem_of_a_plan_has_the_line_of_its_call() -> None:
    with pytest.raises(BadScenario) as caught:
        Scenario(_has_problems, {}).plan()
    first = _has_problems.__code__.co_firstlineno
    pauses = _pauses.__code__.co_firstlineno + 1
    by_path = {problem.path: problem.line for problem in caught.value.problems}
    assert by_path == {
        ("consumers", 0, "topics"): first + 2,
        ("load", 0, "key_skew"): first + 3,
        ("timeline", 0, "kill", "node"): first + 4,
        ("timeline", 1, "when", "kind"): first + 6,
        ("timeline", 1, "pause", "node"): pauses,
        ("expect", 1): first + 8,
        ("expect", 2): first + 9,
        ("limits", "facts_max"): first + 10,
        ("quiet_ms_max",): first + 11,
    }
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)


async def _has_many_kinds(run: Run) -> None:
    cluster = await run.cluster(topics={"orders": {"queus": 4}})  # type: ignore[dict-item]
    await run.consumers("billing", member=3, topic="ordes")
    with run.load("orders", rate="200"):
        with cluster.kil("broker-b"):
            await run.sleep(30)
        run.kill("broker-b", for_ms="5 sec")
        cluster.pause("broker-b", 5)
        run.kill("broker-c")
        run.kill("billing-3")
        run.kill("producer-1")
        run.mark()
    await run.until_quiet()
    run.expect(metric("losd") == 0)


def problems_of_recording(function: Any) -> list[tuple[int, str]]:
    """The line of each problem, from 1 in the body, and its text with its field."""
    with pytest.raises(BadScenario) as caught:
        Scenario(function, {}).plan()
    first = function.__code__.co_firstlineno
    return [
        (each.line - first, each.shown("").partition(": ")[2]) for each in caught.value.problems
    ]


def test_all_kinds_of_problems_are_shown_at_once_and_no_consequences() -> None:
    assert problems_of_recording(_has_many_kinds) == [
        (1, "topics.orders.queus: there is no such field here; did you mean queues?"),
        (2, "consumers.member: there is no such field here; did you mean members?"),
        (2, "consumers.topics: there is no topic 'ordes'; did you mean orders?"),
        (3, "load.rate: is a rate with its unit, such as \"200/s\", not '200'"),
        (4, MISSPELT),
        (6, "for_ms is a number of ms, or a text such as \"5s\", not '5 sec'"),
        (7, PAUSES_TOO_MUCH),
        (8, NO_BROKER_C),
        (11, "timeline.mark: this needs a text"),
        (13, "expect: there is no metric 'losd'; did you mean lost?"),
    ]


MISSPELT = (
    "a scenario cannot 'kil'; did you mean kill?; it is recorded, nothing runs yet, so there is "
    "no state to read"
)
PAUSES_TOO_MUCH = (
    'pause takes node, and not also 5; a fault lasts as long as its with block, or for_ms="5s"'
)
NO_BROKER_C = "timeline.kill.node: there is no node or group 'broker-c'; did you mean broker-b?"


async def _awaits_wrongly(run: Run) -> None:
    await run.cluster(topics={"orders": 4})
    run.sleep(30)  # type: ignore[unused-coroutine]
    await run.kill("broker-b")  # type: ignore[misc]
    await run.until_quiet()


async def _awaits_a_fault_of_the_cluster(run: Run) -> None:
    cluster = await run.cluster(topics={"orders": 4})
    await cluster.kill("broker-b")  # type: ignore[misc]
    await run.fault(Pause(node="broker-a"))  # type: ignore[misc]


async def _forgets_the_first_await(run: Run) -> None:
    cluster = run.cluster(topics={"orders": 4})
    cluster.kill("broker-b")  # type: ignore[attr-defined]


AWAITED = (
    "kill takes no time and is not awaited: write run.kill(…), without await; to let time pass, "
    "await run.sleep(…)"
)


@pytest.mark.filterwarnings("error::RuntimeWarning")  # of coroutines that were never awaited
def test_an_await_too_many_and_one_too_few_say_what_to_write() -> None:
    assert problems_of_recording(_awaits_wrongly) == [
        (2, "run.sleep was not awaited, so nothing was done: write await run.sleep(…)"),
        (3, AWAITED),
    ]
    assert problems_of_recording(_awaits_a_fault_of_the_cluster) == [
        (2, AWAITED.replace("run.kill", "cluster.kill")),
        (3, AWAITED.replace("kill takes", "pause takes").replace("run.kill", "run.fault")),
    ]
    assert problems_of_recording(_forgets_the_first_await) == [
        (1, "run.cluster was not awaited, so nothing was done: write await run.cluster(…)")
    ]


async def _two_places(run: Run) -> None:
    cluster = await run.cluster(topics={"orders": 4})
    cluster.cut("broker-a", "billing")
    cluster.slow_link("broker-a", 200)
    await run.sleep(1)


def test_a_link_fault_with_two_places_or_an_unnamed_value_says_what_to_write() -> None:
    pair = "cut takes one place: for the link between two nodes write cut(['broker-a', 'billing'])"
    assert problems_of_recording(_two_places) == [
        (2, pair),
        (
            3,
            "slow_link takes one place, and not also 200: name its other values, as ms=200",
        ),
        (3, "timeline.slow_link: this needs a ms"),
    ]


def test_the_duration_of_a_fault_may_have_its_unit() -> None:
    @scenario
    async def it(run: Run) -> None:
        await run.cluster(topics={"orders": 4})
        run.kill("broker-a", for_ms="5s")
        await run.sleep(10)

    assert it.plan().timeline[0].for_ms == 5_000


def test_a_wrong_name_in_a_python_scenario_is_found_before_it_runs() -> None:
    @scenario
    async def it(run: Run) -> None:
        await _the_usual(run)
        run.kill("broker-x")
        run.expect(metric("lost", "billin") <= 3)

    with pytest.raises(BadScenario) as caught:
        it.plan()
    assert "timeline.kill.node: there is no node or group 'broker-x'" in str(caught.value)
    assert "there is no group 'billin'; did you mean billing?" in str(caught.value)
