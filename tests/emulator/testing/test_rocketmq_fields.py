"""Typed dicts for fields that are passed on by name have the same fields as their targets."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.scenarios.sweeps.sweep import Sweep, SweepOptions
from rocketmq_emulator.testing.rocketmq import RuleFields


def test_fail_next_takes_the_fields_of_a_reply_rule_but_the_two_that_it_sets() -> None:
    assert {*get_type_hints(RuleFields), "code", "count"} == {*ReplyRule.__struct_fields__}


def test_the_options_of_a_sweep_are_those_that_it_takes_by_name() -> None:
    taken = inspect.signature(Sweep).parameters.values()
    by_name = {one.name for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY}
    assert by_name == {*SweepOptions.__annotations__, "finished"}
