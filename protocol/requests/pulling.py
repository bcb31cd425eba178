"""Fetching messages: pulling, popping, and looking them up by id, key or commit-log offset.

Popping and acknowledging came with 5.0.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from rocketmq_emulator.protocol.fields import Header, Int, Long


class PullMessageRequest(Header):
    """Upstream: PullMessageRequestHeader (codes 11 and 361).

    Upstream requires the offset, the wait and the version, too, but reads each of them only
    if its bit of ``sys_flag`` is set.
    """

    strict_numbers: ClassVar[bool] = True

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long | None = None
    suspend_timeout_millis: Long | None = None
    sub_version: Long | None = None
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int | None = None  # 5.x
    request_source: Int | None = None  # 5.x
    proxy_froward_client_id: str | None = None  # 5.x; upstream's spelling
    bname: str | None = None


class PullMessageReply(Header):
    """Upstream: PullMessageResponseHeader."""

    strict_numbers: ClassVar[bool] = True

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None  # the rest: 5.x
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


class QueryMessageRequest(Header):
    """Upstream: QueryMessageRequestHeader."""

    topic: str
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_query: bool = msgspec.field(default=False, name="_UNIQUE_KEY_QUERY")


class QueryMessageReply(Header):
    """Upstream: QueryMessageResponseHeader."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


class ViewMessageRequest(Header):
    """Upstream: ViewMessageRequestHeader."""

    offset: Long
    topic: str | None = None  # 5.x


# Popping and acknowledging (5.0) ------------------------------------------------------


class PopMessageRequest(Header):
    """Upstream: PopMessageRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int  # -1 for any
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: Int  # 0: from the first message, 1: from the last
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageReply(Header):
    """Upstream: PopMessageResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequest(Header):
    """Upstream: AckMessageRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long


class ChangeInvisibleTimeRequest(Header):
    """Upstream: ChangeInvisibleTimeRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    invisible_time: Long


class ChangeInvisibleTimeReply(Header):
    """Upstream: ChangeInvisibleTimeResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


class NotificationRequest(Header):
    """Upstream: NotificationRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    poll_time: Long
    born_time: Long
    order: bool = False
    attempt_id: str | None = None


class NotificationReply(Header):
    """Upstream: NotificationResponseHeader."""

    has_msg: bool
    polling_full: bool = False


class PollingInfoRequest(Header):
    """Upstream: PollingInfoRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int


class PollingInfoReply(Header):
    """Upstream: PollingInfoResponseHeader."""

    polling_num: Int


class PeekMessageRequest(Header):
    """Upstream: PeekMessageRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    max_msg_nums: Int
