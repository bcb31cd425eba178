"""Popping and acknowledging, which came with 5.0."""

from __future__ import annotations

from protocol.fields import Header, Int, Long


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
