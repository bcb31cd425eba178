"""Consumer offsets: on the wire and in files."""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.java.java_convert import ConcurrentMap
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import R_5_0_0


class ConsumerOffsetSerializeWrapper(Body, frozen=True):
    """Offsets of ``topic@group`` by queue id; also the broker's file.

    Upstream: ConsumerOffsetSerializeWrapper, ConsumerOffsetManager.
    """

    since = {"data_version": R_5_0_0, "group_topic_map": R_5_0_0}

    offset_table: ConcurrentMap[str, ConcurrentMap[int, int]] = {}
    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None  # only in the broker's own file


class DelayOffsetSerializeWrapper(Body, frozen=True):
    """The next offset to deliver of each delay level.  Upstream: DelayOffsetSerializeWrapper."""

    since = {"data_version": R_5_0_0}

    offset_table: ConcurrentMap[int, int] = {}
    data_version: DataVersion | None = None


class TimerMetric(Body, frozen=True):
    """The waiting timer messages of a topic.  Upstream: TimerMetrics.Metric."""

    count: int = 0
    time_stamp: int = 0  # milliseconds: of its last change


class TimerMetricsSerializeWrapper(Body, frozen=True):
    """The waiting timer messages by topic; also the broker's file.

    Upstream: TimerMetrics.TimerMetricsSerializeWrapper.
    """

    timing_count: ConcurrentMap[str, TimerMetric] = {}
    data_version: DataVersion = DataVersion()


class OffsetSerializeWrapper(Body, frozen=True):
    """A broadcasting consumer's own file.  Upstream: OffsetSerializeWrapper."""

    offset_table: dict[MessageQueue, int] = {}


class ResetOffsetBody(Body, frozen=True):
    """Upstream: ResetOffsetBody."""

    offset_table: dict[MessageQueue, int] = {}


class MessageQueueForC(Body, frozen=True):
    """Upstream: MessageQueueForC."""

    topic: str = ""
    broker_name: str = ""
    queue_id: int = 0
    offset: int = 0


class ResetOffsetBodyForC(Body, frozen=True):
    """As ``ResetOffsetBody``, without object keys.  Upstream: ResetOffsetBodyForC."""

    offset_table: list[MessageQueueForC] = []


class GetConsumerStatusBody(Body, frozen=True):
    """Upstream: GetConsumerStatusBody."""

    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[MessageQueue, int]] = {}


class QueryCorrectionOffsetBody(Body, frozen=True):
    """Upstream: QueryCorrectionOffsetBody."""

    correction_offsets: dict[int, int] = {}


class OffsetMovedEvent(Body, frozen=True):
    """The body of a message in OFFSET_MOVED_EVENT.  Upstream: OffsetMovedEvent."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: int = 0
    offset_new: int = 0
