"""The table of calls and their handlers, built from a broker.

The releases that have a call are part of the call (``since`` and ``until``).
"""

from __future__ import annotations

import random

from rocketmq_emulator.broker.handlers.client_calls import ClientCallProcessor
from rocketmq_emulator.broker.handlers.clients import ClientManageProcessor
from rocketmq_emulator.broker.handlers.configuration import ConfigurationProcessor
from rocketmq_emulator.broker.handlers.groups import GroupProcessor
from rocketmq_emulator.broker.handlers.housekeeping import (
    AdvanceTimeProcessor,
    HousekeepingProcessor,
)
from rocketmq_emulator.broker.handlers.members import MemberProcessor
from rocketmq_emulator.broker.handlers.messages import QueryMessageProcessor
from rocketmq_emulator.broker.handlers.offsets import ConsumerManageProcessor, GroupOffsetProcessor
from rocketmq_emulator.broker.handlers.overview import OverviewProcessor
from rocketmq_emulator.broker.handlers.pulling import PullMessageProcessor
from rocketmq_emulator.broker.handlers.queues import QueryAssignmentProcessor, QueueProcessor
from rocketmq_emulator.broker.handlers.recalling import RecallMessageProcessor
from rocketmq_emulator.broker.handlers.replies import ReplyMessageProcessor
from rocketmq_emulator.broker.handlers.runtime_info import ReplicaProcessor, RuntimeInfoProcessor
from rocketmq_emulator.broker.handlers.send_back import SendMessageBackProcessor
from rocketmq_emulator.broker.handlers.sending import SendMessageProcessor
from rocketmq_emulator.broker.handlers.slave_refusals import with_slave_refusals
from rocketmq_emulator.broker.handlers.statistics import ConsumptionProcessor, StatisticsProcessor
from rocketmq_emulator.broker.handlers.topics import TopicProcessor
from rocketmq_emulator.broker.handlers.transactions import EndTransactionProcessor
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.net.dispatch import Row, Table, table_of
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.settings.quirks import class_for

# Upstream: BrokerController.registerProcessor registers these for the first port only.
NOT_ON_VIP_PORT = frozenset({catalog.PULL_MESSAGE.code, catalog.LITE_PULL_MESSAGE.code})


def handler_table(broker: Broker, rng: random.Random, now_ms: int) -> Table:
    """The handlers of *broker* by code.  The sweeps of held pulls are counted from *now_ms*."""
    rows = (
        *_client_rows(broker, rng, now_ms),
        *_admin_rows(broker),
        *_query_rows(broker),
    )
    return with_slave_refusals(table_of(rows, broker.release), broker)


def _client_rows(broker: Broker, rng: random.Random, now_ms: int) -> tuple[Row, ...]:
    """The calls of producers and consumers."""
    sending = SendMessageProcessor(broker, rng)
    transactions = class_for(EndTransactionProcessor, "broker", broker.config.quirks)(broker)
    replies = ReplyMessageProcessor(broker, sending)
    sending_back = SendMessageBackProcessor(broker, rng)
    recalling = RecallMessageProcessor(broker)
    pulling = class_for(PullMessageProcessor, "broker", broker.config.quirks)(broker, now_ms)
    clients = class_for(ClientManageProcessor, "broker", broker.config.quirks)(broker)
    offsets = ConsumerManageProcessor(broker)
    queues = QueueProcessor(broker)
    return (
        Row(catalog.SEND_MESSAGE, sending.send),
        Row(catalog.SEND_MESSAGE_V2, sending.send),
        Row(catalog.SEND_BATCH_MESSAGE, sending.send),
        Row(catalog.END_TRANSACTION, transactions.end),
        Row(catalog.RESUME_CHECK_HALF_MESSAGE, transactions.resume_check),
        Row(catalog.SEND_REPLY_MESSAGE, replies.send_reply),
        Row(catalog.SEND_REPLY_MESSAGE_V2, replies.send_reply),
        Row(catalog.CONSUMER_SEND_MSG_BACK, sending_back.send_back),
        Row(catalog.RECALL_MESSAGE, recalling.recall),
        Row(catalog.PULL_MESSAGE, pulling.pull),
        Row(catalog.LITE_PULL_MESSAGE, pulling.pull),
        Row(catalog.HEART_BEAT, clients.heartbeat),
        Row(catalog.UNREGISTER_CLIENT, clients.unregister),
        Row(catalog.CHECK_CLIENT_CONFIG, clients.check_config),
        Row(catalog.GET_CONSUMER_LIST_BY_GROUP, clients.consumer_list),
        Row(catalog.GET_ALL_PRODUCER_INFO, clients.all_producers),
        Row(catalog.QUERY_CONSUMER_OFFSET, offsets.query),
        Row(catalog.UPDATE_CONSUMER_OFFSET, offsets.update),
        Row(catalog.GET_MAX_OFFSET, queues.max_offset),
        Row(catalog.GET_MIN_OFFSET, queues.min_offset),
        Row(catalog.SEARCH_OFFSET_BY_TIMESTAMP, queues.search),
        Row(catalog.GET_EARLIEST_MSG_STORETIME, queues.earliest),
        Row(catalog.LOCK_BATCH_MQ, queues.lock),
        Row(catalog.UNLOCK_BATCH_MQ, queues.unlock),
    )


def _admin_rows(broker: Broker) -> tuple[Row, ...]:
    """The calls that read and change topics, groups, offsets and settings."""
    topics = TopicProcessor(broker)
    groups = GroupProcessor(broker)
    group_offsets = GroupOffsetProcessor(broker)
    configuration = ConfigurationProcessor(broker)
    advancer = AdvanceTimeProcessor(broker)
    return (
        Row(catalog.ADVANCE_TIME, advancer.advance),
        Row(catalog.ADVERTISE_ADDRESS, configuration.advertise),
        Row(catalog.UPDATE_AND_CREATE_TOPIC, topics.update),
        Row(catalog.DELETE_TOPIC_IN_BROKER, topics.delete),
        Row(catalog.GET_ALL_TOPIC_CONFIG, topics.all),
        Row(catalog.GET_TOPIC_CONFIG, topics.one),
        Row(catalog.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, topics.system_topics),
        Row(catalog.GET_BROKER_CONFIG, configuration.get),
        Row(catalog.UPDATE_BROKER_CONFIG, configuration.update),
        Row(catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, groups.update),
        Row(catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups.all),
        Row(catalog.GET_SUBSCRIPTIONGROUP_CONFIG, groups.one),
        Row(catalog.DELETE_SUBSCRIPTIONGROUP, groups.delete),
        Row(catalog.QUERY_TOPICS_BY_CONSUMER, groups.topics_of_group),
        Row(catalog.QUERY_SUBSCRIPTION_BY_CONSUMER, groups.subscription),
        Row(catalog.QUERY_TOPIC_CONSUME_BY_WHO, groups.topic_consumers),
        Row(catalog.GET_CONSUMER_CONNECTION_LIST, groups.consumer_connections),
        Row(catalog.GET_PRODUCER_CONNECTION_LIST, groups.producer_connections),
        Row(catalog.GET_ALL_CONSUMER_OFFSET, group_offsets.all_offsets),
        Row(catalog.GET_ALL_DELAY_OFFSET, group_offsets.all_delays),
        Row(catalog.GET_TIMER_CHECK_POINT, group_offsets.timer_checkpoint),
        Row(catalog.GET_TIMER_METRICS, group_offsets.timer_metrics),
        Row(catalog.CLONE_GROUP_OFFSET, group_offsets.clone),
        Row(catalog.INVOKE_BROKER_TO_RESET_OFFSET, group_offsets.reset),
        Row(catalog.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, group_offsets.status),
    )


def _query_rows(broker: Broker) -> tuple[Row, ...]:
    """The calls for figures, messages, queue assignment, running clients and cleaning."""
    runtime = RuntimeInfoProcessor(broker)
    overviews = OverviewProcessor(broker)
    statistics = StatisticsProcessor(broker)
    messages = QueryMessageProcessor(broker)
    assignment = QueryAssignmentProcessor(broker)
    calling = ClientCallProcessor(broker)
    consumption = ConsumptionProcessor(broker)
    cleaning = HousekeepingProcessor(broker)
    replicas = ReplicaProcessor(broker)
    members = MemberProcessor(broker)
    return (
        Row(catalog.GET_BROKER_RUNTIME_INFO, runtime.runtime_info),
        Row(catalog.VIEW_BROKER_STATS_DATA, runtime.stats_item),
        Row(catalog.GET_BROKER_OVERVIEW, overviews.overview),
        Row(catalog.GET_TOPIC_STATS_INFO, statistics.topic_stats),
        Row(catalog.GET_CONSUME_STATS, statistics.consume_stats),
        Row(catalog.VIEW_MESSAGE_BY_ID, messages.view),
        Row(catalog.QUERY_MESSAGE, messages.query),
        Row(catalog.QUERY_CONSUME_QUEUE, messages.consume_queue),
        Row(catalog.GET_CONSUMER_RUNNING_INFO, calling.running_info),
        Row(catalog.CONSUME_MESSAGE_DIRECTLY, calling.consume_directly),
        Row(catalog.QUERY_ASSIGNMENT, assignment.query),
        Row(catalog.SET_MESSAGE_REQUEST_MODE, assignment.set_mode),
        Row(catalog.GET_ALL_MESSAGE_REQUEST_MODE, assignment.all_modes),
        Row(catalog.GET_BROKER_CONSUME_STATS, consumption.all_stats),
        Row(catalog.QUERY_CORRECTION_OFFSET, consumption.correction_offset),
        Row(catalog.QUERY_CONSUME_TIME_SPAN, consumption.time_span),
        Row(catalog.CLEAN_EXPIRED_CONSUMEQUEUE, cleaning.clean_expired_queues),
        Row(catalog.CLEAN_UNUSED_TOPIC, cleaning.clean_unused_topics),
        Row(catalog.DELETE_EXPIRED_COMMITLOG, cleaning.delete_expired),
        Row(catalog.GET_BROKER_HA_STATUS, replicas.ha_status),
        Row(catalog.GET_BROKER_EPOCH_CACHE, replicas.epoch_cache),
        Row(catalog.NOTIFY_MIN_BROKER_ID_CHANGE, members.min_broker_changed),
        Row(catalog.EXCHANGE_BROKER_HA_INFO, members.exchange_ha_info),
        Row(catalog.RESET_MASTER_FLUSH_OFFSET, members.reset_flush_offset),
        Row(catalog.NOTIFY_BROKER_ROLE_CHANGED, replicas.role_changed),
    )
