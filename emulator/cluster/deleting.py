"""Deleting topics and groups on every broker, with what belongs to them.

Upstream: DeleteTopicSubCommand, DeleteSubscriptionGroupCommand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from emulator.cluster.admin import Admin
from emulator.cluster.overview import GroupView
from protocol.names import dlq_topic, is_retry_topic, retry_topic


class GroupLosses(msgspec.Struct, frozen=True):
    """What goes with a group: offsets in so many topics, and messages that only it had."""

    group: str
    topics: tuple[str, ...]
    retries: int  # waiting to be consumed again
    dead_letters: int

    @property
    def text(self) -> str:
        """As part of a sentence."""
        where = f"its offsets in {', '.join(self.topics)}" if self.topics else "no offsets"
        return f"{where}, {self.retries:,} retries and {self.dead_letters:,} dead letters"


async def losses_of(admin: Admin, group: GroupView) -> GroupLosses:
    """What deleting *group* loses.  Raises ``AdminError``."""
    retry, dead = retry_topic(group.name), dlq_topic(group.name)
    stored = 0
    for address in (await admin.masters()).values():
        stats = await admin.topic_stats_if_any(address, dead)
        stored += sum(at.max_offset - at.min_offset for at in stats.offset_table.values())
    return GroupLosses(
        group.name,
        topics=tuple(_topics_of(group)),
        retries=sum(queue.lag for queue in group.queues if queue.topic == retry),
        dead_letters=stored,
    )


async def delete_group_everywhere(admin: Admin, group: str) -> None:
    """The group, its offsets, its retries and its dead letters.  Raises ``AdminError``."""
    masters = await admin.masters()
    for address in masters.values():
        await admin.delete_group(address, group)
    for topic in (retry_topic(group), dlq_topic(group)):
        await delete_topic_everywhere(admin, topic, masters)


async def delete_topic_everywhere(admin: Admin, topic: str, brokers: Mapping[str, str]) -> None:
    """On *brokers*, then in the routes.  Raises ``AdminError``."""
    for address in brokers.values():
        await admin.delete_topic(address, topic)
    await admin.forget_topic(topic)


def _topics_of(group: GroupView) -> Iterable[str]:
    return sorted({queue.topic for queue in group.queues if not is_retry_topic(queue.topic)})
