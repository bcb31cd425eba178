"""Random valid plans, for properties that every plan must have."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from rocketmq_emulator.cluster.fault_values import Fault, Lag, LinkFault
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.scenarios.plan.client_starts import client_starts
from rocketmq_emulator.scenarios.plan.plan import (
    ACTIONS,
    FAULTS,
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    Limits,
    ListenerPlan,
    LoadPlan,
    Mark,
    Plan,
    ProgramPlan,
    Step,
    TopicPlan,
    When,
    timed,
)
from rocketmq_emulator.settings.quirks import QUIRKS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = st.from_regex(r"[A-Za-z$][\w$.-]{0,8}", fullmatch=True)
BROKERS = ("broker-a", "broker-b", "broker-c")
NODES = (*BROKERS, "namesrv", "billing-1", "producer-1", "brokers", "clients", "billing")
TOPICS = ("orders", "te$t", "t.o p")
GROUPS = ("billing", "ship ping")
NUMBERS = st.floats(0.001, 1e6, allow_subnormal=False) | st.integers(1, 10**7).map(float)
WHOLE = st.integers(1, 10**8) | st.integers(1, 600).map(lambda s: s * 1_000)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "node": st.sampled_from(BROKERS),
    "nodes": st.lists(st.sampled_from(BROKERS), min_size=1).map(tuple),
    "broker": st.sampled_from(BROKERS),
    "name_server": st.just("namesrv"),
    "group": st.sampled_from(GROUPS),
    "topic": st.sampled_from(TOPICS),
    "queues": st.integers(1_000, 2_000),
    "members": st.integers(1, 5),
    "text": TEXT,
    "attributes": st.dictionaries(WORDS, TEXT, max_size=2),
    "rule": st.sampled_from(
        [
            ReplyRule(code=310, delay_ms=700),
            ReplyRule(topic="orders", count=5, error_code=2, remark="b$$usy"),
            ReplyRule(probability=0.25, cut_connection=True),
        ]
    ),
}
ENDS = st.sampled_from(NODES) | st.lists(st.sampled_from(NODES), min_size=1).map(tuple)
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {int: WHOLE, float: NUMBERS, bool: st.booleans()}


def some(kind: type[msgspec.Struct], /, **given: Any) -> st.SearchStrategy[Any]:
    """Random structs of *kind*; strategies are chosen by a field's name, otherwise by its type."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.name in given or field.name in ("between", "around"):
            continue
        fields[field.name] = _of_field(field)
    fields |= given
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


def _of_field(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    if field.name in BY_NAME:
        return BY_NAME[field.name]
    if typing.get_origin(field.type) is typing.Literal:
        return st.sampled_from(typing.get_args(field.type))
    if type(None) in typing.get_args(field.type):
        return st.none() | OF_TYPE[typing.get_args(field.type)[0]]
    return OF_TYPE[field.type]


def a_fault(kind: type[Fault]) -> st.SearchStrategy[Any]:
    if kind is Lag:
        return some(kind, node=st.sampled_from(("broker-a-1", "slaves")), ms=NUMBERS)
    if not issubclass(kind, LinkFault):
        return some(kind)
    return some(kind, between=st.tuples(ENDS, ENDS)) | some(kind, around=ENDS)


FAULT = st.one_of([a_fault(kind) for kind in FAULTS.values()])
OF_ACTIONS: dict[str, dict[str, Any]] = {
    "leave": {"node": st.just("billing-1")},
    "elect": {"broker": st.just("broker-a"), "node": st.sampled_from(("broker-a", "broker-a-1"))},
}
ACT = st.one_of(
    [some(kind, **OF_ACTIONS.get(word, {})) for word, kind in ACTIONS.items() if word != "heal"]
)
WHEN = st.builds(
    When,
    kind=st.just("QueuesClaimed"),
    node=st.sampled_from(["", "billing-1"]),
    fields=st.sampled_from([{}, {"group": "bi$ling"}]),
    wait_ms_max=WHOLE,
)
SETTINGS = st.sampled_from([{}, {"unit_name": "a$b"}, {"heartbeat_first_ms": 10_000}])
LISTENER = some(
    ListenerPlan,
    fails=st.just(0.1),
    raises=st.just(0.0),
    hangs=st.just(0.25),
    always_fails=st.sampled_from([0.0, 0.5]),
    from_ms=st.just(1_500),
    until_ms=st.sampled_from([None, 60_000]),
)


@st.composite
def _steps(draw: st.DrawFn) -> tuple[Step, ...]:
    steps, at_ms = [], 0
    for _ in range(draw(st.integers(0, 5))):
        at_ms += draw(WHOLE)
        for_ms = draw(st.none() | WHOLE)
        steps.append(Step(does=draw(FAULT), at_ms=at_ms, for_ms=for_ms))
    for _ in range(draw(st.integers(0, 3))):
        when, after_ms = draw(st.none() | WHEN), draw(st.just(0) | WHOLE)
        steps.append(Step(does=draw(ACT), when=when, after_ms=after_ms))
    return timed((*steps, Step(does=Mark(text="the end"))))


def _readers(group: str) -> st.SearchStrategy[ConsumersPlan]:
    return some(
        ConsumersPlan,
        group=st.just(group),
        topics=st.just({TOPICS[0]: "*"}),
        kind=st.just("lite_pull"),
        orderly=st.just(False),
        strategy=st.just("averagely"),
        settings=SETTINGS,
        settings_of=st.just({}),
        listener=st.just(ListenerPlan()) | LISTENER,
        seeks_ms=st.lists(WHOLE, max_size=3).map(tuple),
    )


def _consumers(group: str) -> st.SearchStrategy[ConsumersPlan]:
    return some(
        ConsumersPlan,
        group=st.just(group),
        topics=st.dictionaries(st.sampled_from(TOPICS), st.sampled_from("*ab"), min_size=1),
        kind=st.just("push"),
        strategy=st.sampled_from(["averagely", "mine:allocate"]),
        settings=SETTINGS,
        settings_of=st.just({}) | st.just({f"{group}-1": {"heartbeat_first_ms": 5_000}}),
        listener=st.just(ListenerPlan()) | LISTENER,
        seeks_ms=st.just(()),
    )


LOAD = some(
    LoadPlan,
    mode=st.sampled_from(["sync", "async", "oneway"]),
    batch=st.just(1),
    delay_levels=st.just(()),
    timer_ms=st.just(()),
    topic=st.sampled_from(TOPICS),
    producers=st.integers(1, 9),
    until_ms=st.none(),
    tags=st.lists(WORDS).map(tuple),
    properties=st.dictionaries(
        st.sampled_from(["region", "te$t"]),
        WORDS | st.lists(WORDS, min_size=1).map(tuple),
        max_size=2,
    ),
    count_max=st.none() | WHOLE,
    rollbacks=st.just(0.0),
    unknowns=st.just(0.0),
    crashes=st.just(0.0),
    raises=st.just(0.0),
    undecided=st.just(0.0),
    decides_ms=st.just(0.0),
    settings=st.just({}),
)
TRANSACTIONS = st.tuples(*[st.sampled_from([0.0, 0.15, 0.2])] * 5).map(
    lambda shares: LoadPlan(
        topic="orders",
        rate=5.0,
        mode="transaction",
        count_max=9,
        rollbacks=shares[0],
        unknowns=shares[1],
        crashes=shares[2],
        raises=shares[3],
        undecided=shares[4],
        decides_ms=7.0,
    )
)
BATCHES = st.integers(2, 1_000).map(lambda n: LoadPlan(topic="orders", rate=5.0, batch=n))
DELAYED = st.lists(st.integers(0, 18)).map(
    lambda levels: LoadPlan(topic="orders", rate=5.0, delay_levels=tuple(levels))
)
TIMED = st.lists(WHOLE).map(
    lambda times: LoadPlan(topic="orders", rate=5.0, timer_ms=tuple(times))
)


def _with_steps_after_all_starts(plan: Plan) -> Plan:
    """*plan*, with its timeline so much later that every client runs when a step names it."""
    later_ms = max((start.at_ms for start in client_starts(plan)), default=0)
    steps = (
        step if step.at_ms is None else replace(step, at_ms=step.at_ms + later_ms)
        for step in plan.timeline
    )
    return replace(plan, timeline=tuple(steps))


EXPECT = st.lists(
    some(
        Expectation,
        metric=st.sampled_from(["lost", "duplicates", "unowned_s"]),
        operator=st.sampled_from(["==", "<=", ">="]),
        scope=st.sampled_from(["", "billing"]),
    ),
    unique_by=lambda each: (each.metric, each.operator, each.scope),
).map(lambda found: tuple(sorted(found, key=lambda each: each.scope)))
PLANS = some(
    Plan,
    name=WORDS,
    title=TEXT,
    issue=TEXT,
    teaches=TEXT,
    cluster=st.just(ClusterPlan(brokers=3, slaves=1, controllers=1, release="5.3.3")),
    topics=st.fixed_dictionaries(
        {
            name: some(
                TopicPlan,
                queues=st.integers(1, 16),
                write_queues=st.none() | st.integers(1, 16),
                perm=st.sampled_from([2, 4, 6]),
                brokers=st.lists(st.sampled_from(BROKERS)).map(tuple),
            )
            for name in TOPICS
        }
    ),
    consumers=st.tuples(*map(_consumers, GROUPS), _readers("audit")),
    load=st.lists(LOAD | BATCHES | TRANSACTIONS | DELAYED | TIMED, min_size=1, max_size=2).map(
        tuple
    ),
    programs=st.just(())
    | st.just((ProgramPlan(name="reader", run="a.b:c", arguments={"x": [1, {"y$": 2.5}]}),)),
    timeline=_steps(),
    lasts_ms=st.none(),
    expect=EXPECT,
    parameters=st.dictionaries(WORDS, st.booleans() | st.integers() | TEXT, max_size=2),
    quirks=st.just(()) | st.just((min(QUIRKS),)),
    limits=some(Limits, virtual_s_max=WHOLE.map(float)),
).map(_with_steps_after_all_starts)
