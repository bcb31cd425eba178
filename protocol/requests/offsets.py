"""Consumer offsets; the first and last offset of a queue, and its offset at a time."""

from __future__ import annotations

from rocketmq_emulator.protocol.fields import Header, Int, Long

NULL_GROUP = "null"  # Java's text of an absent group, which upstream uses as the name


class QueryConsumerOffsetRequest(Header, kw_only=True):
    """Upstream: QueryConsumerOffsetRequestHeader."""

    consumer_group: str = NULL_GROUP
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None  # 5.x
    bname: str | None = None


class UpdateConsumerOffsetRequest(Header, kw_only=True):
    """Upstream: UpdateConsumerOffsetRequestHeader; 5.x itself refuses absent fields."""

    consumer_group: str = NULL_GROUP
    topic: str
    queue_id: Int | None = None
    commit_offset: Long | None = None
    bname: str | None = None


class GetMaxOffsetRequest(Header):
    """Upstream: GetMaxOffsetRequestHeader."""

    topic: str
    queue_id: Int
    committed: bool = True  # 5.x
    bname: str | None = None


class GetMinOffsetRequest(Header):
    """Upstream: GetMinOffsetRequestHeader."""

    topic: str
    queue_id: Int
    bname: str | None = None


class SearchOffsetRequest(Header):
    """Upstream: SearchOffsetRequestHeader."""

    topic: str
    queue_id: Int
    timestamp: Long
    boundary_type: str | None = None  # 5.x: LOWER or UPPER
    bname: str | None = None

    def __post_init__(self) -> None:
        if self.boundary_type is not None:  # Upstream: BoundaryType.getType
            self.boundary_type = "UPPER" if self.boundary_type.upper() == "UPPER" else "LOWER"


class GetEarliestMsgStoretimeRequest(Header):
    """Upstream: GetEarliestMsgStoretimeRequestHeader."""

    topic: str
    queue_id: Int
    bname: str | None = None


class OffsetReply(Header):
    """Upstream: GetMaxOffset-, GetMinOffset-, SearchOffset-, QueryConsumerOffsetResponseHeader."""

    offset: Long


class GetEarliestMsgStoretimeReply(Header):
    """Upstream: GetEarliestMsgStoretimeResponseHeader."""

    timestamp: Long


class CloneGroupOffsetRequest(Header):
    """Upstream: CloneGroupOffsetRequestHeader."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ResetOffsetRequest(Header):
    """To a broker (222), or from a broker to a client (220).

    Upstream: ResetOffsetRequestHeader.
    """

    topic: str
    group: str | None = None
    timestamp: Long = 0
    is_force: bool = False
    queue_id: Int | None = None  # 5.x; -1 for all
    offset: Long | None = None  # 5.x


class QueryCorrectionOffsetRequest(Header):
    """Upstream: QueryCorrectionOffsetHeader."""

    compare_group: str
    topic: str
    filter_groups: str | None = None  # separated by commas
