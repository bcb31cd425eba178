"""When a stored message may be acknowledged: at once, when it is flushed, when slaves have it.

With SYNC_FLUSH the answer waits for the disk, as SYNC_MASTER for slaves; with both for both, each
with a timeout of its own that counts from the put.  A timeout changes only the code: the message
is stored.  A SYNC_MASTER of 4.x waits for any one slave, and not at all if none is connected or
the best is too far behind (SLAVE_NOT_AVAILABLE).  One of 5.x waits for ``in_sync_replicas``,
itself included: 1 by default, so for none.

Upstream: CommitLog.asyncPutMessage, submitFlushRequest, submitReplicaRequest (4.x);
handleDiskFlushAndHA, GroupTransferService (5.x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.net.held_calls import FLUSHED_TO, UpTo
from rocketmq_emulator.net.results import Reply, Result, Wait
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.properties import WAIT, property_of

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker

ANY_SLAVE = 2  # replicas: the master, and one slave


def replicated_to(replicas: int) -> str:
    """The watermark of the position up to which so many *replicas* have the log."""
    return f"replicated_to {replicas}"


def waits_for_safety(properties: str) -> bool:
    """Whether the WAIT property is not ``false``.  Upstream: Message.isWaitStoreMsgOK."""
    waits = property_of(properties, WAIT)
    return waits is None or waits.lower() == "true"


class Acknowledging:
    """The answers to puts of *broker*; to be called only if its ``puts_wait``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._flushing = broker.store.flushing

    def after(self, reply: Reply, end: int, now_ms: int, *, has_codes: bool = False) -> Result:
        """*reply* when the log is safe up to *end*, or after the timeouts.

        *has_codes*: it then has the code of what was not reached; else it stays a success.
        """
        replicas, is_available = self._replicas()
        if not is_available:
            replicas = 0
        elif replicas and self._broker.ha is not None:
            self._broker.ha.wake_at_turn_end()

        def flushed(_now_ms: int, expired: bool) -> Result:
            if has_codes and expired:
                reply.code = ResponseCode.FLUSH_DISK_TIMEOUT
            if has_codes and not is_available:
                reply.code = ResponseCode.SLAVE_NOT_AVAILABLE
            return self._when_copied(reply, end, now_ms, replicas, has_codes=has_codes)

        if not self._flushing.is_sync or end <= self._flushing.flushed_to:
            return flushed(now_ms, False)
        until_ms = now_ms + self._broker.config.sync_flush_ms_max
        return Wait(UpTo(FLUSHED_TO, end), until_ms, flushed)

    def _replicas(self) -> tuple[int, bool]:
        """How many replicas must have a put (0: the master alone), and whether they may be there.

        Upstream: HAService.isSlaveOK (4.x), CommitLog.handleHA (5.x).
        """
        broker = self._broker
        if not broker.is_sync_master or broker.ha is None:
            return 0, True
        if not broker.ha.is_counting:
            return ANY_SLAVE, broker.ha.is_slave_ok()
        replicas = broker.config.in_sync_replicas
        return replicas if replicas > 1 else 0, True

    def _when_copied(
        self, reply: Reply, end: int, put_ms: int, replicas: int, *, has_codes: bool
    ) -> Result:
        ha = self._broker.ha
        if not replicas or ha is None or end <= ha.replicated_to(replicas):
            return reply

        def copied(_now_ms: int, expired: bool) -> Result:
            if has_codes and expired:
                reply.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
            return reply

        until_ms = put_ms + self._broker.config.slave_ack_ms_max
        return Wait(UpTo(replicated_to(replicas), end), until_ms, copied)
