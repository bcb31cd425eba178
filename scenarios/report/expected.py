"""What the plan of a run expected, beside what the checkers measured.

The plan stands in the first fact of the journal.  One that another version of the emulator
wrote, with parts that are unknown here, is shown as it is and compared with nothing.
"""

from __future__ import annotations

import msgspec

from emulator.checks.violation import Judgement
from emulator.facts import RunStarted
from scenarios.plan import Expectation, Plan
from scenarios.running.verdicts import NoMetric, unmet_of


class Expected(msgspec.Struct, frozen=True):
    """One expectation: "lost == 0", what was measured, and whether it was met."""

    text: str
    metric: str  # with its scope: "idle_members.billing"
    met: bool | None  # None: nothing was measured
    why: str = ""  # there is no measurement


def plan_of(run: RunStarted) -> Plan | None:
    """The plan of *run*, if this version can read it."""
    try:
        return msgspec.json.decode(run.plan, type=Plan)
    except msgspec.MsgspecError:
        return None


def expected_of(plan: Plan | None, judgement: Judgement | None) -> list[Expected]:
    """The expectations of *plan*; none without a plan or a judgement."""
    if plan is None or judgement is None:
        return []
    return [_expected(one, judgement) for one in plan.expect]


def _expected(one: Expectation, judgement: Judgement) -> Expected:
    metric = f"{one.metric}.{one.scope}" if one.scope else one.metric
    text = f"{metric} {one.operator} {one.bound:g}"
    try:
        return Expected(text, metric, not unmet_of((one,), judgement))
    except NoMetric as error:
        return Expected(text, metric, None, str(error))
