"""The order that starts one run, and the row that is its result.

The row is the same from the runner, from tests and from a sweep.  The judgement of the journal
and the end of the run decide its verdict: ``failed`` if a rule was broken or an expectation is
not met, ``error`` if there is no answer.  A run that did not finish has no answer, whatever was
found until then.  A run without an objection has no answer if evidence is missing.

A row has the version of the code that made it: another version may run differently from the same
seed.
"""

from __future__ import annotations

import hashlib
import operator
import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from rocketmq_emulator.checks.judging.table import ALL, CHECKERS, METRICS
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.cluster.world import WorldKind
from rocketmq_emulator.facts import RunEnded, RunStarted
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.text.suggestions import nearest_names

LONG_START_UP_S = 10  # a start-up that lasts longer is said, as outages in it are counted apart

# The order ----------------------------------------------------------------------------


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One run.  Its journal is written to *journal*; if it passed, only with *keeps_passed*."""

    plan: Plan
    seed: int
    world: WorldKind = "virtual"
    journal: str = ""
    keeps_passed: bool = False
    paths: tuple[str, ...] = ()  # folders from which the scenario's own modules are imported
    counts_coverage: bool = False  # each pair of a fault and a state as a metric of the row


# The row ------------------------------------------------------------------------------


Verdict: TypeAlias = Literal["passed", "failed", "error"]
RowWorld: TypeAlias = Literal["virtual", "embedded", "processes", "function"]


class Unmet(msgspec.Struct, frozen=True):
    """An expectation that did not hold."""

    expected: str  # "duplicates <= 64"
    actual: float


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """``failed``: a rule was broken or an expectation not met; ``error``: there is no answer.

    ``reason`` is one line for people; empty if passed.  The world ``function``: of a question.
    """

    scenario: str
    code_version: str
    world: RowWorld
    release: str
    parameters: dict[str, bool | int | float | str]
    seed: int
    verdict: Verdict
    reason: str
    metrics: dict[str, float]
    violations: tuple[Violation, ...]
    unmet: tuple[Unmet, ...]
    run_s: float  # in the run's own time, virtual or not
    took_s: float  # in real time
    fact_count: int
    journal: str = ""  # its path, if it was kept
    tried: dict[str, int] = {}  # by rule: how often its premise held, so that it could object


# From a judgement to a row ------------------------------------------------------------


COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
}


GAPS_SHOWN = 3  # of the gaps of a journal


# Counts of topics and brokers, and times that have no value if nothing happened there.
ZERO_IF_ABSENT = frozenset(
    {
        "producer_failover_s",
        "avoided_after_s",
        *(
            metric.name
            for metric in METRICS.values()
            if metric.of in ("topic", "node") and metric.total == "sum"
        ),
    }
)


class NoMetric(Misuse):
    """An expectation names a metric that no checker has computed."""


def started(plan: Plan, seed: int, world: str, code_version: str) -> RunStarted:
    """The first fact of a run's journal."""
    return RunStarted(
        scenario=plan.name,
        plan=msgspec.json.encode(plan).decode(),
        parameters=msgspec.json.encode(plan.parameters).decode(),
        seed=seed,
        world=world,  # type: ignore[arg-type]  # a WorldKind is one of these
        release=plan.cluster.release,
        code_version=code_version,
    )


def result_of(
    plan: Plan,
    began: RunStarted,
    ended: RunEnded,
    judgement: Judgement,
    *,
    run_s: float,
    took_s: float,
) -> RunResult:
    """The row of a run.  A run that did not finish has the verdict ``error``."""
    verdict: Verdict
    unmet: tuple[Unmet, ...] = ()
    if ended.reason != "finished":
        verdict, reason = "error", ended.detail
    elif judgement.raised:
        broken = ", ".join(f"{name} ({error})" for name, error in judgement.raised.items())
        verdict, reason = "error", f"checkers failed, which is a defect of the emulator: {broken}"
    else:
        unmet, unknown = _answered(plan.expect, judgement)
        wrong = _wrong(judgement, unmet)
        verdict = "failed" if wrong else "error" if unknown else "passed"
        reason = "; ".join([*wrong, *unknown])
    return RunResult(
        scenario=plan.name,
        code_version=began.code_version,
        world=began.world,
        release=plan.cluster.release,
        parameters=plan.parameters,
        seed=began.seed,
        verdict=verdict,
        reason=reason,
        metrics=judgement.metrics,
        violations=judgement.violations,
        unmet=unmet,
        run_s=run_s,
        took_s=took_s,
        fact_count=judgement.fact_count,
        tried=judgement.tried,
    )


def without_answer(
    plan: Plan, seed: int, world: RowWorld, reason: str, *, took_s: float = 0.0
) -> RunResult:
    """The row of a run, or of a question, that ended without a result."""
    return RunResult(
        scenario=plan.name,
        code_version=code_version(),
        world=world,
        release="" if world == "function" else plan.cluster.release,
        parameters=plan.parameters,
        seed=seed,
        verdict="error",
        reason=reason,
        metrics={},
        violations=(),
        unmet=(),
        run_s=0.0,
        took_s=took_s,
        fact_count=0,
    )


def unmet_of(expected: tuple[Expectation, ...], judgement: Judgement) -> tuple[Unmet, ...]:
    """The expectations that do not hold.  Raises ``NoMetric``."""
    found = []
    for one in expected:
        actual = _measured(one, judgement)
        if not COMPARE[one.operator](actual, one.bound):
            found.append(Unmet(expected_text(one), actual))
    return tuple(found)


def _answered(
    expected: tuple[Expectation, ...], judgement: Judgement
) -> tuple[tuple[Unmet, ...], list[str]]:
    """The expectations that do not hold, and the reasons why the row has no answer."""
    unmet: list[Unmet] = []
    unknown: list[str] = []
    for one in expected:
        try:
            unmet += unmet_of((one,), judgement)
        except NoMetric as error:
            unknown.append(str(error))
    return tuple(unmet), [*unknown, *unproven(judgement)]


def unproven(judgement: Judgement) -> list[str]:
    """The evidence that a run without an objection lacks to have passed; empty: it has passed."""
    found = []
    if judgement.incomplete:
        shown = "; ".join(judgement.incomplete[:GAPS_SHOWN])
        more = len(judgement.incomplete) - GAPS_SHOWN
        found.append(f"the journal is not whole: {shown}" + (f"; and {more} more" * (more > 0)))
    if judgement.doubtful:
        first, count = judgement.doubtful[0], len(judgement.doubtful)
        text = f"{count} objection{'s' * (count > 1)} may come from that"
        found.append(f"{text}, the first: {first.checker}: {first.what}")
    missing = {**judgement.not_judged, **judgement.raised}
    if CHECKERS.keys() <= missing.keys():
        name, why = next(iter(missing.items()))
        found.append(f"nothing was judged: none of {len(missing)} checkers could ({name}: {why})")
    return found


def no_pass(ended: object, judgement: Judgement) -> list[str]:
    """Why a run without an objection has not passed either; *ended* is its last fact."""
    broken = [
        f"the checker {name} raised an error, a bug of the emulator: {error}"
        for name, error in judgement.raised.items()
    ]
    return [*_unfinished(ended), *unproven(judgement), *broken]


def _unfinished(ended: object) -> list[str]:
    if not isinstance(ended, RunEnded) or ended.reason == "finished":
        return []
    return [f"the run did not finish ({ended.reason}): {ended.detail}"]


def expected_text(one: Expectation) -> str:
    """The expectation as text: ``lost.billing == 0``."""
    return f"{_name_of(one)} {one.operator} {one.bound:g}"


def is_worse(expectation: Expectation, value: float, than: float) -> bool:
    """Is *value* of its metric worse than the value *than* of another run?"""
    if expectation.operator == "==":
        return abs(value - expectation.bound) > abs(than - expectation.bound)
    return value > than if expectation.operator == "<=" else value < than


def _measured(one: Expectation, judgement: Judgement) -> float:
    name = _name_of(one)
    if (actual := judgement.metrics.get(name)) is not None:
        return actual
    if one.metric in ZERO_IF_ABSENT and one.metric in judgement.metrics:
        return 0.0
    for checker, why in judgement.not_judged.items():
        if one.metric in (metric.name for metric in ALL[checker].metrics):
            raise NoMetric(f"{name!r} was not judged: {why}")
    near = nearest_names(name, judgement.metrics, 3)
    meant = f"; there is {', '.join(near)}" if near else ""
    raise NoMetric(f"no checker measured {name!r} in this run{meant}")


def _name_of(one: Expectation) -> str:
    return f"{one.metric}.{one.scope}" if one.scope else one.metric


def _wrong(judgement: Judgement, unmet: tuple[Unmet, ...]) -> list[str]:
    parts = [f"{one.expected} was expected, it is {one.actual:g}" for one in unmet]
    if judgement.violations:
        first = judgement.violations[0]
        more = len(judgement.violations) - 1 + judgement.more_violations
        parts.append(f"{first.checker}: {first.what}" + (f" (and {more} more)" if more else ""))
    return parts


# The version of the code --------------------------------------------------------------


IGNORED_FOLDERS = ("pipeline", "testing")  # floors above those that a run uses
LIBRARIES_THAT_COUNT = ("trio", "msgspec")
DIGITS = 12


@cache
def code_version() -> str:
    """A digest of the emulator's sources, Python's release and ``LIBRARIES_THAT_COUNT``."""
    digest = hashlib.sha256(platform.python_version().encode())
    for library in LIBRARIES_THAT_COUNT:
        digest.update(f"{library} {version(library)}".encode())
    root = Path(__file__).parents[2]
    rooms = (room for room in root.iterdir() if room.name not in IGNORED_FOLDERS)
    for path in sorted(path for room in rooms for path in room.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]


def long_start_ups(metrics: Mapping[str, float]) -> dict[str, str]:
    """Of groups whose start-up lasted long: a sentence that names the metrics of outages in it."""
    prefix = "startup_s."
    return {
        name.removeprefix(prefix): (
            f"the start-up of {name.removeprefix(prefix)} lasted {value:.1f} s: outages in it are "
            "in startup_overlap_s, startup_unowned_s and startup_delivery_gap_s"
        )
        for name, value in metrics.items()
        if name.startswith(prefix) and value > LONG_START_UP_S
    }
