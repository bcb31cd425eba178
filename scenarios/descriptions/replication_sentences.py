"""Sentences of facts about masters, slaves and the controller that elects masters.

``server_sentences`` joins this table with its own.  The subject is the node that recorded the
fact, so a sentence begins with a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_emulator.facts import (
    BrokerDataCleaned,
    BrokerIdApplied,
    BrokerRoleChanged,
    ControllerLeads,
    ControllerReset,
    CopiedLogUnreadable,
    ElectionFailed,
    Fact,
    LogCopied,
    MasterConnected,
    MasterDisconnected,
    MasterElected,
    MetadataSynced,
    MetadataSyncFailed,
    ReplicaAddressChanged,
    ReplicaAlive,
    ReplicaGone,
    RoleNotGranted,
    SlaveAcknowledged,
    SlaveCannotContinue,
    SlaveConnected,
    SlaveDisconnected,
    SyncStateSetChanged,
)
from rocketmq_emulator.scenarios.descriptions.auto_switch_sentences import AUTO_SWITCH_SENTENCES


def _ids(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _cleaned(fact: BrokerDataCleaned, *_: object) -> str:
    which = f"the ids {_ids(fact.broker_ids)}" if fact.broker_ids else "all ids"
    return f"forgot {which} of {fact.broker}, as asked"


REPLICATION_SENTENCES: Mapping[type[Fact], Callable[..., str]] = {
    # A master
    SlaveConnected: lambda fact, *_: (
        f"sends its log from byte {fact.position:,} to the slave {fact.address}, which reported "
        f"{fact.reported:,}"
    ),
    SlaveDisconnected: lambda fact, *_: (
        f"lost the slave {fact.address}, which had its log up to byte {fact.acknowledged:,}: "
        f"{fact.reason}"
    ),
    SlaveCannotContinue: lambda fact, *_: (
        f"cannot continue the slave {fact.address} from byte {fact.position:,}: its log has bytes "
        f"{fact.min_position:,} to {fact.end_position:,}"
    ),
    SlaveAcknowledged: lambda fact, *_: (
        f"heard from the slave {fact.address} that it has its log up to byte {fact.position:,}"
    ),
    # A slave
    MasterConnected: lambda fact, *_: (
        f"connected to its master at {fact.address}; its own log ends at byte "
        f"{fact.end_position:,}"
    ),
    MasterDisconnected: lambda fact, *_: (
        f"is no longer connected to its master at {fact.address}: {fact.reason}"
    ),
    LogCopied: lambda fact, *_: (
        f"copied its master's log up to byte {fact.position:,}: {fact.message_count:,} messages, "
        f"{fact.copied_bytes:,} bytes"
    ),
    CopiedLogUnreadable: lambda fact, *_: (
        f"cannot read what it copied from byte {fact.position:,} on: {fact.reason}"
    ),
    MetadataSynced: lambda fact, *_: f"copied the {fact.table} of its master {fact.address}",
    MetadataSyncFailed: lambda fact, *_: (
        f"could not copy the {fact.table} of its master {fact.address}: {fact.reason}"
    ),
    # A broker with a controller
    BrokerRoleChanged: lambda fact, *_: (
        f"is the master with the controller id {fact.broker_id}, in epoch {fact.master_epoch}"
        if fact.role == "master"
        else f"is the slave {fact.broker_id} of {fact.address}, in epoch {fact.master_epoch}"
    ),
    RoleNotGranted: lambda fact, *_: (
        f"has no role from a controller yet, so it takes no messages: {fact.reason}"
    ),
    **AUTO_SWITCH_SENTENCES,
    # A controller
    BrokerIdApplied: lambda fact, *_: (
        f"gave the id {fact.broker_id} of {fact.broker} to the broker at {fact.address}"
    ),
    ReplicaAddressChanged: lambda fact, *_: (
        f"knows broker {fact.broker_id} of {fact.broker} at {fact.address} now"
    ),
    ReplicaAlive: lambda fact, *_: f"hears broker {fact.broker_id} of {fact.broker}",
    ReplicaGone: lambda fact, *_: (
        f"no longer hears broker {fact.broker_id} of {fact.broker}: {fact.reason}"
    ),
    MasterElected: lambda fact, *_: (
        f"elected broker {fact.broker_id} the master of {fact.broker}, in epoch "
        f"{fact.master_epoch}"
    ),
    ElectionFailed: lambda fact, *_: (
        f"could not elect a master of {fact.broker}, in epoch {fact.master_epoch}: of the brokers "
        f"{_ids(fact.sync_state_set)} none is alive"
    ),
    SyncStateSetChanged: lambda fact, *_: (
        f"set the in-sync brokers of {fact.broker} to {_ids(fact.sync_state_set)}"
    ),
    BrokerDataCleaned: _cleaned,
    ControllerLeads: lambda fact, *_: (
        f"leads the group of controllers as {fact.controller}, in term {fact.term}"
    ),
    ControllerReset: lambda *_: "was reset: it forgot all brokers",
}
