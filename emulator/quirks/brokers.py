"""Bugs of a broker: a pull that is not woken, a heartbeat that waits for every NameServer.

And of its transactions: checks that nobody gets, ends that a kill loses or that are ignored, a
rollback that delivers, a commit to a wrong queue.  Of its filters: a woken pull without one.  And
of replication: an acknowledgement before the copy, a slave without its master's offsets, an acting
master that drops what it has to send away.
"""

from __future__ import annotations

from collections.abc import Hashable

from rocketmq_emulator.broker.failover.escape_bridge import EscapeBridge
from rocketmq_emulator.broker.handlers.clients import ClientManageProcessor
from rocketmq_emulator.broker.handlers.pulling import PullMessageProcessor
from rocketmq_emulator.broker.handlers.transactions import EndTransactionProcessor
from rocketmq_emulator.broker.replication.ha_service import HaService
from rocketmq_emulator.broker.replication.slave_synchronize import SlaveSynchronize, SyncStep
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.state.outlets import Announce
from rocketmq_emulator.broker.store.appender import MessageToStore
from rocketmq_emulator.broker.store.transactions import TransactionalMessageService
from rocketmq_emulator.facts import MetadataSynced
from rocketmq_emulator.net.results import (
    NO_REPLY,
    Call,
    CallLater,
    Peer,
    Push,
    Result,
    Ring,
    Wait,
)
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.flags import TRANSACTION_ROLLBACK
from rocketmq_emulator.protocol.messages.names import retry_topic
from rocketmq_emulator.protocol.messages.records import StoredMessage
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import EndTransactionRequest

LOST_EVERY = 3


class LosesBells(Broker):
    """``lose_bells``: every third message does not wake the pulls that wait for it."""

    def connect(self, ring: Ring, push: Push, announce: Announce, later: CallLater) -> None:
        super().connect(ring, push, announce, later)
        count = 0

        def ring_most(bell: Hashable, news: object) -> None:
            nonlocal count
            count += 1
            if count % LOST_EVERY:
                ring(bell, news)

        self.store.ring = ring_most


class WaitsForNameServers(ClientManageProcessor):
    """``wait_for_name_servers``: a new group is registered once every NameServer knows its topic.

    The client is then a member until it expires, even if its connection has closed.
    """

    def heartbeat(self, call: Call[Header]) -> Result:
        """Waits if it creates the retry topic; later heartbeats find the topic and do not wait."""
        topics = self._broker.topics
        for group in decode_body(call.body, HeartbeatData).consumer_data_set:
            name = retry_topic(group.group_name or "")
            if topics.get(name) is None and (bell := self._make(group, name, call)) is not None:
                until_ms = call.now_ms + self._broker.register_call_ms_max
                return Wait(bell, until_ms, lambda now_ms, _expired: self._then(call, now_ms))
        return super().heartbeat(call)

    def _make(self, group: ConsumerData, topic: str, call: Call[Header]) -> Hashable | None:
        broker = self._broker
        config = broker.groups.find(group.group_name or "", call.now_ms, by="heartbeat")
        if config is None:
            return None
        broker.ensure_topic(topic, config.retry_queue_nums, call.now_ms, by="heartbeat")
        return broker.registering(topic)

    def _then(self, call: Call[Header], now_ms: int) -> Result:
        call.now_ms = now_ms
        return self.heartbeat(call)

    def _counts(self, _peer: Peer) -> bool:
        return True


class AsksNobody(Broker):
    """``ask_nobody``: a check is counted as sent to a producer, and not sent."""

    def connect(self, ring: Ring, push: Push, announce: Announce, later: CallLater) -> None:
        super().connect(ring, push, announce, later)

        def name_one(group: str, _header: Header, _body: bytes) -> str:
            known = self.clients.producers(group)
            return known[0].client_id or "" if known else ""

        self.transactions.ask = name_one


LATE_MS = 25_000


class LosesEnds(TransactionalMessageService):
    """``lose_ends``: the records of ends are collected for 25 s, in every release."""

    def ended(self, half: StoredMessage, now_ms: int) -> None:
        """As upstream since 5.1.0, but for the time."""
        self._is_batching = True
        super().ended(half, now_ms)

    def _ops_due_ms(self) -> int | None:
        due_ms = super()._ops_due_ms()
        return None if due_ms is None else due_ms + LATE_MS


class DeliversRollbacks(EndTransactionProcessor):
    """``deliver_rollbacks``: the message is stored in its queue also when it is rolled back."""

    def _end(
        self,
        call: Call[EndTransactionRequest],
        half: StoredMessage,
        properties: dict[str, str],
    ) -> Result:
        if call.request.commit_or_rollback == TRANSACTION_ROLLBACK:
            self._put(self._committed(half, properties), call.now_ms)
        return super()._end(call, half, properties)


class CommitsToFirstQueue(EndTransactionProcessor):
    """``commit_to_first_queue``: a committed message is stored in queue 0 of its topic."""

    def _committed(self, half: StoredMessage, properties: dict[str, str]) -> MessageToStore:
        message = super()._committed(half, properties)
        message.queue_id = 0
        return message


class IgnoresEnds(EndTransactionProcessor):
    """``ignore_ends``: every third end is ignored, unless it answers a check."""

    _told = 0

    def end(self, call: Call[EndTransactionRequest]) -> Result:
        """Counts also ends that are unknown."""
        self._told += not call.request.from_transaction_check
        is_lost = not call.request.from_transaction_check and self._told % LOST_EVERY == 0
        return NO_REPLY if is_lost else super().end(call)


class FiltersNoWokenPulls(PullMessageProcessor):
    """``filter_no_woken_pulls``: a held pull is answered without the filter of its group.

    Clients compare tags themselves, and do not know SQL92.
    """

    def _second_pass(self, call: Call[PullMessageRequest]) -> Result:
        self._allowed(call)
        found = self._taken_reset(call.request) or self._get(call, None)
        return self._answer(call, found, self._code(found, call.request))


class AcknowledgesUncopied(HaService):
    """``acknowledge_uncopied``: a put waits for no slave."""

    def replicated_to(self, replicas: int) -> int:
        del replicas
        return self.log.end_position


class CopiesNoOffsets(SlaveSynchronize):
    """``copy_no_offsets``: the answer with the master's consumer offsets is dropped."""

    def take(self, step: SyncStep, reply: RemotingCommand, now_ms: int) -> None:
        if step.table == "consumer offsets":
            self._note(MetadataSynced(self.master_address or "", step.table))
        else:
            super().take(step, reply, now_ms)


class LosesEscaped(EscapeBridge):
    """``lose_escaped``: every third message is not sent, and counts as sent."""

    _sent = 0

    async def _wait_sent(self, address: str, message: MessageToStore, queue_id: int) -> str:
        self._sent += 1
        if self._sent % LOST_EVERY:
            return await super()._wait_sent(address, message, queue_id)
        return ""
