"""Pulling, and looking messages up by id, key or commit-log offset."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from protocol.fields import Header, Int, Long


class PullMessageRequest(Header):
    """Upstream: PullMessageRequestHeader (codes 11 and 361).

    Upstream requires the offset, the wait and the version, too, but reads each of them only
    where ``sys_flag`` says so.
    """

    exact: ClassVar[bool] = True

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

    exact: ClassVar[bool] = True

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
