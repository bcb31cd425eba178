"""A plan that is written to a file and read again is the same plan."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rocketmq_emulator.cluster.fault_values import Kill, SlowLink
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.files.writing import plan_as_toml
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.recording.scenario import Scenario
from rocketmq_emulator.scenarios.recording.writing import plan_as_python
from tests.support.scenarios.random_plans import PLANS

SETTINGS = {f"a_setting_with_a_long_name_{number}": number for number in range(3)}
WRITTEN = """\
name = "two_topics"
title = "5 $$"
cluster = { brokers = 1, release = "5.3.3" }

[topics.orders]
queues = 2

[topics."late bills"]
queues = 4

[[consumers]]
group = "billing"
topic = "orders"
members = 3

[[load]]
topic = "orders"
rate = "5/s"
settings.a_setting_with_a_long_name_0 = 0
settings.a_setting_with_a_long_name_1 = 1
settings.a_setting_with_a_long_name_2 = 2

[[timeline]]
at = "1500ms"
slow_link = { around = "clients", ms = "50ms" }
for = "20s"

[[timeline]]
at = "2s"
kill = "broker-a"

[expect]
lost = 0

[expect.billing]
idle_members_max = 1
"""


@given(PLANS)
@settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_a_plan_written_as_a_file_is_read_as_the_same_plan(plan: Plan) -> None:
    assert read_plan(plan_as_toml(plan), "x.toml") == plan


def test_a_file_is_laid_out_as_a_person_would_write_it() -> None:
    plan = Plan(
        name="two_topics",
        title="5 $",
        cluster=ClusterPlan(brokers=1, release="5.3.3"),
        topics={"orders": TopicPlan(queues=2), "late bills": TopicPlan(queues=4)},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=3),),
        load=(LoadPlan(topic="orders", rate=5.0, settings=SETTINGS),),
        timeline=(
            Step(at_ms=1_500, does=SlowLink(around="clients", ms=50), for_ms=20_000),
            Step(at_ms=2_000, does=Kill(node="broker-a")),
        ),
        expect=(
            Expectation(metric="lost", operator="==", bound=0),
            Expectation(metric="idle_members", operator="<=", bound=1, scope="billing"),
        ),
    )
    assert plan_as_toml(plan) == WRITTEN


def test_null_cannot_be_written() -> None:
    plan = Plan(name="x", load=(LoadPlan(topic="orders", rate=5.0, settings={"a": None}),))
    with pytest.raises(ValueError, match="NoneType"):
        plan_as_toml(plan)


def test_only_a_command_that_writes_a_file_loads_what_writes_it() -> None:
    rooms = "rocketmq_emulator.cli.commands"
    code = f"import {rooms}.replay, {rooms}.scenario, {rooms}.run, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"tomlkit" not in loaded.stdout.split()


@given(PLANS)
@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_a_plan_written_in_python_records_the_same_plan(plan: Plan) -> None:
    text = plan_as_python(plan)
    module: dict[str, Any] = {"__name__": "printed"}
    exec(compile(text, "printed.py", "exec"), module)  # noqa: S102
    (printed,) = [value for value in module.values() if isinstance(value, Scenario)]
    assert printed.plan() == plan
