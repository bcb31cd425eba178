"""Every checker by name, and every metric: what an expectation of a scenario can be about."""

from __future__ import annotations

from emulator.checks.broker_shares import BrokerShares
from emulator.checks.checker import Checker, Metric
from emulator.checks.churn import Churn
from emulator.checks.commits import CommitsFollowDelivery
from emulator.checks.delivery import NothingIsLost
from emulator.checks.duplicates import DuplicatesAreExplained
from emulator.checks.failover import ProducerFailover
from emulator.checks.fairness import SharesAreFairAgain
from emulator.checks.idleness import Idleness
from emulator.checks.liveness import LivenessReturns
from emulator.checks.locks import LocksAreSafe
from emulator.checks.monitors.table import MONITORS
from emulator.checks.no_load import NoLoad
from emulator.checks.order import OrderIsKept
from emulator.checks.ownership import OneOwner
from emulator.checks.passes import RebalanceGaps
from emulator.checks.retries import Retries
from emulator.checks.sends import Sends
from emulator.checks.timing import DeliveryTimes
from emulator.checks.wakes import HeldPullsWake

KINDS: tuple[type[Checker], ...] = (
    NothingIsLost,
    DuplicatesAreExplained,
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
CHECKERS: dict[str, type[Checker]] = {kind.name: kind for kind in KINDS}
METRICS: dict[str, Metric] = {
    metric.name: metric for kind in CHECKERS.values() for metric in kind.metrics
}
