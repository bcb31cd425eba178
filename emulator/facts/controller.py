"""Facts of controllers: ids and liveness of brokers, elections, sync-state sets."""

from __future__ import annotations

from typing import ClassVar

from rocketmq_emulator.facts.fact import Fact, Severity

# Brokers ------------------------------------------------------------------------------


class BrokerIdApplied(Fact, frozen=True):
    """A controller has given a broker its id, or the same id again."""

    cluster: str
    broker: str
    broker_id: int
    address: str  # where the broker listens


class ReplicaAddressChanged(Fact, frozen=True):
    """A broker registered at a controller with another address than before."""

    broker: str
    broker_id: int
    address: str  # where the broker listens now


class ReplicaAlive(Fact, frozen=True):
    """A controller has a heartbeat of a broker that was not alive before."""

    cluster: str
    broker: str
    broker_id: int


class ReplicaGone(Fact, frozen=True):
    """A broker is not alive for a controller: it was silent, or its connection closed."""

    severity: ClassVar[Severity] = "warning"

    cluster: str
    broker: str
    broker_id: int
    reason: str  # "silent", "channel closed"


class BrokerDataCleaned(Fact, frozen=True):
    """A tool removed brokers, or a whole broker name, from the tables of a controller."""

    broker: str
    broker_ids: tuple[int, ...]  # empty: all of them


class ControllerReset(Fact, frozen=True):
    """A controller was reset as if it had just started with an empty store."""


class ControllerLeads(Fact, frozen=True):
    """A controller leads its group: the others have voted for it."""

    controller: str  # its id in the group
    term: int  # 1, 2, 3 …: each has at most one leader


# Masters ------------------------------------------------------------------------------


class MasterElected(Fact, frozen=True):
    """A controller has elected a master; the sync-state set is the new master alone."""

    broker: str
    broker_id: int  # of the master
    master_epoch: int  # 1, 2, 3 …: the masters of this name, those that left no successor too
    sync_state_set_epoch: int


class ElectionFailed(Fact, frozen=True):
    """A master has gone, and no broker may take its place: the name has no master.

    It has one again when a member of the sync-state set is alive and asks for an election.
    """

    severity: ClassVar[Severity] = "error"

    broker: str
    master_epoch: int  # which nobody has
    sync_state_set: tuple[int, ...]  # the ids of those that could have been elected


class SyncStateSetChanged(Fact, frozen=True):
    """A master has reported which brokers have all of its messages."""

    broker: str
    sync_state_set: tuple[int, ...]  # their ids
    sync_state_set_epoch: int  # 1, 2, 3 …: the changes of the set
