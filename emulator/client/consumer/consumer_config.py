"""The settings that several kinds of consumers share, with upstream's name and default."""

from __future__ import annotations

from typing import ClassVar

from emulator.client.config import ConsumerConfig
from emulator.setting_rules import LONG_MAX, Range, SettingRules, ranges
from protocol.bodies.groups import ConsumeFromWhere, MessageModel

MS_A_MINUTE = 60_000
HALF_AN_HOUR_MS = 30 * MS_A_MINUTE  # consumeTimestamp


class GroupMemberConfig(ConsumerConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes a consumer a member of its group."""

    model: MessageModel = "CLUSTERING"  # messageModel
    offset_folder: str = ""  # ~/.rocketmq_offsets upstream; empty = offsets are kept in memory

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message."""
        return self.model == "BROADCASTING"


class StartingConfig(GroupMemberConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a new group starts, for consumers that find that out themselves."""

    consume_from: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"  # consumeFromWhere
    consume_from_time_ms: int | None = None  # consumeTimestamp; None = 30 minutes before the start
    setting_rules: ClassVar[SettingRules] = SettingRules(
        ranges((Range(0, LONG_MAX), "consume_from_time_ms"))
    )

    def new_group_from_ms(self, started_ms: int) -> int:
        """The wall time CONSUME_FROM_TIMESTAMP begins at, for a consumer started then."""
        if self.consume_from_time_ms is not None:
            return self.consume_from_time_ms
        return started_ms - HALF_AN_HOUR_MS
