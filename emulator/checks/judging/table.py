"""Every checker, measure and metric by name; expectations of scenarios name these metrics.

A checker has a rule and reports violations; a measure only counts.
"""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.checks.rules.absent_masters import (
    MasterAbsences,
    OffsetsAreCopied,
    OneMaster,
)
from rocketmq_emulator.checks.rules.acting_masters import EscapesArrive
from rocketmq_emulator.checks.rules.commits import CommitsFollowDelivery
from rocketmq_emulator.checks.rules.delays_and_retries import DelaysAreKept, Retries
from rocketmq_emulator.checks.rules.delivery import NothingIsLost
from rocketmq_emulator.checks.rules.duplicates import DuplicatesAreExplained
from rocketmq_emulator.checks.rules.elections import OneMasterAnEpoch, SilentSlavesLeave
from rocketmq_emulator.checks.rules.failover import (
    BrokerShares,
    ProducerFailover,
    SharesAreFairAgain,
)
from rocketmq_emulator.checks.rules.given_messages import (
    FiltersAreKept,
    OffsetsAreUnique,
    OrderIsKept,
)
from rocketmq_emulator.checks.rules.idleness import Idleness, NoLoad
from rocketmq_emulator.checks.rules.interruptions import Interruptions
from rocketmq_emulator.checks.rules.liveness import LivenessReturns
from rocketmq_emulator.checks.rules.locks import LocksAreSafe
from rocketmq_emulator.checks.rules.ownership import OneOwner
from rocketmq_emulator.checks.rules.pull_wakeups import HeldPullsWake
from rocketmq_emulator.checks.rules.rebalances import Churn, RebalanceGaps
from rocketmq_emulator.checks.rules.replication import (
    CopiesArePromised,
    LostWithMasters,
)
from rocketmq_emulator.checks.rules.requests import Requests
from rocketmq_emulator.checks.rules.slave_logs import SlaveLogsAgree
from rocketmq_emulator.checks.rules.timing import DeliveryTimes, Sends
from rocketmq_emulator.checks.rules.transaction_checks import HalfMessagesAreChecked
from rocketmq_emulator.checks.rules.transactions import TransactionsAreSettled
from rocketmq_emulator.checks.state.checker import Checker, Metric

KINDS: tuple[type[Checker], ...] = (
    NothingIsLost,
    DuplicatesAreExplained,
    OffsetsAreUnique,
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
    Interruptions,
    Requests,
    ProducerFailover,
    SharesAreFairAgain,
    BrokerShares,
    HeldPullsWake,
    TransactionsAreSettled,
    HalfMessagesAreChecked,
    CopiesArePromised,
    LostWithMasters,
    SlaveLogsAgree,
    OffsetsAreCopied,
    OneMaster,
    OneMasterAnEpoch,
    SilentSlavesLeave,
    MasterAbsences,
    EscapesArrive,
    *MONITORS.values(),
)
ALL: dict[str, type[Checker]] = {kind.name: kind for kind in KINDS}
CHECKERS = {name: kind for name, kind in ALL.items() if not kind.is_measure}
MEASURES = {name: kind for name, kind in ALL.items() if kind.is_measure}
METRICS: dict[str, Metric] = {
    metric.name: metric for kind in ALL.values() for metric in kind.metrics
}
# Excused messages by cause; ``excused`` is the sum of some of these.
EXCUSES: dict[str, Metric] = {
    name: metric
    for name, metric in METRICS.items()
    if name.startswith(("excused_", "duplicates_"))
    or name in ("filtered", "forgotten_locks", "hidden", "late_unlocks")
    or name in ("lost_with_power", "unrouted")
}
