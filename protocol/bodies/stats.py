"""Offsets, backlog and rates: the answers to tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import PULL_OFFSETS_SHOWN, PUT_RATE_SHOWN


class TopicOffset(Body, frozen=True):
    """Upstream: TopicOffset."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body, frozen=True):
    """Upstream: TopicStatsTable."""

    since = {"topic_put_tps": PUT_RATE_SHOWN}

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float = 0.0


class OffsetWrapper(Body, frozen=True):
    """Upstream: OffsetWrapper."""

    since = {"pull_offset": PULL_OFFSETS_SHOWN}

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body, frozen=True):
    """Upstream: ConsumeStats."""

    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body, frozen=True):
    """Upstream: ConsumeStatsList."""

    since = {"total_inflight_diff": PULL_OFFSETS_SHOWN}

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


class BrokerStatsItem(Body, frozen=True):
    """Upstream: BrokerStatsItem."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body, frozen=True):
    """Upstream: BrokerStatsData."""

    stats_minute: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_day: BrokerStatsItem | None = None


class QueueTimeSpan(Body, frozen=True):
    """Times of the first, the last and the next message of a queue, also as texts.

    Upstream: QueueTimeSpan.
    """

    message_queue: MessageQueue | None = None
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None

    def __post_init__(self) -> None:
        for name in ("min_time_stamp", "max_time_stamp", "consume_time_stamp"):
            text = human_time(getattr(self, name))
            msgspec.structs.force_setattr(self, f"{name}_str", text)


def human_time(ms: int) -> str:
    """A time in UTC as upstream prints it.  Upstream: UtilAll.timeMillisToHumanString2."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at.microsecond // 1000:03}"


class QueryConsumeTimeSpanBody(Body, frozen=True):
    """Upstream: QueryConsumeTimeSpanBody."""

    consume_time_span_set: list[QueueTimeSpan] = []


class ConsumeQueueData(Body, frozen=True):
    """Upstream: ConsumeQueueData."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueReply(Body, frozen=True):
    """Upstream: QueryConsumeQueueResponseBody."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0


class HAConnectionRuntimeInfo(Body, frozen=True):
    """Upstream: HARuntimeInfo.HAConnectionRuntimeInfo."""

    addr: str | None = None
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HAClientRuntimeInfo(Body, frozen=True):
    """Upstream: HARuntimeInfo.HAClientRuntimeInfo."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


class HARuntimeInfo(Body, frozen=True):
    """Upstream: HARuntimeInfo."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = []
    ha_client_runtime_info: HAClientRuntimeInfo = HAClientRuntimeInfo()
