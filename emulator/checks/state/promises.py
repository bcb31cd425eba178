"""What an acknowledged message may count on: the places that have it, and what each outlives.

A send is answered when the message is *written* to its master: the kernel has it.  By the flush
type it is also *flushed*, and by the role *copied*: so many slaves have reported the end of its
record, which their kernels have; no release waits for a slave's flush.  A status other than
SEND_OK says which of these is missing.  That of slaves replaces that of the disk, so after it
nothing is known about the flush.

Checkers of losses read these tables, and docs/replication.md is written from them.

Upstream: CommitLog.submitFlushRequest, submitReplicaRequest (4.x); handleDiskFlushAndHA (5.x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from rocketmq_emulator.facts import StoreOpened

Place: TypeAlias = Literal["written", "flushed", "copied"]
Death: TypeAlias = Literal["kill", "power_off", "gone"]
Status: TypeAlias = Literal[
    "SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"
]

# Of the places that the answer may promise besides "written", those that each status promises.
PROMISED_BY: Mapping[str, frozenset[Place]] = {
    "SEND_OK": frozenset({"flushed", "copied"}),
    "FLUSH_DISK_TIMEOUT": frozenset({"copied"}),
    "FLUSH_SLAVE_TIMEOUT": frozenset(),
    "SLAVE_NOT_AVAILABLE": frozenset(),
}
OUTLIVED_BY: Mapping[Death, frozenset[Place]] = {  # the death of the master
    "kill": frozenset({"written", "flushed", "copied"}),
    "power_off": frozenset({"flushed", "copied"}),
    "gone": frozenset({"copied"}),  # its machine or its disk does not come back
}
_STAYS: Mapping[Death, Callable[[StoreOpened], bool]] = {
    "kill": lambda store: store.outlives_process,
    "power_off": lambda store: store.flush_disk_type == "SYNC_FLUSH",
    "gone": lambda _: False,
}


def copies_promised(store: StoreOpened | None, status: str) -> int:
    """How many slaves have a message whose send ended with *status*, at least.

    Which slaves ``promises_sync_state_set`` adds is known at the time of the answer only.
    """
    if store is None or "copied" not in PROMISED_BY.get(status, frozenset()):
        return 0
    return store.slaves_awaited


def promises_sync_state_set(store: StoreOpened | None, status: str) -> bool:
    """Whether each slave of the sync-state set has a message whose send ended with *status*."""
    is_asked = store is not None and store.awaits_sync_state_set
    return is_asked and "copied" in PROMISED_BY.get(status, frozenset())


def stays_in_log(store: StoreOpened | None, death: Death, status: str = "SEND_OK") -> bool:
    """Whether a message with *status* is in its master's log again after that *death*."""
    if store is None or not _STAYS[death](store):
        return False
    return death != "power_off" or "flushed" in PROMISED_BY.get(status, frozenset())


# For the page ---------------------------------------------------------------------------


class Mode(NamedTuple):
    """A role of masters in some releases.

    *copies*: how many slaves have a message with SEND_OK; *statuses*: those that a send may get
    with SYNC_FLUSH, with ASYNC_FLUSH without FLUSH_DISK_TIMEOUT; *source*: upstream.
    """

    name: str
    copies: str
    statuses: tuple[Status, ...]
    source: str


MODES: tuple[Mode, ...] = (
    Mode(
        "`ASYNC_MASTER`",
        "0",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT"),
        "4.9.7 `CommitLog.submitReplicaRequest`, 5.3.3 `CommitLog.needHandleHA`",
    ),
    Mode(
        "`SYNC_MASTER`, 4.x",
        "1",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"),
        "4.9.7 `CommitLog.submitReplicaRequest`, `HAService.isSlaveOK`, "
        "`HAService.GroupTransferService.doWaitTransfer`",
    ),
    Mode(
        "`SYNC_MASTER`, 5.x, `inSyncReplicas` 1 (default)",
        "0",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT"),
        "5.3.3 `CommitLog.handleHA`: needAckNums <= 1",
    ),
    Mode(
        "`SYNC_MASTER`, 5.x, `inSyncReplicas` n",
        "n − 1",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT"),
        "5.3.3 `CommitLog.handleHA`, `GroupTransferService.doWaitTransfer`",
    ),
    Mode(
        "controllers, `inSyncReplicas` 1 (default)",
        "0",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT"),
        "5.3.3 `ReplicasManager.changeToMaster`: SYNC_MASTER, `CommitLog.handleHA`",
    ),
    Mode(
        "controllers, `inSyncReplicas` n",
        "n − 1",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT"),
        "5.3.3 `CommitLog.asyncPutMessage`, `GroupTransferService.doWaitTransfer`",
    ),
    Mode(
        "controllers, `allAckInSyncStateSet`",
        "all slaves of the sync-state set",
        ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT"),
        "5.3.3 `CommitLog.asyncPutMessage`: ALL_ACK_IN_SYNC_STATE_SET, "
        "`GroupTransferService.doWaitTransfer`: syncStateSet.size() <= 1",
    ),
)
