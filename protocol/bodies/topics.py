"""A topic's settings on its broker, as NameServers and other brokers get them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.flags import PERM_READ_WRITE
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.java.java_convert import ConcurrentMap
from rocketmq_emulator.protocol.versions import ATTRIBUTES_PACKED, R_5_0_0, Release

TopicFilterType: TypeAlias = Literal["SINGLE_TAG", "MULTI_TAG"]


class DataVersion(Body, frozen=True):
    """The version of a table; equal only if all members are equal.  Upstream: DataVersion."""

    since = {"state_version": R_5_0_0}

    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Of two versions of one table the later one has the larger order.

        Upstream: DataVersion.compare (5.x).
        """
        return self.state_version, self.counter, self.timestamp

    def next(self, now_ms: int, state_version: int = 0) -> DataVersion:
        """The version after one change.  Upstream: DataVersion.nextVersion."""
        return DataVersion(state_version=state_version, timestamp=now_ms, counter=self.counter + 1)


class TopicConfig(Body, frozen=True):
    """One topic's settings on one broker.  Upstream: TopicConfig."""

    since = {"attributes": R_5_0_0}

    topic_name: str | None = None
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    topic_filter_type: TopicFilterType = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


def encode_topic_config(config: TopicConfig, release: Release) -> str:
    """The one-line form of compressed registration.  Upstream: TopicConfig.encode."""
    parts = [
        str(config.topic_name),
        str(config.read_queue_nums),
        str(config.write_queue_nums),
        str(config.perm),
        config.topic_filter_type,
    ]
    if release >= ATTRIBUTES_PACKED:
        parts.append(java_json.write(config.attributes).decode())
    return " ".join(parts)


def decode_topic_config(text: str, release: Release) -> TopicConfig | None:
    """Decode the one-line form; None if *release* expects another number of parts.

    Raises ``ValueError`` for an invalid part.  Upstream: TopicConfig.decode.
    """
    parts = text.rstrip(" ").split(" ")
    known = len(parts) == 5 or (release >= ATTRIBUTES_PACKED and len(parts) > 5)
    if not known:
        return None
    name, read, write, perm, kind = parts[:5]
    if kind not in ("SINGLE_TAG", "MULTI_TAG"):
        raise ValueError(f"{kind!r} is no topic filter type")
    return TopicConfig(
        topic_name=name,
        read_queue_nums=int(read),
        write_queue_nums=int(write),
        perm=int(perm),
        topic_filter_type="SINGLE_TAG" if kind == "SINGLE_TAG" else "MULTI_TAG",
        attributes=_attributes(parts[5]) if len(parts) > 5 else {},
    )


def _attributes(text: str) -> dict[str, str]:
    # The split breaks a value with a space in it; upstream then reads no attributes.
    try:
        return msgspec.convert(java_json.read(text.encode()), dict[str, str], strict=False)
    except (java_json.NotJson, msgspec.ValidationError):
        return {}


class TopicConfigSerializeWrapper(Body, frozen=True):
    """All topics of a broker.  Upstream: TopicConfigSerializeWrapper."""

    topic_config_table: ConcurrentMap[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()


class TopicQueueMappingInfo(Body, frozen=True):
    """A static topic's queues on one broker.  Upstream: TopicQueueMappingInfo."""

    topic: str | None = None
    scope: str = "__global__"
    total_queues: int = 0
    bname: str | None = None
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] | None = None


class LogicQueueMappingItem(Body, frozen=True):
    """One range of offsets of a logical queue.  Upstream: LogicQueueMappingItem."""

    gen: int = 0
    queue_id: int = 0
    bname: str | None = None
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


class TopicQueueMappingDetail(TopicQueueMappingInfo, frozen=True):
    """A mapping with its history.  Upstream: TopicQueueMappingDetail."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = {}


class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper, frozen=True):
    """All topics of a 5.x broker.  Upstream: TopicConfigAndMappingSerializeWrapper."""

    since = {
        "topic_queue_mapping_info_map": R_5_0_0,
        "topic_queue_mapping_detail_map": R_5_0_0,
        "mapping_data_version": R_5_0_0,
    }

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = {}
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = {}
    mapping_data_version: DataVersion = DataVersion()


class TopicConfigAndMapping(TopicConfig, frozen=True):
    """The answer to GET_TOPIC_CONFIG.  Upstream: TopicConfigAndQueueMapping."""

    mapping_detail: dict[str, Any] | None = None


class CreateTopicListRequestBody(Body, frozen=True):
    """Upstream: CreateTopicListRequestBody."""

    topic_config_list: list[TopicConfig] = []
