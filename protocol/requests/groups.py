"""Groups: heartbeats, membership, connections, subscription groups.

Also the requests of a broker to the members of a group: transaction checks and replies to
producers, notices and queries to consumers.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.protocol.fields import Header, Int, Long


class HeartbeatReply(Header):
    """Ext fields that 5.x adds to the answer; 4.9 sends none of them."""

    supports_v2: bool | None = msgspec.field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    sub_change: bool | None = msgspec.field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientRequest(Header):
    """Upstream: UnregisterClientRequestHeader."""

    client_id: str | None = msgspec.field(default=None, name="clientID")  # never read
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequest(Header):
    """Upstream: GetConsumerListByGroupRequestHeader."""

    consumer_group: str


class GetConsumerConnectionListRequest(Header):
    """Upstream: GetConsumerConnectionListRequestHeader."""

    consumer_group: str


class GetProducerConnectionListRequest(Header):
    """Upstream: GetProducerConnectionListRequestHeader."""

    producer_group: str


class DeleteSubscriptionGroupRequest(Header):
    """The second field has one name in 4.9 and another one in 5.x.

    Upstream: DeleteSubscriptionGroupRequestHeader.
    """

    group_name: str
    remove_offset: bool | None = None  # 4.9
    clean_offset: bool | None = None  # 5.x


class GetSubscriptionGroupConfigRequest(Header):
    """Upstream: GetSubscriptionGroupConfigRequestHeader."""

    group: str


class GetConsumeStatsRequest(Header):
    """Upstream: GetConsumeStatsRequestHeader."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # 5.x, separated by semicolons


class GetConsumeStatsInBrokerRequest(Header):
    """Upstream: GetConsumeStatsInBrokerHeader."""

    is_order: bool


class QueryTopicConsumeByWhoRequest(Header):
    """Upstream: QueryTopicConsumeByWhoRequestHeader."""

    topic: str


class QueryTopicsByConsumerRequest(Header):
    """Upstream: QueryTopicsByConsumerRequestHeader."""

    group: str


class QuerySubscriptionByConsumerRequest(Header):
    """Upstream: QuerySubscriptionByConsumerRequestHeader."""

    group: str
    topic: str


class QueryConsumeTimeSpanRequest(Header):
    """Upstream: QueryConsumeTimeSpanRequestHeader."""

    topic: str
    group: str | None = None


class UpdateGroupForbiddenRequest(Header):
    """Upstream: UpdateGroupForbiddenRequestHeader."""

    group: str
    topic: str
    readable: bool | None = None


class GetAllSubscriptionGroupRequest(Header):
    """Paging of the newest 5.x; absent everywhere else."""

    group_seq: Int | None = None
    data_version: str | None = None
    max_group_num: Int | None = None


# Requests of a broker to its clients --------------------------------------------------


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
