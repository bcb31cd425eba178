"""When the clients of a plan start: by the plan, and by the seed where the plan leaves it open."""

from __future__ import annotations

import msgspec

from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan, LoadPlan, Plan
from rocketmq_emulator.scenarios.running.client_specs import client_starts, ends_ms

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
