"""When the clients of a plan start: by the plan, and by the seed where the plan leaves it open."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.cluster.fault_values import CutLink, Pause, StallLink
from rocketmq_emulator.scenarios.plan.client_starts import client_starts, ends_ms
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Join,
    Leave,
    LoadPlan,
    Plan,
    RollingRestart,
    Step,
    TopicPlan,
    When,
    timed,
)
from rocketmq_emulator.scenarios.plan.unread import UnknownName
from rocketmq_emulator.scenarios.plan.validity import problems_of

GROUP = ConsumersPlan(group="billing", topics={"orders": "*"}, members=20, starts_ms=1_000)
LOAD = LoadPlan(topic="orders", rate=5, until_ms=2_000)


def starts(seed: int, **changed: int) -> dict[str, float]:
    group = msgspec.structs.replace(GROUP, **changed)
    plan = Plan(name="it", consumers=(group,), load=(LOAD,))
    return {start.name: start.at_ms for start in client_starts(plan, seed)}


def test_without_a_spread_every_seed_has_the_starts_of_the_plan() -> None:
    assert starts(1, every_ms=500) == starts(2, every_ms=500)
    assert list(starts(1, every_ms=500).values())[:3] == [0, 1_000, 1_500]


def test_with_a_spread_each_seed_has_other_starts_within_it() -> None:
    one, again, other = (starts(seed, start_spread_ms=20_000) for seed in (1, 1, 2))
    assert one == again != other
    members = [at for name, at in one.items() if name.startswith("billing")]
    assert members == sorted(members)
    assert 1_000 <= members[0] < 6_000
    assert 16_000 < members[-1] <= 21_000
    assert one["producer-1"] == 0


def test_a_member_s_start_does_not_depend_on_the_number_of_members() -> None:
    few, many = (starts(7, members=n, start_spread_ms=9_000) for n in (3, 20))
    assert few.items() <= many.items()


def test_a_run_lasts_until_the_latest_possible_start() -> None:
    group = msgspec.structs.replace(GROUP, start_spread_ms=20_000)
    assert ends_ms(Plan(name="it", consumers=(group,), load=(LOAD,))) == 21_000


# Steps that name a client before it has started ----------------------------------------------


def problems(*steps: Step, **changed: int) -> list[str]:
    group = msgspec.structs.replace(GROUP, **{"members": 2, **changed})
    plan = Plan(
        name="it", topics={"orders": TopicPlan()}, consumers=(group,), load=(LOAD,), timeline=steps
    )
    return [
        f"{'.'.join(map(str, path))}: {text}"
        for path, text in problems_of(timed_plan(plan))
        if not isinstance(text, UnknownName) or text.what == "client"
    ]


def timed_plan(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, timeline=timed(plan.timeline))


@pytest.mark.parametrize(
    ("does", "place"),
    [
        (Pause(node="billing-2"), "pause.node"),
        (Leave(node="billing-2", kill=True), "leave.node"),
        (CutLink(between=("broker-a", "billing-2")), "cut.between.1"),
        (StallLink(around=("broker-a", "billing-2")), "stall.around.1"),
        (RollingRestart(nodes=("brokers", "billing-2")), "rolling_restart.nodes.1"),
    ],
)
def test_a_step_that_names_a_member_before_its_start_is_refused(does, place) -> None:
    (problem,) = problems(Step(at_ms=3_999, does=does), every_ms=3_000)
    assert problem == (
        f"timeline.0.{place}: billing-2 does not run yet at 3.999 s: it starts at 4 s; do this "
        "step then, or later"
    )
    assert problems(Step(at_ms=4_000, does=does), every_ms=3_000) == []


def test_with_a_spread_the_latest_start_counts_which_some_seed_draws() -> None:
    early = Step(at_ms=5_000, does=Pause(node="billing-1"))
    (problem,) = problems(early, start_spread_ms=5_000)
    assert "billing-1 may not run yet at 5 s: the seed starts it by 6 s" in problem
    assert problems(Step(at_ms=6_000, does=Pause(node="billing-1")), start_spread_ms=5_000) == []


def test_a_group_needs_one_member_and_the_set_of_all_clients_none() -> None:
    assert problems(Step(at_ms=1_000, does=Pause(node="billing")), every_ms=9_000) == []
    assert problems(Step(at_ms=0, does=Pause(node="clients"))) == []
    (problem,) = problems(Step(at_ms=500, does=Pause(node="billing")), every_ms=9_000)
    assert "billing does not run yet at 0.5 s: it starts at 1 s" in problem


def test_a_member_that_joins_is_named_only_by_later_steps() -> None:
    join, pause = Step(at_ms=9_000, does=Join(group="billing")), Step(does=Pause(node="billing-3"))
    assert problems(join, pause) == []
    (problem,) = problems(Step(at_ms=9_000, does=Pause(node="billing-3")), Step(does=join.does))
    assert problem == (
        "timeline.0.pause.node: no client named billing-3 starts before this step: do it later"
    )


def test_after_a_fact_the_time_is_not_known_and_no_step_is_refused() -> None:
    when = When(kind="QueuesClaimed")
    assert problems(Step(when=when, does=Pause(node="billing-2")), starts_ms=60_000) == []


def test_huge_numbers_of_members_are_refused_without_counting_to_them() -> None:
    step = Step(at_ms=9_000, does=Join(group="billing", members=10**12))
    assert any("members" in each for each in problems(step, members=10**12))
