"""Every checker by name, and every metric: what an expectation of a scenario can be about."""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric
from emulator.checks.delivery import NothingIsLost
from emulator.checks.sends import Sends

CHECKERS: dict[str, type[Checker]] = {
    kind.name: kind
    for kind in (
        NothingIsLost,
        Sends,
    )
}
METRICS: dict[str, Metric] = {
    metric.name: metric for kind in CHECKERS.values() for metric in kind.metrics
}
