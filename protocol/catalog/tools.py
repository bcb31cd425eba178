"""Requests of mqadmin, the dashboard and slaves to a broker; and calls of this emulator only.

The emulator's own codes are 9000 to 9999, which no RocketMQ knows.  They are answered in every
release, by a server that was started with ``reply_rules_allowed``; others refuse them with
NO_PERMISSION.  GET_BROKER_OVERVIEW is answered by every broker: other calls return the same
data.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.extensions import (
    AdvanceTime,
    AdvanceTimeReply,
    AdvertisedAddress,
    BrokerOverview,
    BusyPool,
    BusyPoolState,
    ClockSkew,
    FetchFacts,
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
)
from rocketmq_emulator.protocol.bodies.groups import (
    GroupForbidden,
    GroupList,
    ProducerConnection,
    ProducerTableInfo,
    QuerySubscriptionReply,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    TimerMetricsSerializeWrapper,
)
from rocketmq_emulator.protocol.bodies.routes import KVTable, TopicList
from rocketmq_emulator.protocol.bodies.running import (
    MessageRequestModeTable,
    SetMessageRequestModeBody,
)
from rocketmq_emulator.protocol.bodies.stats import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    HARuntimeInfo,
    QueryConsumeQueueReply,
    QueryConsumeTimeSpanBody,
    TopicStatsTable,
)
from rocketmq_emulator.protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfigAndMapping,
    TopicConfigAndMappingSerializeWrapper,
)
from rocketmq_emulator.protocol.requests import admin, groups, offsets
from rocketmq_emulator.protocol.requests.groups import GetConsumerStatusRequest
from rocketmq_emulator.protocol.rpc import any_server, broker
from rocketmq_emulator.protocol.versions import GROUP_LISTS_KNOWN, R_5_0_0, TOPIC_LISTS_KNOWN

# Topics -------------------------------------------------------------------------------

UPDATE_AND_CREATE_TOPIC = broker("UPDATE_AND_CREATE_TOPIC", admin.CreateTopicRequest)
UPDATE_AND_CREATE_TOPIC_LIST = broker(
    "UPDATE_AND_CREATE_TOPIC_LIST",
    request_body=CreateTopicListRequestBody,
    since=TOPIC_LISTS_KNOWN,
)
DELETE_TOPIC_IN_BROKER = broker("DELETE_TOPIC_IN_BROKER", admin.DeleteTopicRequest)
GET_ALL_TOPIC_CONFIG = broker(
    "GET_ALL_TOPIC_CONFIG",
    admin.GetAllTopicConfigRequest,
    reply_body=TopicConfigAndMappingSerializeWrapper,
)
GET_TOPIC_CONFIG = broker(
    "GET_TOPIC_CONFIG",
    admin.GetTopicConfigRequest,
    reply_body=TopicConfigAndMapping,
    since=R_5_0_0,
)
GET_TOPIC_STATS_INFO = broker(
    "GET_TOPIC_STATS_INFO", admin.GetTopicStatsInfoRequest, reply_body=TopicStatsTable
)
GET_SYSTEM_TOPIC_LIST_FROM_BROKER = broker(
    "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", reply_body=TopicList
)

# Groups -------------------------------------------------------------------------------

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = broker(
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", request_body=SubscriptionGroupConfig
)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = broker(
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
    request_body=SubscriptionGroupList,
    since=GROUP_LISTS_KNOWN,
)
DELETE_SUBSCRIPTIONGROUP = broker(
    "DELETE_SUBSCRIPTIONGROUP", groups.DeleteSubscriptionGroupRequest
)
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = broker(
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
    groups.GetAllSubscriptionGroupRequest,
    reply_body=SubscriptionGroupWrapper,
)
GET_SUBSCRIPTIONGROUP_CONFIG = broker(
    "GET_SUBSCRIPTIONGROUP_CONFIG",
    groups.GetSubscriptionGroupConfigRequest,
    reply_body=SubscriptionGroupConfig,
    since=R_5_0_0,
)
UPDATE_AND_GET_GROUP_FORBIDDEN = broker(
    "UPDATE_AND_GET_GROUP_FORBIDDEN",
    groups.UpdateGroupForbiddenRequest,
    reply_body=GroupForbidden,
    since=R_5_0_0,
)
GET_PRODUCER_CONNECTION_LIST = broker(
    "GET_PRODUCER_CONNECTION_LIST",
    groups.GetProducerConnectionListRequest,
    reply_body=ProducerConnection,
)
GET_ALL_PRODUCER_INFO = broker("GET_ALL_PRODUCER_INFO", reply_body=ProducerTableInfo)
QUERY_TOPIC_CONSUME_BY_WHO = broker(
    "QUERY_TOPIC_CONSUME_BY_WHO", groups.QueryTopicConsumeByWhoRequest, reply_body=GroupList
)
QUERY_TOPICS_BY_CONSUMER = broker(
    "QUERY_TOPICS_BY_CONSUMER",
    groups.QueryTopicsByConsumerRequest,
    reply_body=TopicList,
    since=R_5_0_0,
)
QUERY_SUBSCRIPTION_BY_CONSUMER = broker(
    "QUERY_SUBSCRIPTION_BY_CONSUMER",
    groups.QuerySubscriptionByConsumerRequest,
    reply_body=QuerySubscriptionReply,
    since=R_5_0_0,
)
SET_MESSAGE_REQUEST_MODE = broker(
    "SET_MESSAGE_REQUEST_MODE", request_body=SetMessageRequestModeBody, since=R_5_0_0
)
GET_ALL_MESSAGE_REQUEST_MODE = broker(
    "GET_ALL_MESSAGE_REQUEST_MODE", reply_body=MessageRequestModeTable, since=R_5_0_0
)

# Offsets ------------------------------------------------------------------------------

INVOKE_BROKER_TO_RESET_OFFSET = broker(
    "INVOKE_BROKER_TO_RESET_OFFSET", offsets.ResetOffsetRequest, reply_body=ResetOffsetBody
)
INVOKE_BROKER_TO_GET_CONSUMER_STATUS = broker(
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
    GetConsumerStatusRequest,
    reply_body=GetConsumerStatusBody,
)
CLONE_GROUP_OFFSET = broker("CLONE_GROUP_OFFSET", offsets.CloneGroupOffsetRequest)
QUERY_CORRECTION_OFFSET = broker(
    "QUERY_CORRECTION_OFFSET",
    offsets.QueryCorrectionOffsetRequest,
    reply_body=QueryCorrectionOffsetBody,
)
GET_ALL_CONSUMER_OFFSET = broker(
    "GET_ALL_CONSUMER_OFFSET", reply_body=ConsumerOffsetSerializeWrapper
)
GET_ALL_DELAY_OFFSET = broker("GET_ALL_DELAY_OFFSET", reply_body=DelayOffsetSerializeWrapper)
GET_TIMER_CHECK_POINT = broker("GET_TIMER_CHECK_POINT", reply_body=bytes, since=R_5_0_0)
GET_TIMER_METRICS = broker(
    "GET_TIMER_METRICS", reply_body=TimerMetricsSerializeWrapper, since=R_5_0_0
)

# Statistics and runtime state ---------------------------------------------------------

GET_CONSUME_STATS = broker(
    "GET_CONSUME_STATS", groups.GetConsumeStatsRequest, reply_body=ConsumeStats
)
GET_BROKER_CONSUME_STATS = broker(
    "GET_BROKER_CONSUME_STATS", groups.GetConsumeStatsInBrokerRequest, reply_body=ConsumeStatsList
)
QUERY_CONSUME_TIME_SPAN = broker(
    "QUERY_CONSUME_TIME_SPAN",
    groups.QueryConsumeTimeSpanRequest,
    reply_body=QueryConsumeTimeSpanBody,
)
VIEW_BROKER_STATS_DATA = broker(
    "VIEW_BROKER_STATS_DATA", admin.ViewBrokerStatsDataRequest, reply_body=BrokerStatsData
)
QUERY_CONSUME_QUEUE = broker(
    "QUERY_CONSUME_QUEUE", admin.QueryConsumeQueueRequest, reply_body=QueryConsumeQueueReply
)
GET_BROKER_RUNTIME_INFO = broker("GET_BROKER_RUNTIME_INFO", reply_body=KVTable)
GET_BROKER_HA_STATUS = broker("GET_BROKER_HA_STATUS", reply_body=HARuntimeInfo, since=R_5_0_0)

# Configuration and housekeeping -------------------------------------------------------

UPDATE_BROKER_CONFIG = broker("UPDATE_BROKER_CONFIG", request_body=bytes)
GET_BROKER_CONFIG = broker("GET_BROKER_CONFIG", reply=admin.GetBrokerConfigReply, reply_body=bytes)
RESUME_CHECK_HALF_MESSAGE = broker(
    "RESUME_CHECK_HALF_MESSAGE", admin.ResumeCheckHalfMessageRequest
)
CLEAN_EXPIRED_CONSUMEQUEUE = broker("CLEAN_EXPIRED_CONSUMEQUEUE")
CLEAN_UNUSED_TOPIC = broker("CLEAN_UNUSED_TOPIC")
DELETE_EXPIRED_COMMITLOG = broker("DELETE_EXPIRED_COMMITLOG")
TRIGGER_DELETE_FILES = broker("TRIGGER_DELETE_FILES")


# Codes 9000 to 9999: only this emulator -----------------------------------------------


SET_REPLY_RULE = any_server("SET_REPLY_RULE", request_body=ReplyRule, reply_body=ReplyRuleId)
LIST_REPLY_RULES = any_server("LIST_REPLY_RULES", reply_body=ReplyRuleList)
REMOVE_REPLY_RULE = any_server(
    "REMOVE_REPLY_RULE", request_body=RemoveReplyRule, reply_body=RemovedReplyRules
)
SET_CLOCK_SKEW = any_server("SET_CLOCK_SKEW", request_body=ClockSkew)
FETCH_FACTS = any_server("FETCH_FACTS", request_body=FetchFacts)
RESET_SERVER = any_server("RESET_SERVER")
SET_BUSY_POOL = broker("SET_BUSY_POOL", request_body=BusyPool, reply_body=BusyPoolState)
ADVANCE_TIME = broker("ADVANCE_TIME", request_body=AdvanceTime, reply_body=AdvanceTimeReply)
ADVERTISE_ADDRESS = broker("ADVERTISE_ADDRESS", request_body=AdvertisedAddress)
GET_BROKER_OVERVIEW = broker("GET_BROKER_OVERVIEW", reply_body=BrokerOverview)
