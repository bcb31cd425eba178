"""Every checker that judges clients by facts of servers."""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.monitors.pulls import OnePullAtATime
from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.checks.servers.committing import (
    CommitsFollowPulls,
    GivenBackBeforeCommitted,
    OnlyOwnersCommit,
)
from rocketmq_emulator.checks.servers.locking import LockedPulls, LocksAreRenewed
from rocketmq_emulator.checks.servers.pulling import EmptyPullsWait, OnePullAMember, PullsGoOn
from rocketmq_emulator.checks.servers.sharing import (
    ClientIdsDiffer,
    OneMemberAQueue,
    PassesAreRegular,
)

SDK_MONITORS: dict[str, type[Monitor]] = {
    **{
        name: kind
        for name, kind in MONITORS.items()
        if kind.servers_suffice and kind is not OnePullAtATime  # for one-member groups
    },
    **{
        kind.name: kind
        for kind in (
            ClientIdsDiffer,
            PassesAreRegular,
            OneMemberAQueue,
            OnePullAMember,
            EmptyPullsWait,
            CommitsFollowPulls,
            GivenBackBeforeCommitted,
            OnlyOwnersCommit,
            LockedPulls,
            LocksAreRenewed,
            PullsGoOn,
        )
    },
}
