"""A plan written down, and read again, is the same plan."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from plans_by_chance import PLANS

from scenarios.files.reading import read_plan
from scenarios.files.writing import plan_as_toml
from scenarios.plan import Plan


@given(PLANS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_plan_written_as_a_file_is_read_as_the_same_plan(plan: Plan) -> None:
    assert read_plan(plan_as_toml(plan), "x.toml") == plan
