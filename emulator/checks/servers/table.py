"""Every checker that judges clients by what servers note."""

from __future__ import annotations

from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.pulls import OnePullAtATime
from emulator.checks.monitors.table import MONITORS
from emulator.checks.servers.committing import (
    CommitsFollowPulls,
    GivenBackBeforeCommitted,
    OnlyOwnersCommit,
)
from emulator.checks.servers.locking import LockedPulls, LocksAreRenewed
from emulator.checks.servers.pulling import EmptyPullsWait, OnePullAMember, PullsGoOn
from emulator.checks.servers.sharing import ClientIdsDiffer, OneMemberAQueue, PassesCome

FOREIGN: dict[str, type[Monitor]] = {
    **{
        name: kind
        for name, kind in MONITORS.items()
        if kind.servers_suffice and kind is not OnePullAtATime  # of the only member: see below
    },
    **{
        kind.name: kind
        for kind in (
            ClientIdsDiffer,
            PassesCome,
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
