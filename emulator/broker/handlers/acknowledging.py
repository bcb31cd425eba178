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

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.replication.ha_service import ANY_SLAVE
from rocketmq_emulator.net.held_calls import FLUSHED_TO, UpTo
from rocketmq_emulator.net.results import Reply, Result, Wait
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.settings.releases import HA_ACKS_ARE_COUNTED

if TYPE_CHECKING:
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


class _Safety(NamedTuple):
    """A place that must have a put, until when it may, and the code if it has not by then."""

    until_ms: int
    mark: str
    has: Callable[[int], bool]  # whether it has the log up to a position
    code: int


class Acknowledging:
    """The answers to puts of *broker*; to be called only if its ``puts_wait``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._flushing = broker.store.flushing

    def after(self, reply: Reply, end: int, now_ms: int, *, has_codes: bool = False) -> Result:
        """*reply* when the log is safe up to *end*, or after the timeouts.

        *has_codes*: after a timeout it has FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT.
        """
        config, safeties, missed = self._broker.config, [], [ResponseCode.SUCCESS]
        replicas, is_available = self._replicas()
        if not is_available:
            missed.append(ResponseCode.SLAVE_NOT_AVAILABLE)
        elif replicas and (ha := self._broker.ha) is not None:
            ha.wake_at_turn_end()
            until_ms, mark = now_ms + config.slave_ack_ms_max, replicated_to(replicas)

            def has_copies(end: int) -> bool:
                return end <= ha.replicated_to(replicas)

            safeties.append(_Safety(until_ms, mark, has_copies, ResponseCode.FLUSH_SLAVE_TIMEOUT))
        if self._flushing.is_sync:
            until_ms = now_ms + config.sync_flush_ms_max
            code = ResponseCode.FLUSH_DISK_TIMEOUT
            safeties.append(_Safety(until_ms, FLUSHED_TO, self._is_flushed, code))
        safeties.sort(key=lambda safety: safety.until_ms)

        def answered(missed: Sequence[int]) -> Reply:
            if has_codes:
                reply.code = max(missed)  # that of replicas overrides that of the disk
            return reply

        return _when_all(safeties, end, missed, answered)

    def _is_flushed(self, end: int) -> bool:
        return end <= self._flushing.flushed_to

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


def _when_all(
    safeties: Sequence[_Safety],
    end: int,
    missed: Sequence[int],
    answered: Callable[[Sequence[int]], Result],
) -> Result:
    """``answered(missed)`` when each of *safeties* has the log up to *end*, or is too late.

    *missed* gets the codes of those that are too late.
    """
    if not safeties:
        return answered(missed)
    first, rest = safeties[0], safeties[1:]
    if first.has(end):
        return _when_all(rest, end, missed, answered)

    def resumed(_now_ms: int, expired: bool) -> Result:
        return _when_all(rest, end, [*missed, first.code] if expired else missed, answered)

    return Wait(UpTo(first.mark, end), first.until_ms, resumed)
