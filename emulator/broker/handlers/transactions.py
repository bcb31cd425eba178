"""Ending transactions, and checking again one that was given up.

Answers END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE in every release.  Clients send
END_TRANSACTION one-way; if one wants a reply, it gets the one that a real broker gives.  The half
message is found by its position in the log, and must have the producer group and the queue offset
of the request.  Nothing is remembered of ended transactions: who commits twice, or commits after a
rollback, stores the message once more, as at upstream.  Upstream also ends messages that are no
half messages; here too, but that leaves no op, and such a message cannot be stored in a topic of
the broker's own.  A slave ends no transaction.

Upstream: EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.handlers.acknowledging import Acknowledging
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus, stored_again
from rocketmq_emulator.broker.store.put_chain import delay_level, java_long, waits_for_safety
from rocketmq_emulator.broker.store.transaction_checks import real_queue
from rocketmq_emulator.facts import EndTransactionRefused, TransactionEnded
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import TRANSACTION_ROLLBACK
from rocketmq_emulator.protocol.messages.message_ids import position_of
from rocketmq_emulator.protocol.messages.names import (
    TIMER_TOPIC,
    TOPICS_NOT_SENDABLE,
    TRANS_HALF_TOPIC,
)
from rocketmq_emulator.protocol.messages.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    decode_properties,
    properties_text,
)
from rocketmq_emulator.protocol.requests.sending import (
    TRANSACTION_COMMIT,
    TRANSACTION_NOT,
    EndTransactionRequest,
)
from rocketmq_emulator.settings.releases import LAST_PROPERTY_OPEN, LATE_END_REFUSED

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.broker.store.appender import MessageToStore, PutResult
    from rocketmq_emulator.protocol.messages.records import StoredMessage
    from rocketmq_emulator.protocol.requests.admin import ResumeCheckHalfMessageRequest

_NO_CODE = "not set any response code"  # upstream's default remark, also of a success
_NOT_FOUND = "Find prepared transaction message failed"
_WRONG_GROUP = "The producer group wrong"
_WRONG_OFFSET = "The transaction state table offset wrong"
_ILLEGAL = (
    "The message is illegal, maybe msg body or properties length not matched. msg body length "
    "limit {bytes_max}B, msg properties length limit 32KB."
)
_NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
_CANNOT_RESUME = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
_QUEUE_ID = re.compile(r"[0-9]{1,9}")
_OWN_TOPICS = TOPICS_NOT_SENDABLE | {TIMER_TOPIC}
PUT_REFUSALS = {  # EndTransactionProcessor.sendFinalMessage
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "Service not available now.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "Create mapped file failed.",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_ERROR,
        "OS page cache busy, please try another machine",
    ),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, "{reason}"),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: (ResponseCode.SYSTEM_ERROR, "{reason}"),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: (ResponseCode.SYSTEM_ERROR, "{reason}"),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (
        ResponseCode.SYSTEM_ERROR,
        "in-sync replicas not enough",
    ),
}


class EndTransactionProcessor:
    """END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._acknowledging = Acknowledging(broker)
        self._late_end_refused = broker.release >= LATE_END_REFUSED
        self._ends_last = not LAST_PROPERTY_OPEN.holds(broker.release)

    def end(self, call: Call[EndTransactionRequest]) -> Result:
        """Commit or roll back; an unknown outcome changes nothing and has no reply."""
        broker, request = self._broker, call.request
        if broker.config.is_slave:
            self._note_refused(request, {}, ResponseCode.SLAVE_NOT_AVAILABLE, _NO_CODE)
            return Reply(code=ResponseCode.SLAVE_NOT_AVAILABLE, remark=_NO_CODE)
        if request.commit_or_rollback == TRANSACTION_NOT:
            return NO_REPLY
        half = broker.store.message_at(request.commit_log_offset)
        if half is None:
            self._note_refused(request, {}, ResponseCode.SYSTEM_ERROR, _NOT_FOUND)
            return Reply(code=ResponseCode.SYSTEM_ERROR, remark=_NOT_FOUND)
        properties = decode_properties(half.properties)
        try:
            self._check(call, half, properties)
            return self._end(call, half, properties)
        except Refusal as refusal:
            self._note_refused(request, properties, refusal.code, refusal.remark)
            raise
        except BadFields as error:
            self._note_refused(request, properties, ResponseCode.SYSTEM_ERROR, str(error))
            raise

    # Checks, in upstream's order ------------------------------------------------------

    def _check(
        self,
        call: Call[EndTransactionRequest],
        half: StoredMessage,
        properties: dict[str, str],
    ) -> None:
        """Raises ``Refusal`` or ``BadFields`` if the request does not match the half message."""
        request = call.request
        if not request.from_transaction_check:
            self._check_time(half, properties, call.now_ms)
        group = properties.get(PGROUP)
        if group is None:
            raise BadFields("the message at that position has no producer group (PGROUP)")
        if group != request.producer_group:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _WRONG_GROUP)
        if half.queue_offset != request.tran_state_table_offset:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _WRONG_OFFSET)

    def _check_time(self, half: StoredMessage, properties: dict[str, str], now_ms: int) -> None:
        """Raises ``Refusal`` if the message's own immunity has passed: a check may be under way.

        Upstream: EndTransactionProcessor.rejectCommitOrRollback.
        """
        own = properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS)
        if own is None or not self._late_end_refused:
            return
        immune_ms = (java_long(own) or 0) * 1_000
        immune_ms = max(immune_ms, self._broker.config.transaction_immunity_ms)
        if now_ms - half.born_ms > immune_ms:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, _NO_CODE)

    # The outcome ----------------------------------------------------------------------

    def _end(
        self,
        call: Call[EndTransactionRequest],
        half: StoredMessage,
        properties: dict[str, str],
    ) -> Result:
        request, stored_offset = call.request, -1
        result: Result = Reply(remark=_NO_CODE)
        if request.commit_or_rollback == TRANSACTION_COMMIT:
            message = self._committed(half, properties)
            put = self._put(message, call.now_ms)
            if not put.timer_text and delay_level(message.properties) <= 0:
                stored_offset = put.queue_offset
            if self._broker.puts_wait and waits_for_safety(message.properties):
                end = put.position + put.size
                result = self._acknowledging.after(Reply(), end, call.now_ms)
            else:
                result = Reply()
        self._broker.transactions.ended(half, call.now_ms)
        if self._broker.wants(TransactionEnded):
            self._note_ended(request, half, properties, stored_offset)
        return result

    def _committed(self, half: StoredMessage, properties: dict[str, str]) -> MessageToStore:
        """The message for its real queue.

        It keeps the properties of the half message: upstream removes some from its map only,
        after it has encoded them.  Upstream: EndTransactionProcessor.endMessageTransaction.
        """
        topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QID, "")
        number = int(queue_id) if _QUEUE_ID.fullmatch(queue_id) else -1
        if topic is None or not 0 <= number < self._broker.config.topic_queues_max:
            raise BadFields("the message at that position does not say its real queue")
        if topic in _OWN_TOPICS:
            raise BadFields(f"no transaction can store a message in {topic}")
        text = str(half.properties, "utf-8", "replace")
        message = stored_again(half, topic, number, text, never_waits=False)
        message.sys_flag = half.sys_flag & ~TRANSACTION_ROLLBACK | TRANSACTION_COMMIT
        message.prepared_offset = half.position
        return message

    def _put(self, message: MessageToStore, now_ms: int) -> PutResult:
        try:
            return self._broker.puts.put(message, now_ms)
        except PutRefused as refused:
            code, form = PUT_REFUSALS[refused.status]
            bytes_max = self._broker.config.message_bytes_max
            remark = form.format(reason=refused.reason, bytes_max=bytes_max)
            raise Refusal(code, remark) from refused

    def _note_ended(
        self,
        request: EndTransactionRequest,
        half: StoredMessage,
        properties: dict[str, str],
        stored_offset: int,
    ) -> None:
        is_commit = request.commit_or_rollback == TRANSACTION_COMMIT
        self._broker.note(
            TransactionEnded(
                real_queue(properties, self._broker.config.name),
                half.queue_offset,
                "commit" if is_commit else "rollback",
                request.producer_group or "",
                request.from_transaction_check,
                stored_offset,
                properties.get(UNIQ_KEY, ""),
            )
        )

    def _note_refused(
        self, request: EndTransactionRequest, properties: dict[str, str], code: int, remark: str
    ) -> None:
        topic = properties.get(REAL_TOPIC, "")
        group = request.producer_group or ""
        key = properties.get(UNIQ_KEY) or request.msg_id or ""
        self._broker.note(EndTransactionRefused(group, topic, code, remark, key))

    # Checked again --------------------------------------------------------------------

    def resume_check(self, call: Call[ResumeCheckHalfMessageRequest]) -> Result:
        """Store a message in the half topic, as one that was never checked.

        Tools call it for messages that were given up.
        """
        broker = self._broker
        try:
            given_up = broker.store.message_at(position_of(call.request.msg_id or ""))
        except ValueError:
            given_up = None
        if given_up is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _CANNOT_RESUME)
        properties = decode_properties(given_up.properties) | {TRANSACTION_CHECK_TIMES: "0"}
        text = properties_text(properties, trailing=self._ends_last)
        message = stored_again(given_up, TRANS_HALF_TOPIC, 0, text)
        try:
            put = broker.store.put(message, call.now_ms)
        except PutRefused as refused:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _NOT_RESUMED) from refused
        broker.transactions.half_stored(message, put, call.now_ms)
        return Reply()
