"""Every monitor, in the order of the invariants."""

from __future__ import annotations

from emulator.checks.monitors.attempts import (
    AsyncRetriesStay,
    AttemptsAreBounded,
    IsolationsAreTabled,
    SendsFollowRoutes,
)
from emulator.checks.monitors.instances import (
    HeartbeatsCome,
    MembersUnregister,
    RoutesOutliveNameServers,
)
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.passes import BroadcastersShareNothing, PassTimes, SharesAddUp
from emulator.checks.monitors.pulls import (
    ExpiredPulls,
    FirstPullsWait,
    HeldPulls,
    IllegalOffsetsRest,
    OnePullAtATime,
    PullErrorsWait,
)
from emulator.checks.monitors.redelivery import RepeatsWait, RetryLevels

MONITORS: dict[str, type[Monitor]] = {
    kind.name: kind
    for kind in (
        HeartbeatsCome,
        MembersUnregister,
        RoutesOutliveNameServers,
        SendsFollowRoutes,
        AttemptsAreBounded,
        AsyncRetriesStay,
        IsolationsAreTabled,
        PassTimes,
        SharesAddUp,
        BroadcastersShareNothing,
        FirstPullsWait,
        OnePullAtATime,
        PullErrorsWait,
        HeldPulls,
        ExpiredPulls,
        IllegalOffsetsRest,
        RetryLevels,
        RepeatsWait,
    )
}
