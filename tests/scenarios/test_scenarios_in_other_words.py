"""A plan written down, and read again, is the same plan."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from plans_by_chance import PLANS

from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.files.writing import plan_as_toml
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.recording.scenario import Scenario
from rocketmq_emulator.scenarios.recording.writing import plan_as_python


@given(PLANS)
@settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_a_plan_written_as_a_file_is_read_as_the_same_plan(plan: Plan) -> None:
    assert read_plan(plan_as_toml(plan), "x.toml") == plan


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
