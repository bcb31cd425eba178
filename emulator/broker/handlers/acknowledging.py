"""When a stored message may be acknowledged: at once, when it is flushed, when slaves have it.

With SYNC_FLUSH the answer waits for the disk, as SYNC_MASTER for slaves; with both for both, each
with a timeout of its own that counts from the put: the shorter one is waited for first, so that
both are judged in time.  A timeout changes only the code: the message is stored.  A SYNC_MASTER of
4.x waits for any one slave, and not at all if none is connected or the best is too far behind
(SLAVE_NOT_AVAILABLE).  One of 5.x waits for ``in_sync_replicas``, itself included: 1 by default,
so for none; in controller mode, if it is set, for all of the sync-state set.  If a slave may act
as the master, fewer replicas in sync refuse the put, or are waited for
(``auto_in_sync_replicas``).

Upstream: CommitLog.asyncPutMessage, submitFlushRequest, submitReplicaRequest (4.x);
handleDiskFlushAndHA, GroupTransferService (5.x).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.replication.ha_service import ANY_SLAVE
from rocketmq_emulator.net.held_calls import FLUSHED_TO, UpTo
from rocketmq_emulator.net.results import Reply, Result, Wait
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.settings.releases import HA_ACKS_ARE_COUNTED

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.ha_service import HaService
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.settings.config import BrokerConfig


def replicated_to(replicas: int) -> str:
    """The watermark of the position up to which so many *replicas* have the log.

    ``ALL_IN_SYNC`` is a number of its own: all of the sync-state set.
    """
    return f"replicated_to {replicas}"


def slaves_awaited(config: BrokerConfig) -> int:
    """How many slaves have a put when it is acknowledged with SUCCESS.

    With controllers a master is always a SYNC_MASTER; with allAckInSyncStateSet it waits for the
    sync-state set instead, which has any number of slaves.

    Upstream: CommitLog.submitReplicaRequest (4.x), CommitLog.handleHA (5.x).
    """
    if config.enable_controller_mode:
        return 0 if config.all_ack_in_sync_state_set else max(config.in_sync_replicas, 1) - 1
    if config.broker_role != "SYNC_MASTER":
        return 0
    if config.parsed_release < HA_ACKS_ARE_COUNTED:
        return ANY_SLAVE - 1
    return max(config.in_sync_replicas, 1) - 1


class _SafePlace(NamedTuple):
    """Where a put must be before its reply; *code*: of the reply, if it is not there in time."""

    mark: str
    reached: Callable[[], int]  # the position up to which it has the log
    code: int


class Acknowledging:
    """The answers to puts of *broker*; to be called only if its ``puts_wait``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._flushing = flushing = broker.store.flushing
        on_disk = ResponseCode.FLUSH_DISK_TIMEOUT
        self._on_disk = _SafePlace(FLUSHED_TO, lambda: flushing.flushed_to, on_disk)
        self._copies: dict[int, _SafePlace] = {}  # by number of replicas

    def after(self, reply: Reply, end: int, now_ms: int, *, has_codes: bool = False) -> Result:
        """*reply* when the log is safe up to *end*, or after the timeouts.

        *has_codes*: after a timeout it has FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT.
        """
        config, code, places = self._broker.config, ResponseCode.SUCCESS, []
        replicas, is_available = self._replicas()
        if not is_available:
            code = ResponseCode.SLAVE_NOT_AVAILABLE
        elif replicas and (ha := self._broker.ha) is not None:
            ha.wake_at_turn_end()
            places.append((now_ms + config.slave_ack_ms_max, self._copies_of(ha, replicas)))
        if self._flushing.is_sync:
            places.append((now_ms + config.sync_flush_ms_max, self._on_disk))
        places.sort()
        return _PutReply(reply, end, places, code, has_codes=has_codes).result()

    def _copies_of(self, ha: HaService, replicas: int) -> _SafePlace:
        place = self._copies.get(replicas)
        if place is None:
            reached, code = partial(ha.replicated_to, replicas), ResponseCode.FLUSH_SLAVE_TIMEOUT
            place = self._copies[replicas] = _SafePlace(replicated_to(replicas), reached, code)
        return place

    def _replicas(self) -> tuple[int, bool]:
        """How many replicas must have a put (0: the master alone), and whether they may be there.

        Upstream: HAService.isSlaveOK (4.x), CommitLog.handleHA (5.x).
        """
        broker = self._broker
        if not broker.is_sync_master or broker.ha is None:
            return 0, True
        if not broker.ha.is_counting:
            return ANY_SLAVE, broker.ha.is_slave_ok()
        acting = broker.config.slave_acting_master
        replicas = broker.replicas_needed()[0] if acting else broker.ha.replicas_needed
        return 0 if replicas in (0, 1) else replicas, True


class _PutReply:
    """*reply* until each of *places* has the log up to *end*, or its time, in ms, is over.

    *has_codes*: *reply* gets *code*, or the one of a place that is too late; that of replicas
    overrides that of the disk.
    """

    __slots__ = ("_code", "_end", "_has_codes", "_places", "_reply")

    def __init__(
        self,
        reply: Reply,
        end: int,
        places: list[tuple[int, _SafePlace]],
        code: int,
        *,
        has_codes: bool,
    ) -> None:
        self._reply = reply
        self._end = end
        self._places = places
        self._code = code
        self._has_codes = has_codes

    def result(self) -> Result:
        """The reply, or the wait for the first place that lacks the put."""
        places, end = self._places, self._end
        while places:
            until_ms, place = places[0]
            if place.reached() < end:
                return Wait(UpTo(place.mark, end), until_ms, self._resumed)
            del places[0]
        if self._has_codes:
            self._reply.code = self._code
        return self._reply

    def _resumed(self, _now_ms: int, expired: bool) -> Result:
        _, place = self._places.pop(0)
        if expired:
            self._code = max(self._code, place.code)
        return self.result()
