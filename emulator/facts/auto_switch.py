"""Facts of replication in controller mode: epochs, handshakes, truncated logs, sync-state set."""

from __future__ import annotations

from typing import ClassVar

from rocketmq_emulator.facts.fact import Fact, Severity

# Epochs -------------------------------------------------------------------------------


class EpochBegun(Fact, frozen=True):
    """From this position on, another master writes the log."""

    epoch: int
    position: int  # in the commit log, in bytes


class EpochNotKept(Fact, frozen=True):
    """An epoch was not added to the file: nothing was stored since the last one began.

    Or the controller's epoch is older than the last one of this log: the controller forgot, or
    somebody else made that one up.  As upstream; the log then has no trace of that election.
    """

    severity: ClassVar[Severity] = "warning"

    epoch: int
    position: int  # where it begins
    last_epoch: int  # in the file
    last_position: int  # where that one begins


class EpochFileUnreadable(Fact, frozen=True):
    """A file of epochs is damaged; without one, this log counts as that of a new slave."""

    severity: ClassVar[Severity] = "error"

    file: str  # its name in the store's folder
    reason: str


# At a master --------------------------------------------------------------------------


class SlaveHandshaken(Fact, frozen=True):
    """A slave has introduced itself, and was sent the epochs of this master's log."""

    address: str  # of the slave
    slave_id: int  # from the controller
    epochs: tuple[int, ...]  # of this master's log
    is_async_learner: bool  # it never joins the sync-state set
    from_last_file: bool  # an empty slave begins with this master's last file


class EpochsDoNotFit(Fact, frozen=True):
    """A master has more epochs than a handshake holds: it closes every slave's connection."""

    severity: ClassVar[Severity] = "error"

    address: str  # of the slave
    count: int  # of this master's epochs
    count_max: int  # that a handshake holds


class SlaveWithoutEpoch(Fact, frozen=True):
    """A slave asks for bytes that belong to no epoch of this master: it gets heartbeats only."""

    severity: ClassVar[Severity] = "error"

    address: str  # of the slave
    position: int  # that it asks for
    epochs: tuple[int, ...]  # of this master's log


class SlaveCaughtUp(Fact, frozen=True):
    """A slave has all of this master's log: the controller is asked to count it as in sync."""

    slave_id: int
    position: int  # the end of its log
    sync_state_set: tuple[int, ...]  # that is asked for


class SlaveFellBehind(Fact, frozen=True):
    """A slave is to leave the sync-state set: the controller is asked."""

    severity: ClassVar[Severity] = "warning"

    slave_id: int
    reason: str
    sync_state_set: tuple[int, ...]  # that is asked for


class SyncStateSetCheckEnded(Fact, frozen=True):
    """The check for slow slaves failed, and is not made again before the next change of roles.

    As upstream in the first releases with this mode: a slow slave stays until it disconnects.
    """

    severity: ClassVar[Severity] = "warning"

    sync_state_set: tuple[int, ...]


# At a slave ---------------------------------------------------------------------------


class EpochsCompared(Fact, frozen=True):
    """A slave knows up to where its log equals its master's, and copies the rest."""

    address: str  # of the master's HA port
    position: int  # the end of this slave's log now
    master_end: int  # of the master's log
    epochs: tuple[int, ...]  # of this slave's log
    master_epochs: tuple[int, ...]  # those of its log


class LogTruncated(Fact, frozen=True):
    """The end of this broker's log was cut: its messages are gone here."""

    severity: ClassVar[Severity] = "warning"

    position: int  # where the log ends now
    before: int  # where it ended
    message_count: int  # that consumers could read here, and no longer can
    reason: str


class NoConsistentPoint(Fact, frozen=True):
    """No epoch of this slave is one of its master's, so it copies nothing; it tries for ever."""

    severity: ClassVar[Severity] = "error"

    address: str  # of the master's HA port
    epochs: tuple[int, ...]  # of this slave's log
    master_epochs: tuple[int, ...]  # those of its log


class LogNotAligned(Fact, frozen=True):
    """No message begins where this slave would have to cut its log, so it copies nothing.

    As upstream: it tries for ever.  Only an empty store helps.
    """

    severity: ClassVar[Severity] = "error"

    address: str  # of the master's HA port
    position: int  # where the log should be cut
    end_position: int  # of this slave's log
