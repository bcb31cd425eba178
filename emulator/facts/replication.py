"""Facts of replication: a slave's connection to its master, and how far its log has come."""

from __future__ import annotations

from typing import ClassVar

from rocketmq_emulator.facts.fact import Fact, Severity

# Tables that a slave copies from its master, and a returning master from its slave; others have
# no rule yet.
TOPICS_TABLE = "topics"
CONSUMER_OFFSETS_TABLE = "consumer offsets"
DELAY_OFFSETS_TABLE = "delay offsets"
TIMER_CHECKPOINT_TABLE = "timer checkpoint"

# Reasons of MasterDisconnected.
NO_COMMON_EPOCH = "its log and its master's cannot be made equal"

# At a master --------------------------------------------------------------------------


class SlaveConnected(Fact, frozen=True):
    """A slave has said where its log ends, and is sent the bytes from there on."""

    address: str  # of the slave
    reported: int  # the end of its log, in bytes; 0: its log is empty
    position: int  # from which it is sent the log


class SlaveDisconnected(Fact, frozen=True):
    """The connection of a slave ended: nothing is replicated to it until it comes back."""

    severity: ClassVar[Severity] = "warning"

    address: str  # of the slave
    reason: str
    acknowledged: int  # the last position that it reported; -1: none


class SlaveCannotContinue(Fact, frozen=True):
    """A slave asks for bytes that this master does not have: it gets heartbeats only.

    As upstream, the connection stays open; only an empty slave can be filled again.
    """

    severity: ClassVar[Severity] = "error"

    address: str  # of the slave
    position: int  # that it asks for
    min_position: int  # of this master's log
    end_position: int  # of this master's log


class SlaveAcknowledged(Fact, frozen=True):
    """A slave has reported that its log ends at a later position than before."""

    severity: ClassVar[Severity] = "debug"

    address: str  # of the slave
    position: int  # the end of its log


# At a slave ---------------------------------------------------------------------------


class MasterConnected(Fact, frozen=True):
    """A slave has connected to the HA port of its master."""

    address: str  # of the master's HA port
    end_position: int  # of this slave's log


class MasterDisconnected(Fact, frozen=True):
    """The connection to the master ended; the slave connects again."""

    severity: ClassVar[Severity] = "warning"

    address: str  # of the master's HA port
    reason: str


class MetadataSynced(Fact, frozen=True):
    """A slave has replaced one of its tables by its master's."""

    address: str  # of the master
    table: str  # as in "topics", "consumer offsets", "groups"


class MetadataSyncFailed(Fact, frozen=True):
    """A slave could not copy a table of its master: the first of consecutive failures.

    The slave tries again in each round.
    """

    severity: ClassVar[Severity] = "warning"

    address: str  # of the master
    table: str  # as in "topics", "consumer offsets", "groups"
    reason: str


class LogCopied(Fact, frozen=True):
    """Bytes of the master's log were appended to this slave's."""

    severity: ClassVar[Severity] = "debug"

    position: int  # in the commit log, in bytes: the end of the copy
    copied_bytes: int  # how many
    message_count: int  # that are whole now: consumers can read them here


class CopiedLogUnreadable(Fact, frozen=True):
    """The bytes of the master at this position are no message: no later one can be read here."""

    severity: ClassVar[Severity] = "error"

    position: int  # of the first of these bytes in the commit log
    reason: str


# Roles by a controller ----------------------------------------------------------------


class BrokerRoleChanged(Fact, frozen=True):
    """A broker has taken the role that its controller gives it, or the same role again."""

    role: str  # "master", "slave"
    broker_id: int  # at the controller: 1, 2, 3 …
    address: str  # of the master
    master_epoch: int  # 1, 2, 3 …: the masters of this broker name


class RoleNotGranted(Fact, frozen=True):
    """A broker has no role yet, so it takes no messages; it tries again every 5 s.

    Noted when the reason changes.
    """

    severity: ClassVar[Severity] = "warning"

    address: str  # of the controller that leads; empty if none is known
    reason: str
