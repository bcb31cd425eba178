"""Every monitor, in the order of the invariants."""

from __future__ import annotations

from emulator.checks.monitors.attempts import (
    AsyncRetriesStay,
    AttemptsAreBounded,
    HealthyAttemptsSucceed,
    SendsFollowRoutes,
)
from emulator.checks.monitors.changing_hands import (
    ReleasesFollowPasses,
    SharesRest,
    SubscriptionsAreLatest,
)
from emulator.checks.monitors.instances import (
    HeartbeatsCome,
    MembersUnregister,
    RoutesOutliveNameServers,
)
from emulator.checks.monitors.isolations import (
    FailuresIsolate,
    IsolatedBrokersRest,
    IsolationsAreTabled,
)
from emulator.checks.monitors.keeping import (
    OneListenerAQueue,
    QueuesArePulled,
    QueuesAreUnlocked,
)
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.notices import NoticesWake
from emulator.checks.monitors.passes import BroadcastersShareNothing, PassTimes, SharesAddUp
from emulator.checks.monitors.pulls import (
    ExpiredPulls,
    HeldPulls,
    OnePullAtATime,
    PullErrorsWait,
)
from emulator.checks.monitors.redelivery import RepeatsWait, RetryLevels
from emulator.checks.monitors.registering import (
    DeadBrokersLeave,
    ExpiriesWait,
    RegistrationsCome,
)
from emulator.checks.monitors.rests import FirstPullsWait, IllegalOffsetsRest
from emulator.checks.monitors.sending import (
    RetriesChangeBroker,
    SendsEnd,
    SendsKeepTheirTimeout,
)
from emulator.checks.monitors.shared_routes import RoutesAreShared
from emulator.checks.monitors.standing import (
    LeaversAreForgotten,
    MembersAreListed,
    RoutesAreCurrent,
)

MONITORS: dict[str, type[Monitor]] = {
    kind.name: kind
    for kind in (
        HeartbeatsCome,
        MembersAreListed,
        MembersUnregister,
        LeaversAreForgotten,
        RoutesOutliveNameServers,
        RoutesAreCurrent,
        RoutesAreShared,
        RegistrationsCome,
        ExpiriesWait,
        DeadBrokersLeave,
        SendsFollowRoutes,
        AttemptsAreBounded,
        HealthyAttemptsSucceed,
        AsyncRetriesStay,
        RetriesChangeBroker,
        SendsKeepTheirTimeout,
        SendsEnd,
        IsolationsAreTabled,
        FailuresIsolate,
        IsolatedBrokersRest,
        PassTimes,
        SharesAddUp,
        SharesRest,
        BroadcastersShareNothing,
        NoticesWake,
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
        IllegalOffsetsRest,
        RetryLevels,
        RepeatsWait,
    )
}
