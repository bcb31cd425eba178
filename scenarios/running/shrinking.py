"""The smallest plan that still fails in the same way.

Reductions are tried in rounds: the first smaller plan that fails as the first one did becomes the
one to be reduced; when none does in a whole round, it is the smallest.  Every trial is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.reductions import REDUCTIONS

Failure: TypeAlias = frozenset[str]  # what was wrong, by names that do not change with the size
RunPlans: TypeAlias = Callable[[Iterable[Plan]], Iterator[tuple[Plan, RunResult]]]

TRIALS_MAX = 500


class Trial(msgspec.Struct, frozen=True):
    """One smaller plan, and whether it failed in the same way."""

    reduction: str
    plan: Plan
    result: RunResult
    is_same: bool


class DoesNotFail(Exception):
    """There is nothing to shrink."""


def failure_of(row: RunResult) -> Failure:
    """What was wrong: checkers that objected, expectations that were not met; empty: nothing."""
    if row.verdict == "error":
        return frozenset({f"error: {row.reason.split(' at ')[0][:60]}"})
    checkers = {one.checker for one in row.violations}
    unmet = {one.expected.rsplit(" ", 1)[0] for one in row.unmet}
    return frozenset(checkers | unmet)


class Shrinking:
    """Shrinks *plan*, which failed as *result*; ``trials`` come as they are made."""

    def __init__(self, plan: Plan, result: RunResult, run_plans: RunPlans) -> None:
        self.failure = failure_of(result)
        if not self.failure:
            raise DoesNotFail(f"seed {result.seed} passed: there is nothing to shrink")
        self.smallest = plan
        self.result = result
        self.trial_count = 0
        self._run_plans = run_plans
        self._tried: set[bytes] = {_key(plan)}

    def trials(self) -> Iterator[Trial]:
        """Until nothing can be taken away; after the last one ``smallest`` is the answer."""
        progress = True
        while progress:
            progress = False
            for name in REDUCTIONS:
                for trial in self._reduced(name):
                    yield trial
                    progress = progress or trial.is_same
                    if self.trial_count >= TRIALS_MAX:
                        return

    def _reduced(self, name: str) -> Iterator[Trial]:
        """Trials of one reduction, again after each success."""
        found = True
        while found:
            found = False
            runs = self._run_plans(self._new_ones(name))
            for plan, result in runs:
                self.trial_count += 1
                is_same = self.failure <= failure_of(result)
                if is_same:
                    self.smallest, self.result, found = plan, result, True
                yield Trial(name, plan, result, is_same)
                if is_same or self.trial_count >= TRIALS_MAX:
                    break
            if self.trial_count >= TRIALS_MAX:
                return

    def _new_ones(self, name: str) -> Iterator[Plan]:
        for plan in REDUCTIONS[name](self.smallest):
            if (key := _key(plan)) not in self._tried:
                self._tried.add(key)
                yield plan


def _key(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)
