"""What goes on while a master is away, with and without a slave that acts as the master.

One row for each kind of work, one column for each mode.  docs/replication.md is written from it;
the checkers that judge a row are named beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

AwayMode: TypeAlias = Literal["slave 4.x", "slave 5.x", "acting", "acting with escape"]
AWAY_MODES: Mapping[AwayMode, str] = {
    "slave 4.x": "slave, up to 4.9",
    "slave 5.x": "slave, since 5.0",
    "acting": "acting master without `enableRemoteEscape`",
    "acting with escape": "acting master with it, and another master",
}


class WhileAway(NamedTuple):
    """*work*, and its fate in each mode; *judged_by*: checkers; *source*: upstream, 5.3.3."""

    work: str
    fates: Mapping[AwayMode, str]
    judged_by: tuple[str, ...]
    source: str


REFUSED = "refused: producers send to other brokers"
AS_ROUTES = (
    "at the slave, with `slaveReadEnable` there and `supportActingMaster` at the NameServer"
)
WAITS = "waits for the master"

WHILE_AWAY: tuple[WhileAway, ...] = (
    WhileAway(
        "sends",
        dict.fromkeys(AWAY_MODES, REFUSED),
        ("one_master",),
        "`SendMessageProcessor.rejectRequest`, `HookUtils.checkBeforePutMessage`",
    ),
    WhileAway(
        "pulls",
        {
            "slave 4.x": "at the slave",
            "slave 5.x": "at the slave, with `slaveReadEnable`",
            "acting": AS_ROUTES,
            "acting with escape": AS_ROUTES,
        },
        ("master_absences",),
        "`PullMessageProcessor.rejectRequest`, `RouteInfoManager.pickupTopicRouteData`",
    ),
    WhileAway(
        "delayed messages",
        {
            "slave 4.x": WAITS,
            "slave 5.x": WAITS,
            "acting": "tried again until the master is back: late",
            "acting with escape": "stored at another broker when due",
        },
        ("escapes", "delays", "lost"),
        "`ScheduleMessageService.PutResultProcess`, `EscapeBridge.asyncPutMessage`",
    ),
    WhileAway(
        "timer messages",
        {
            "slave 4.x": "–",
            "slave 5.x": WAITS,
            "acting": "dropped after 3 tries",
            "acting with escape": "stored at another broker name when due; dropped after 3 tries",
        },
        ("escapes", "delays", "lost"),
        "`TimerMessageStore.doPut`, `TimerDequeuePutMessageService.run`",
    ),
    WhileAway(
        "open transactions",
        {
            "slave 4.x": WAITS,
            "slave 5.x": WAITS,
            "acting": "skipped after 11 tries: nobody asks for the outcome",
            "acting with escape": "sent to another broker name as half messages, which it checks",
        },
        ("escapes", "transactions", "transaction_checks"),
        "`TransactionalMessageServiceImpl.check`, `TransactionalMessageBridge.escapeMessage`",
    ),
    WhileAway(
        "ends of transactions",
        dict.fromkeys(AWAY_MODES, "refused: a check asks for them later"),
        ("transactions",),
        "`EndTransactionProcessor.processRequest`: SLAVE_NOT_AVAILABLE at a slave",
    ),
    WhileAway(
        "locks of orderly consumers",
        {
            "slave 4.x": "none: consumers lock at masters",
            "slave 5.x": "none: consumers lock at masters",
            "acting": "granted by the slave, which knows none of its master's",
            "acting with escape": "granted by the slave, which knows none of its master's",
        },
        ("locks",),
        "`AdminBrokerProcessor.lockBatchMQ`, `RebalanceLockManager`: in memory, without "
        "`lockInStrictMode`",
    ),
    WhileAway(
        "committed offsets",
        {
            "slave 4.x": "of the last copy, up to 10 s old; the master's replace them",
            "slave 5.x": "of the last copy, up to 60 s old; the master's replace them",
            "acting": "of the last copy; the returning master takes them if their version is not "
            "older",
            "acting with escape": "of the last copy; the returning master takes them if their "
            "version is not older",
        },
        ("copied_offsets", "commits"),
        "`SlaveSynchronize.syncConsumerOffset`, `BrokerPreOnlineService.syncMetadataReverse`",
    ),
)
assert all(row.fates.keys() == AWAY_MODES.keys() for row in WHILE_AWAY), "each mode has its fate"
