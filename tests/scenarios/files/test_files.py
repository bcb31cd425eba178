"""A file becomes a plan, or a list of its problems, each with its line."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from tomlkit.items import SingleKey

from rocketmq_emulator.cluster.fault_values import Answer, Kill, SlowLink
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.scenarios.files.positions import positions
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.files.writing import document_item
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
    When,
)
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.validity import refusals_of

BROKER_DIES = """\
title = "A broker dies while three consumers share eight queues"
cluster = { brokers = 2, release = "4.9.7" }
[topics.orders]
queues = 4
[[consumers]]
group = "billing"
topic = "orders"
members = 3
[[load]]
topic = "orders"
rate = "200/s"
[[timeline]]
at = "30s"
kill = "broker-b"
for = "20s"
[expect]
lost = 0
duplicates_max = 64
unowned_s_max = 21
"""


def read(text: str, **parameters: Any) -> Plan:
    return read_plan(text, "it.toml", parameters)


def problems(text: str, **parameters: Any) -> list[str]:
    with pytest.raises(BadScenario) as caught:
        read(text, **parameters)
    return str(caught.value).splitlines()


def a_file(**changed: str) -> str:
    """The example with lines replaced: ``a_file(rate='rate = 200')``."""
    lines = BROKER_DIES.splitlines()
    for name, line in changed.items():
        (at,) = [at for at, text in enumerate(lines) if text.startswith(f"{name} =")]
        lines[at] = line
    return "\n".join(lines)


def test_the_example_of_the_page_is_a_plan() -> None:
    assert read(BROKER_DIES) == Plan(
        name="it",
        title="A broker dies while three consumers share eight queues",
        cluster=ClusterPlan(brokers=2, release="4.9.7"),
        topics={"orders": TopicPlan(queues=4)},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=3),),
        load=(LoadPlan(topic="orders", rate=200.0),),
        timeline=(Step(at_ms=30_000, does=Kill(node="broker-b"), for_ms=20_000),),
        expect=(
            Expectation(metric="lost", operator="==", bound=0),
            Expectation(metric="duplicates", operator="<=", bound=64),
            Expectation(metric="unowned_s", operator="<=", bound=21),
        ),
    )


def test_a_step_may_wait_for_a_fact_and_may_follow_the_one_before_it() -> None:
    more = """
[[timeline]]
when = { kind = "QueuesClaimed", node = "billing-3", wait_max = "1m" }
after = "200ms"
slow_link = { between = ["broker-a", "billing"], ms = 200, jitter = "5ms" }
name = "slow"
[[timeline]]
after = "1.5s"
heal = "slow"
"""
    _, slow, heal = read(a_file(lost="lost = 0").replace("[expect]", more + "[expect]")).timeline
    assert slow.when == When(kind="QueuesClaimed", node="billing-3", wait_ms_max=60_000)
    assert slow.does == SlowLink(between=("broker-a", "billing"), ms=200, jitter_ms=5)
    assert (slow.after_ms, slow.at_ms, heal.after_ms, heal.at_ms) == (200, None, 1_500, None)


def test_a_reply_rule_names_its_codes() -> None:
    rule = '{ code = "SEND_MESSAGE_V2", error_code = "SYSTEM_BUSY", delay = "1s" }'
    plan = read(a_file(kill=f'answer = {{ node = "broker-b", rule = {rule} }}'))
    assert plan.timeline[0].does == Answer(
        node="broker-b",
        rule=ReplyRule(
            code=RequestCode.SEND_MESSAGE_V2, error_code=ResponseCode.SYSTEM_BUSY, delay_ms=1_000
        ),
    )


def test_expectations_of_a_group_stand_in_its_own_table() -> None:
    plan = read(BROKER_DIES + "[expect.billing]\nidle_members = 0\n")
    assert plan.expect[-1] == Expectation(
        metric="idle_members", operator="==", bound=0, scope="billing"
    )


def test_a_metric_of_brokers_may_be_limited_to_one() -> None:
    plan = read(BROKER_DIES + "[expect.broker-b]\nproducer_failover_s_max = 30\n")
    assert plan.expect[-1] == Expectation(
        metric="producer_failover_s", operator="<=", bound=30, scope="broker-b"
    )


WRONG_SCOPES = {
    "[expect.billing]\nsends = 0": (
        "expect.billing.sends: sends is measured for each topic, and billing is a group; "
        "there is orders"
    ),
    "[expect.orders]\nlost = 0": (
        "expect.orders.lost: lost is measured for each group, and orders is a topic; "
        "there is billing"
    ),
    "[expect.billing-1]\nlost = 0": (
        "expect.billing-1.lost: lost is measured for each group, and billing-1 is a node; "
        "did you mean billing?"
    ),
    "[expect.billing]\nwaiting = 0": (
        "expect.billing.waiting: waiting is measured for the whole run only, not for 'billing'"
    ),
    "[expect.broker-c]\nproducer_failover_s = 0": (
        "expect.broker-c.producer_failover_s: there is no broker 'broker-c'; "
        "did you mean broker-b?"
    ),
    "[expect.biling]\nlosd = 0": (
        "expect.biling.losd: there is no group, topic or broker 'biling'; did you mean billing?"
    ),
}


@pytest.mark.parametrize("more", WRONG_SCOPES)
def test_an_expectation_of_a_wrong_scope_is_refused_with_the_right_one(more: str) -> None:
    assert problems(f"{BROKER_DIES}{more}\n")[0] == f"it.toml:21: {WRONG_SCOPES[more]}"


# Parameters -------------------------------------------------------------------------------

WITH_PARAMETERS = """
[parameters]
members = 3
topic = "orders"
rate = "200/s"
down = "20s"
"""


def a_file_with_parameters() -> str:
    changed = a_file(
        members='members = "$members"',
        rate='rate = "$rate"',
        **{"for": 'for = "$down"', "title": 'title = "$members members cost 5 $$"'},
    )
    named = changed.replace("orders", "$topic").replace("[topics.$topic]", '[topics."$topic"]')
    return named + WITH_PARAMETERS


def test_a_parameter_is_of_the_type_of_the_place_where_it_stands() -> None:
    plan = read(a_file_with_parameters())
    assert plan.title == "3 members cost 5 $"
    assert plan.consumers[0].members == 3
    assert plan.load[0] == LoadPlan(topic="orders", rate=200.0)
    assert plan.timeline[0].for_ms == 20_000
    assert plan.parameters == {"members": 3, "topic": "orders", "rate": "200/s", "down": "20s"}


def test_parameters_are_set_by_text_or_by_value() -> None:
    plan = read(a_file_with_parameters(), members="5", rate=50, topic="bills")
    assert plan.consumers[0].members == 5
    assert plan.load[0] == LoadPlan(topic="bills", rate=50.0)
    assert plan.parameters["members"] == 5


def test_unknown_and_unused_parameters_are_refused() -> None:
    text = a_file(members='members = "$member"') + "\n[parameters]\nmembers = 3\n"
    assert problems(text) == [
        (
            "it.toml:8: consumers.members: there is no parameter 'member'; did you mean members?; "
            "a dollar sign is written $$"
        ),
        "it.toml:21: parameters.members: nothing uses $members",
    ]
    assert problems(a_file_with_parameters(), member="5") == [
        "it.toml: --set member: there is no parameter 'member'; did you mean members?"
    ]
    assert problems(a_file_with_parameters(), members="many") == [
        "it.toml: --set members: is a number, as 3 is, not 'many'"
    ]


# Problems ---------------------------------------------------------------------------------

WRONG = {
    "a word that is none": (
        {"kill": 'kil = "broker-b"'},
        "it.toml:14: timeline.kil: there is no fault or action 'kil'; did you mean kill?",
    ),
    "a field that is none": (
        {"members": "member = 3"},
        "it.toml:8: consumers.member: there is no such field here; did you mean members?",
    ),
    "a field inside one line": (
        {"cluster": "cluster = { brokers = 2, relase = '4.9.7' }"},
        "it.toml:2: cluster.relase: there is no such field here; did you mean release?",
    ),
    "another type": (
        {"members": "members = true"},
        "it.toml:8: consumers.members: is a whole number, not true",
    ),
    "no unit": (
        {"for": "for = 20"},
        'it.toml:15: timeline.for: 20 of what? Write it with its unit, such as "30s"',
    ),
    "another unit": (
        {"for": 'for = "20 sec"'},
        "it.toml:15: timeline.for: '20 sec': a duration has one of the units us, ms, s, m, h",
    ),
    "a node that is none": (
        {"kill": 'kill = "broker-c"'},
        (
            "it.toml:14: timeline.kill.node: there is no node or group 'broker-c'; "
            "did you mean broker-b?"
        ),
    ),
    "a topic that is none": (
        {"group": 'group = "billing"\nstrategy = "average"'},
        "it.toml:7: consumers.strategy: there is no strategy 'average'; did you mean averagely?",
    ),
    "a fault that lacks a field": (
        {"kill": 'slow_link = { around = "broker-a" }'},
        "it.toml:14: timeline.slow_link: this needs a ms",
    ),
    "a fault that cannot be": (
        {"kill": "slow_link = { ms = 5 }"},
        "it.toml:14: timeline.slow_link: a fault of a link has either between or around",
    ),
    "an act with an end": (
        {"kill": 'join = "billing"'},
        "it.toml:15: timeline.for: join is done at once: it has no end",
    ),
    "a setting that is none": (
        {"members": "settings = { pull_batch = 3 }"},
        (
            "it.toml:8: consumers.settings: PushConsumer has no setting 'pull_batch': "
            "did you mean pull_batch_max?"
        ),
    ),
    "a metric that is none": (
        {"lost": "losd = 0"},
        "it.toml:17: expect.losd: there is no metric 'losd'; did you mean lost?",
    ),
    "a unit missing in a list": (
        {"rate": 'rate = "5/s"\ntimer = ["5s", 7]'},
        'it.toml:12: load.timer: 7 of what? Write it with its unit, such as "30s"',
    ),
    "a delay level that is none": (
        {"rate": 'rate = "5/s"\ndelay_levels = [0, 19]'},
        ("it.toml:12: load.delay_levels: is a level from 1 to 18, or 0 for none, not 19"),
    ),
    "both kinds of delays": (
        {"rate": 'rate = "5/s"\ndelay_levels = 3\ntimer = "5s"'},
        (
            "it.toml:13: load.timer: a load has delay_levels or timer_ms: "
            "of both, only the level counts"
        ),
    ),
    "a batch without an answer": (
        {"rate": 'rate = "5/s"\nbatch = 10\nmode = "oneway"'},
        "it.toml:12: load.batch: a batch is sent in the mode sync, not oneway",
    ),
    "a batch with keys": (
        {"rate": 'rate = "5/s"\nbatch = 10\nkeys = 3'},
        (
            "it.toml:12: load.batch: messages of a batch share a queue and have no delays: "
            "leave keys out"
        ),
    ),
    "shares of no transactions": (
        {"rate": 'rate = "5/s"\nrollbacks = 0.5'},
        "it.toml:12: load.rollbacks: is for loads of transactions, and the mode is sync",
    ),
    "a property of the system": (
        {"rate": 'rate = "5/s"\nproperties = {TAGS = ["a"]}'},
        (
            "it.toml:12: load.properties.TAGS: RocketMQ sets this property itself: use the field "
            "tags instead"
        ),
    ),
    "a property without a value": (
        {"rate": 'rate = "5/s"\nproperties = {region = []}'},
        "it.toml:12: load.properties.region: needs a value",
    ),
    "too many shares of transactions": (
        {
            "rate": 'rate = "5/s"\nmode = "transaction"\nuntil = "5s"\nrollbacks = 0.6\n'
            "unknowns = 0.5"
        },
        (
            "it.toml:9: load: the shares rollbacks, unknowns, crashes, raises, undecided are more "
            "than 1 together"
        ),
    ),
    "transactions without an end": (
        {"rate": 'rate = "5/s"\nmode = "transaction"'},
        (
            "it.toml:9: load: its producers stay to be asked: say when sends end "
            "(until, or count_max)"
        ),
    ),
    "transactions with keys": (
        {"rate": 'rate = "5/s"\nmode = "transaction"\nuntil = "5s"\nkeys = 3'},
        "it.toml:14: load.keys: a transaction chooses no queue: leave keys out",
    ),
    "transactions with delays": (
        {"rate": 'rate = "5/s"\nmode = "transaction"\nuntil = "5s"\ndelay_levels = 3'},
        "it.toml:9: load: a transaction drops the delay of its message: leave it out",
    ),
    "a property that is the message's tag": (
        {"rate": 'rate = "5/s"\nproperties = { TAGS = "red" }'},
        (
            "it.toml:12: load.properties.TAGS: RocketMQ sets this property itself: use the field "
            "tags instead"
        ),
    ),
    "a property that no application can set": (
        {"rate": 'rate = "5/s"\nproperties = { PGROUP = "shop" }'},
        (
            "it.toml:12: load.properties.PGROUP: RocketMQ sets this property itself: no "
            "application can"
        ),
    ),
    "an empty property": (
        {"rate": 'rate = "5/s"\nproperties = { color = "" }'},
        (
            "it.toml:12: load.properties.color: The name or value of property can not be null or "
            "blank string!"
        ),
    ),
    "an immunity of no transaction": (
        {"rate": 'rate = "5/s"\nproperties = { CHECK_IMMUNITY_TIME_IN_SECONDS = "90" }'},
        (
            "it.toml:12: load.properties.CHECK_IMMUNITY_TIME_IN_SECONDS: is for loads of "
            "transactions, and the mode is sync"
        ),
    ),
    "more properties than a record holds": (
        {"rate": f'rate = "5/s"\nproperties = {{ color = "{"x" * 32_766}" }}'},
        "it.toml:12: load.properties: have 32,773 bytes, and 32,767 fit",
    ),
    "a push consumer that seeks": (
        {"members": 'seeks = ["5s"]'},
        "it.toml:8: consumers.seeks: only lite pull consumers seek",
    ),
    "a share that is none": (
        {"members": "listener = { always_fails = 2 }"},
        "it.toml:8: consumers.listener.always_fails: is a chance from 0 to 1, not 2.0",
    ),
    "a release that is none": (
        {"cluster": 'cluster = { release = "four" }'},
        "it.toml:2: cluster: release: a release looks like 4.9.7 or 5.3.3, not 'four'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_problem_has_its_line_its_field_and_the_nearest_right_word(what: str) -> None:
    changed, line = WRONG[what]
    assert problems(a_file(**changed)) == [line]


def test_all_problems_of_a_file_are_shown_at_once() -> None:
    text = a_file(members="members = 'x'", rate="rate = 'x'", kill="does = 'x'", lost="lost = 'x'")
    assert [line.partition(": ")[0] for line in problems(text)] == [
        "it.toml:8",
        "it.toml:11",
        "it.toml:14",
        "it.toml:17",
    ]


MANY_KINDS = """
cluster = { brokers = 2, relase = "4.9.7" }
topics = { orders = 4 }
[[consumers]]
group = "billing"
topic = "orders"
member = 3
[[load]]
topic = "ordes"
rate = "fast"
[[load]]
topic = "ordes"
rate = "200/s"
[[timeline]]
kil = "broker-b"
name = "x"
[[timeline]]
kill = "broker-c"
for = 20
[[timeline]]
kill = "billing-3"
[[timeline]]
heal = "x"
[[timeline]]
kill = "producer-2"
[expect]
losd = 0
duplicates = "$y"
[parameters]
members = 3
"""


def test_all_kinds_of_problems_are_shown_at_once_and_no_consequences() -> None:
    assert problems(MANY_KINDS) == [
        "it.toml:2: cluster.relase: there is no such field here; did you mean release?",
        "it.toml:7: consumers.member: there is no such field here; did you mean members?",
        "it.toml:10: load.rate: is a rate with its unit, such as \"200/s\", not 'fast'",
        "it.toml:12: load.topic: there is no topic 'ordes'; did you mean orders?",
        "it.toml:15: timeline.kil: there is no fault or action 'kil'; did you mean kill?",
        (
            "it.toml:18: timeline.kill.node: there is no node or group 'broker-c'; "
            "did you mean broker-b?"
        ),
        'it.toml:19: timeline.for: 20 of what? Write it with its unit, such as "30s"',
        "it.toml:27: expect.losd: there is no metric 'losd'; did you mean lost?",
        (
            "it.toml:28: expect.duplicates: there is no parameter 'y'; there is members; "
            "a dollar sign is written $$"
        ),
        "it.toml:30: parameters.members: nothing uses $members",
    ]


def test_a_timeline_out_of_order_is_refused() -> None:
    text = BROKER_DIES + '[[timeline]]\nat = "29s"\nmark = "late"\n'
    assert problems(text) == [
        (
            "it.toml:21: timeline.at: the timeline is out of order: "
            "the step before it is done at 30000 ms"
        )
    ]


def test_a_fault_of_a_member_before_its_start_is_said_with_its_line() -> None:
    text = a_file(kill='pause = "billing-1"').replace(
        'group = "billing"', 'group = "billing"\nstart_spread = "40s"'
    )
    (problem,) = problems(text)
    assert problem.endswith(
        "timeline.pause.node: billing-1 may not run yet at 30 s: the seed starts it by 40 s; do "
        "this step then, or later"
    )


def test_what_is_no_toml_is_said_with_its_line() -> None:
    assert problems("title = 'x'\nmembers = = 3\n") == [
        "it.toml:2: this is no TOML: Invalid value"
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('bandwidth = { around = "broker-a", bytes_per_s = "1MiB/s" }', 1_048_576),
        ('bandwidth = { around = "broker-a", bytes_per_s = 5000 }', 5_000),
        ('full_disk = { node = "broker-a", free = "0B" }', 0),
        ('full_disk = { node = "broker-a", free_bytes = "1.5KiB" }', 1_536),
    ],
)
def test_sizes_and_bandwidths_carry_their_unit(text: str, number: int) -> None:
    does = read(a_file(kill=text)).timeline[0].does
    assert number in (getattr(does, "bytes_per_s", None), getattr(does, "free_bytes", None))


# Places -----------------------------------------------------------------------------------

KEYS = st.text("ab. '", max_size=3)
VALUES = st.recursive(
    st.integers()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text("ab\n#'\"]}$", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    parts: Any = value.items() if isinstance(value, dict) else ()
    parts = enumerate(value) if isinstance(value, list) else parts
    found = {(*path, key): part for key, part in parts}
    return set(found).union(*(paths_of(part, key) for key, part in found.items()))


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_key_and_item_of_a_document_has_a_place(table: dict[str, Any]) -> None:
    document = tomlkit.document()
    for key, value in table.items():
        document.append(SingleKey(key), document_item(value).comment("x"))
    text = document.as_string()
    assert set(positions(text)) == paths_of(tomllib.loads(text))
    assert text.count("# x") >= len(table)


def test_lines_are_found_through_strings_tables_and_comments() -> None:
    text = '''a = """
[b]
x = 1"""  # [c]
[[d.e]]
f.g = [ # ]
  1,
  { h = '}', "i.j" = 2 },
]
[[d.e]]
[d.e.k]
"l\\u0041" = \'\'\'
\'\'\'
m = 1
'''
    assert positions(text) == {
        ("a",): 1,
        ("d",): 4,
        ("d", "e"): 4,
        ("d", "e", 0): 4,
        ("d", "e", 0, "f"): 5,
        ("d", "e", 0, "f", "g"): 5,
        ("d", "e", 0, "f", "g", 0): 6,
        ("d", "e", 0, "f", "g", 1): 7,
        ("d", "e", 0, "f", "g", 1, "h"): 7,
        ("d", "e", 0, "f", "g", 1, "i.j"): 7,
        ("d", "e", 1): 9,
        ("d", "e", 1, "k"): 10,
        ("d", "e", 1, "k", "lA"): 11,
        ("d", "e", 1, "k", "m"): 13,
    }


def test_what_a_world_cannot_do_is_known_before_it_runs() -> None:
    plan = read(a_file(kill='power_off = "broker-b"'))
    assert list(refusals_of(plan, "virtual")) == []
    ((place, why),) = refusals_of(plan, "processes")
    assert place == ("timeline", 0, "power_off")
    assert why == "the processes world cannot do power_off: use virtual"
