"""Every checker and every measure by name; metrics: what an expectation can be about.

A checker has a rule, and objects; a measure only counts.
"""

from __future__ import annotations

from emulator.checks.broker_shares import BrokerShares
from emulator.checks.checker import Checker, Metric
from emulator.checks.churn import Churn
from emulator.checks.commits import CommitsFollowDelivery
from emulator.checks.delays import DelaysAreKept
from emulator.checks.delivery import NothingIsLost
from emulator.checks.duplicates import DuplicatesAreExplained
from emulator.checks.failover import ProducerFailover
from emulator.checks.fairness import SharesAreFairAgain
from emulator.checks.filters import FiltersAreKept
from emulator.checks.idleness import Idleness
from emulator.checks.liveness import LivenessReturns
from emulator.checks.locks import LocksAreSafe
from emulator.checks.monitors.table import MONITORS
from emulator.checks.no_load import NoLoad
from emulator.checks.order import OrderIsKept
from emulator.checks.ownership import OneOwner
from emulator.checks.passes import RebalanceGaps
from emulator.checks.places import PlacesAreKept
from emulator.checks.retries import Retries
from emulator.checks.sends import Sends
from emulator.checks.timing import DeliveryTimes
from emulator.checks.wakes import HeldPullsWake

KINDS: tuple[type[Checker], ...] = (
    NothingIsLost,
    DuplicatesAreExplained,
    PlacesAreKept,
    DelaysAreKept,
    FiltersAreKept,
    OrderIsKept,
    CommitsFollowDelivery,
    OneOwner,
    LocksAreSafe,
    Churn,
    RebalanceGaps,
    Idleness,
    NoLoad,
    DeliveryTimes,
    Retries,
    LivenessReturns,
    Sends,
    ProducerFailover,
    SharesAreFairAgain,
    BrokerShares,
    HeldPullsWake,
    *MONITORS.values(),
)
ALL: dict[str, type[Checker]] = {kind.name: kind for kind in KINDS}
CHECKERS = {name: kind for name, kind in ALL.items() if not kind.is_measure}
MEASURES = {name: kind for name, kind in ALL.items() if kind.is_measure}
METRICS: dict[str, Metric] = {
    metric.name: metric for kind in ALL.values() for metric in kind.metrics
}
# What was let off, by cause; ``excused`` is the sum of some of these.
EXCUSES: dict[str, Metric] = {
    name: metric
    for name, metric in METRICS.items()
    if name.startswith(("excused_", "duplicates_"))
    or name in ("filtered", "forgotten_locks", "hidden", "late_unlocks")
    or name in ("lost_with_power", "unrouted")
}
