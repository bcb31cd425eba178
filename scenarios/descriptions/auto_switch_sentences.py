"""Sentences of facts about replication in controller mode: epochs, cut logs, who is in sync.

``replication_sentences`` joins this table with its own.  The subject is the node that recorded the
fact, so a sentence begins with a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_emulator.facts import (
    EpochBegun,
    EpochFileUnreadable,
    EpochNotKept,
    EpochsCompared,
    EpochsDoNotFit,
    Fact,
    LogNotAligned,
    LogTruncated,
    NoConsistentPoint,
    SlaveCaughtUp,
    SlaveFellBehind,
    SlaveHandshaken,
    SlaveWithoutEpoch,
    SyncStateSetCheckEnded,
)


def numbers(found: tuple[int, ...]) -> str:
    """Ids or epochs, as in "1, 2, 3"; long lists are shortened in the middle."""
    shown = found if len(found) <= 8 else (*found[:3], None, *found[-3:])
    return ", ".join("…" if each is None else str(each) for each in shown) or "none"


def _handshaken(fact: SlaveHandshaken, *_: object) -> str:
    kind = "asynchronous learner" if fact.is_async_learner else "slave"
    since = ", which begins with the last file" if fact.from_last_file else ""
    return (
        f"sent its epochs ({numbers(fact.epochs)}) to the {kind} {fact.slave_id} at "
        f"{fact.address}{since}"
    )


def _truncated(fact: LogTruncated, *_: object) -> str:
    lost = f" and lost {fact.message_count:,} messages" if fact.message_count else ""
    return f"cut its log from byte {fact.before:,} back to {fact.position:,}{lost}: {fact.reason}"


AUTO_SWITCH_SENTENCES: Mapping[type[Fact], Callable[..., str]] = {
    EpochBegun: lambda fact, *_: (
        f"counts its log from byte {fact.position:,} on as epoch {fact.epoch}"
    ),
    EpochNotKept: lambda fact, *_: (
        f"did not keep epoch {fact.epoch} from byte {fact.position:,} on: "
        + ("nothing was stored since" if fact.epoch > fact.last_epoch else "its log has")
        + f" epoch {fact.last_epoch}, which began at {fact.last_position:,}"
    ),
    EpochFileUnreadable: lambda fact, *_: (
        f"cannot read the epochs of its log in {fact.file}: {fact.reason}"
    ),
    # A master
    SlaveHandshaken: _handshaken,
    EpochsDoNotFit: lambda fact, *_: (
        f"closed the connection of the slave {fact.address}: a handshake holds "
        f"{fact.count_max:,} epochs, and this log has {fact.count:,}"
    ),
    SlaveWithoutEpoch: lambda fact, *_: (
        f"cannot continue the slave {fact.address} from byte {fact.position:,}, which is in none "
        f"of its epochs ({numbers(fact.epochs)})"
    ),
    SlaveCaughtUp: lambda fact, *_: (
        f"asks to count the slave {fact.slave_id}, which has all of its log up to byte "
        f"{fact.position:,}, as in sync: {numbers(fact.sync_state_set)}"
    ),
    SlaveFellBehind: lambda fact, *_: (
        f"asks not to count the slave {fact.slave_id} as in sync: {fact.reason}; left are "
        f"{numbers(fact.sync_state_set)}"
    ),
    SyncStateSetCheckEnded: lambda fact, *_: (
        f"no longer checks whether one of the slaves in sync ({numbers(fact.sync_state_set)}) is "
        "slow"
    ),
    # A slave
    EpochsCompared: lambda fact, *_: (
        f"has the log of its master {fact.address} up to byte {fact.position:,} of "
        f"{fact.master_end:,}: its epochs are {numbers(fact.epochs)}, its master's "
        f"{numbers(fact.master_epochs)}"
    ),
    LogTruncated: _truncated,
    NoConsistentPoint: lambda fact, *_: (
        f"copies nothing from its master {fact.address}: none of its epochs "
        f"({numbers(fact.epochs)}) is one of its master's ({numbers(fact.master_epochs)})"
    ),
    LogNotAligned: lambda fact, *_: (
        f"copies nothing from its master {fact.address}: it would have to cut its log at byte "
        f"{fact.position:,}, where no message begins"
    ),
}
