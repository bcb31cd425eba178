"""Every monitor, in the order of the invariants."""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.convergence import (
    EndedMembersAreUnlisted,
    MembersAreListed,
    RoutesAreCurrent,
)
from rocketmq_emulator.checks.monitors.held_queues import (
    OneListenerAQueue,
    QueuesArePulled,
    QueuesAreUnlocked,
)
from rocketmq_emulator.checks.monitors.instances import (
    HeartbeatsCome,
    MembersUnregister,
    RoutesOutliveNameServers,
)
from rocketmq_emulator.checks.monitors.isolations import (
    FailuresIsolate,
    IsolatedBrokersAreAvoided,
    IsolationsAreTabled,
)
from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.monitors.passes import (
    BroadcastersShareNothing,
    NoticesTriggerRebalance,
    PassTimes,
    RoutesAreShared,
    SharesAddUp,
)
from rocketmq_emulator.checks.monitors.pulls import (
    ExpiredPulls,
    FirstPullsWait,
    HeldPulls,
    IllegalOffsetsDelayPulls,
    OnePullAtATime,
    PullErrorsWait,
)
from rocketmq_emulator.checks.monitors.queue_transfers import (
    ReleasesFollowPasses,
    SharesAreStable,
    SubscriptionsAreLatest,
)
from rocketmq_emulator.checks.monitors.redelivery import RepeatsWait, RetryLevels
from rocketmq_emulator.checks.monitors.registering import (
    EndedBrokersLeaveRoutes,
    ExpiriesWait,
    RegistrationsCome,
)
from rocketmq_emulator.checks.monitors.sending import (
    AsyncRetriesStay,
    AttemptsAreBounded,
    HealthyAttemptsSucceed,
    RetriesChangeBroker,
    SendsEnd,
    SendsFollowRoutes,
    SendsKeepTheirTimeout,
)

MONITORS: dict[str, type[Monitor]] = {
    kind.name: kind
    for kind in (
        HeartbeatsCome,
        MembersAreListed,
        MembersUnregister,
        EndedMembersAreUnlisted,
        RoutesOutliveNameServers,
        RoutesAreCurrent,
        RoutesAreShared,
        RegistrationsCome,
        ExpiriesWait,
        EndedBrokersLeaveRoutes,
        SendsFollowRoutes,
        AttemptsAreBounded,
        HealthyAttemptsSucceed,
        AsyncRetriesStay,
        RetriesChangeBroker,
        SendsKeepTheirTimeout,
        SendsEnd,
        IsolationsAreTabled,
        FailuresIsolate,
        IsolatedBrokersAreAvoided,
        PassTimes,
        SharesAddUp,
        SharesAreStable,
        BroadcastersShareNothing,
        NoticesTriggerRebalance,
        ReleasesFollowPasses,
        SubscriptionsAreLatest,
        QueuesArePulled,
        QueuesAreUnlocked,
        OneListenerAQueue,
        FirstPullsWait,
        OnePullAtATime,
        PullErrorsWait,
        HeldPulls,
        ExpiredPulls,
        IllegalOffsetsDelayPulls,
        RetryLevels,
        RepeatsWait,
    )
}
