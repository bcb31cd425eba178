"""A consumer's answers to 307 (running info) and 309 (consume directly), and assignments."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import R_5_0_0

CMResult: TypeAlias = Literal[
    "CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"
]


class ProcessQueueInfo(Body, frozen=True):
    """Upstream: ProcessQueueInfo."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False  # upstream's spelling
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class PopProcessQueueInfo(Body, frozen=True):
    """Upstream: PopProcessQueueInfo."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


class ConsumeStatus(Body, frozen=True):
    """Upstream: ConsumeStatus."""

    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(Body, frozen=True):
    """Upstream: ConsumerRunningInfo."""

    since = {"mq_pop_table": R_5_0_0, "user_consumer_info": R_5_0_0}

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = {}
    status_table: dict[str, ConsumeStatus] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class ConsumeMessageDirectlyResult(Body, frozen=True):
    """Upstream: ConsumeMessageDirectlyResult."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0


class QueryAssignmentRequestBody(Body, frozen=True):
    """Upstream: QueryAssignmentRequestBody."""

    topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: str | None = None


class MessageQueueAssignment(Body, frozen=True):
    """Upstream: MessageQueueAssignment."""

    message_queue: MessageQueue | None = None
    mode: str = "PULL"
    attachments: dict[str, Any] | None = None


class QueryAssignmentReply(Body, frozen=True):
    """None: the client keeps its queues.  Upstream: QueryAssignmentResponseBody."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeBody(Body, frozen=True):
    """Upstream: SetMessageRequestModeRequestBody."""

    topic: str | None = None
    consumer_group: str | None = None
    mode: str = "PULL"
    pop_share_queue_num: int = 0


class MessageRequestModeTable(Body, frozen=True):
    """By topic and group; also the broker's file.  Upstream: MessageRequestModeManager."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeBody]] = {}


class BatchAck(Body, frozen=True):
    """Upstream: BatchAck; its names on the wire are letters."""

    consumer_group: str | None = msgspec.field(default=None, name="c")
    topic: str | None = msgspec.field(default=None, name="t")
    retry: str | None = msgspec.field(default=None, name="r")
    start_offset: int = msgspec.field(default=0, name="so")
    queue_id: int = msgspec.field(default=0, name="q")
    revive_queue_id: int = msgspec.field(default=0, name="rq")
    pop_time: int = msgspec.field(default=0, name="pt")
    invisible_time: int = msgspec.field(default=0, name="it")
    bit_set: bytes | None = msgspec.field(default=None, name="b")


class BatchAckMessageRequestBody(Body, frozen=True):
    """Upstream: BatchAckMessageRequestBody."""

    broker_name: str | None = None
    acks: list[BatchAck] = []
