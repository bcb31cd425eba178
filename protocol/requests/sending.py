"""Sending, sending back, ending transactions, recalling.

The send header has long names or single letters on the wire; both types have the same
attributes, so that one handler serves both (``SendRequest``).  Fields that upstream requires,
but reads only when it creates a topic, may be absent.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from rocketmq_emulator.protocol.fields import Header, Int, Long


class SendMessageRequest(Header, kw_only=True):
    """Upstream: SendMessageRequestHeader (codes 10 and 324)."""

    producer_group: str | None = None
    topic: str | None = None
    default_topic: str | None = None
    default_topic_queue_nums: Int | None = None
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    batch: bool = False
    bname: str | None = None


class SendMessageRequestV2(Header, kw_only=True):
    """With letters as keys.  Upstream: SendMessageRequestHeaderV2 (310, 320, 325)."""

    strict_numbers: ClassVar[bool] = True

    producer_group: str | None = msgspec.field(default=None, name="a")
    topic: str | None = msgspec.field(default=None, name="b")
    default_topic: str | None = msgspec.field(default=None, name="c")
    default_topic_queue_nums: Int | None = msgspec.field(default=None, name="d")
    queue_id: Int = msgspec.field(name="e")
    sys_flag: Int = msgspec.field(name="f")
    born_timestamp: Long = msgspec.field(name="g")
    flag: Int = msgspec.field(name="h")
    properties: str | None = msgspec.field(default=None, name="i")
    reconsume_times: Int | None = msgspec.field(default=None, name="j")
    unit_mode: bool = msgspec.field(default=False, name="k")
    max_reconsume_times: Int | None = msgspec.field(default=None, name="l")
    batch: bool = msgspec.field(default=False, name="m")
    bname: str | None = msgspec.field(default=None, name="n")


SendRequest: TypeAlias = SendMessageRequest | SendMessageRequestV2


class SendMessageReply(Header):
    """Upstream: SendMessageResponseHeader."""

    strict_numbers: ClassVar[bool] = True

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None  # 5.x, inner batches
    recall_handle: str | None = None  # 5.x, timed messages
    region_id: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")


class ConsumerSendMsgBackRequest(Header):
    """Upstream: ConsumerSendMsgBackRequestHeader."""

    offset: Long  # of the original in the commit log
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    bname: str | None = None


TRANSACTION_NOT, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK = 0, 8, 12


class EndTransactionRequest(Header):
    """Upstream: EndTransactionRequestHeader; a broker does not insist on group and message id."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: Int
    producer_group: str | None = None
    msg_id: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None  # 5.x
    bname: str | None = None

    def __post_init__(self) -> None:
        outcomes = (TRANSACTION_NOT, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
        if self.commit_or_rollback not in outcomes:
            raise ValueError("commitOrRollback field wrong")


class RecallMessageRequest(Header):
    """Upstream: RecallMessageRequestHeader."""

    topic: str
    recall_handle: str | None = None
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageReply(Header):
    """Upstream: RecallMessageResponseHeader."""

    msg_id: str
