"""Requests of a broker to its clients."""

from __future__ import annotations

from protocol.fields import Header, Int, Long


class CheckTransactionStateRequest(Header):
    """Upstream: CheckTransactionStateRequestHeader."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None  # 5.x: the half topic
    bname: str | None = None


class NotifyConsumerIdsChangedRequest(Header):
    """Upstream: NotifyConsumerIdsChangedRequestHeader."""

    consumer_group: str


class GetConsumerStatusRequest(Header):
    """Upstream: GetConsumerStatusRequestHeader (221 and 223)."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfoRequest(Header):
    """Upstream: GetConsumerRunningInfoRequestHeader."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(Header):
    """Upstream: ConsumeMessageDirectlyResultRequestHeader."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None  # the rest: 5.x
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


class ReplyMessageRequest(Header):
    """A reply message, pushed to its requester.  Upstream: ReplyMessageRequestHeader (326)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    born_host: str  # "ip:port", as the next one
    store_host: str
    store_timestamp: Long
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool = False
