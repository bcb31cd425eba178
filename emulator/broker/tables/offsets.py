"""The committed offset of each group in each queue.

A broker does not check a commit against the queue or its owner: the last commit counts, also a
smaller one.  Commits are kept in memory and written to disk every few seconds, so after a crash
consumers receive some messages again; a durable table writes each commit at once.  A large table
is written in slices: a commit between two slices is in this text or in the next.

Upstream: ConsumerOffsetManager.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.broker.tables.checks import check_name, check_room
from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.facts import Note
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.slices import SliceBudget, in_pieces
from rocketmq_emulator.protocol.bodies.body import config_entries, filled_config_file
from rocketmq_emulator.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.settings.releases import (
    EMPTY_QUEUE_HAS_NO_OFFSET,
    OFFSETS_HAVE_VERSION,
    Release,
)

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.settings.config import BrokerConfig

DOCUMENT = "consumerOffset.json"
TOPIC_GROUP_SEPARATOR = "@"
COMMITS_PER_VERSION = 500  # BrokerConfig.consumerOffsetUpdateVersionStep (5.x)
SLICE_WORK, ENTRY_WORK = 10_000, 10  # a queue counts 1, about 1.3 µs; a topic and group 10
SLICE_GROUPS = 1_000


class ConsumerOffsets:
    """The offset table: ``topic@group`` to queue id to offset; *now_ms* is when it is new."""

    def __init__(
        self, disk: Disk, config: BrokerConfig, *, now_ms: int, note: Note = discard_fact
    ) -> None:
        self._has_version = config.parsed_release >= OFFSETS_HAVE_VERSION
        self._is_durable = config.durable_offsets
        self._config = config
        self._document = Document(
            disk,
            DOCUMENT,
            ConsumerOffsetSerializeWrapper,
            config.parsed_release,
            note,
            flushed=config.is_sync_flush and config.durable_offsets,
        )
        saved = self._document.load() or ConsumerOffsetSerializeWrapper()
        self.offset_table = {key: dict(queues) for key, queues in saved.offset_table.items()}
        self._data_version = saved.data_version or DataVersion(timestamp=now_ms)
        self.pending_resets: dict[str, dict[int, int]] = {}  # by topic@group, until a pull
        # A new version must survive a restart, although there is no offset yet.
        is_new = self._has_version and saved.data_version is None
        self._changes, self._written = int(is_new), 0  # how often it changed, and on disk
        self._commits = 0

    def commit(self, group: str, topic: str, queue_id: int, offset: int, now_ms: int) -> bool:
        """Commit *offset* for the group; returns whether the table has changed.

        Ignored while a reset of the queue is pending.
        """
        key = _key(topic, group)
        if self.pending_resets and queue_id in self.pending_resets.get(key, ()):
            return False
        self._commits += 1
        if self._has_version and self._commits % COMMITS_PER_VERSION == 0:
            self._data_version = self._data_version.next(now_ms)
        return self._store(key, queue_id, offset)

    def check_room(self, group: str, topic: str, queue_id: int) -> None:
        """Raises ``Refusal`` if there is no room for a commit of the group to the queue."""
        key = _key(topic, group)
        queues = self.offset_table.get(key)
        if queues is None:
            check_name(key, "a topic and a group")
            check_room(len(self.offset_table), self._config.committed_max, "committed topics")
        elif queue_id not in queues:
            check_room(len(queues), self._config.topic_queues_max, "committed queues")

    @property
    def has_unsaved_commits(self) -> bool:
        """Whether a durable table has commits not on disk, which must not be acknowledged."""
        return self._is_durable and self._written < self._changes

    @property
    def refusal_reason(self) -> str:
        """Why the last failed save failed, as a text for clients."""
        return self._document.refusal_reason

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that was committed last; None if there is none."""
        return self.offset_table.get(_key(topic, group), {}).get(queue_id)

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a reset of the queue is pending for the group."""
        return queue_id in self.pending_resets.get(_key(topic, group), ())

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the offset of the group; its commits are ignored until ``take_reset``.

        Upstream: ConsumerOffsetManager.assignResetOffset (5.x).
        """
        key = _key(topic, group)
        self.pending_resets.setdefault(key, {})[queue_id] = offset
        self._store(key, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return the pending reset of a queue, for the answer to a pull.

        Upstream: ConsumerOffsetManager.queryThenEraseResetOffset.
        """
        key = _key(topic, group)
        queues = self.pending_resets.get(key, {})
        offset = queues.pop(queue_id, None)
        if not queues:
            self.pending_resets.pop(key, None)
        return offset

    def topics_of_group(self, group: str) -> list[str]:
        """Topics with committed offsets of the group.  Upstream: whichTopicByConsumer."""
        ending = TOPIC_GROUP_SEPARATOR + group
        return [key.removesuffix(ending) for key in self.offset_table if key.endswith(ending)]

    def groups_of_topic(self, topic: str) -> list[str]:
        """Groups with committed offsets of the topic.

        Upstream: ConsumerOffsetManager.whichGroupByTopic.
        """
        start = topic + TOPIC_GROUP_SEPARATOR
        return [key.removeprefix(start) for key in self.offset_table if key.startswith(start)]

    def entries(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Topic, group, and their offsets by queue, for the whole table."""
        for key, queues in self.offset_table.items():
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield topic, group, queues

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the committed offsets of *topic* from group *source* to group *target*.

        Upstream: ConsumerOffsetManager.cloneOffset.
        """
        queues = self.offset_table.get(_key(topic, source))
        if queues is not None:
            self.offset_table[_key(topic, target)] = dict(queues)
            self._changed()

    def delete_group(self, group: str) -> None:
        """Remove the committed offsets and the pending resets of *group*.

        Upstream: ConsumerOffsetManager.removeOffset.
        """
        keys = [_key(topic, group) for topic in self.topics_of_group(group)]
        for key in keys:
            del self.offset_table[key]
            self.pending_resets.pop(key, None)
        if keys:
            self._changed()

    def delete_topic(self, topic: str) -> None:
        """Remove the committed offsets and the pending resets of *topic*.

        Upstream: ConsumerOffsetManager.cleanOffsetByTopic (5.x).
        """
        keys = [_key(topic, group) for group in self.groups_of_topic(topic)]
        for key in keys:
            del self.offset_table[key]
            self.pending_resets.pop(key, None)
        if keys:
            self._changed()

    def replace_all(self, offsets: Mapping[tuple[str, str], dict[int, int]]) -> None:
        """Replace the table by *offsets*, by topic and group; no reset stays pending."""
        self.offset_table = {_key(*place): dict(queues) for place, queues in offsets.items()}
        self.pending_resets = {}
        self._commits = 0
        self._changes += 1
        self.persist()

    def copy(self, masters: ConsumerOffsetSerializeWrapper) -> None:
        """Replace the offsets of each topic and group that a master has, and save the table.

        Others stay.  Upstream: SlaveSynchronize.syncConsumerOffset.
        """
        for key, queues in masters.offset_table.items():
            self.offset_table[key] = dict(queues)
        if self._has_version and masters.data_version is not None:
            self._data_version = masters.data_version
        self._changes += 1
        self.persist()

    def take_back(self, slaves: ConsumerOffsetSerializeWrapper) -> bool:
        """``copy`` the table of a slave unless its version is older; returns whether it is not.

        So offsets may also go back, to what the slave copied last: versions count only every
        500th commit.  Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        version = slaves.data_version
        if version is None or self._data_version.order > version.order:
            return False
        self.copy(slaves)
        return True

    def persist(self) -> None:
        """Write the table at once if it has changed."""
        for _ in self.persisting():
            pass

    def persisting(self) -> Generator[None, None, None]:
        """Write the table in slices if it has changed; upstream does so every 5 s."""
        upto = self._changes
        if self._written == upto:
            return
        text = yield from self._text()
        # Between the slices ``persist`` may have written a newer table.
        if self._written < upto and self._document.save_text(text):
            self._written = upto

    def wrapper(self) -> ConsumerOffsetSerializeWrapper:
        """The table as it is saved and sent."""
        return ConsumerOffsetSerializeWrapper(
            offset_table=self.offset_table,
            data_version=self._data_version if self._has_version else None,
            group_topic_map=self._group_topic_map() if self._has_version else None,
        )

    def pieces(self) -> Iterator[dict[str, dict[int, int]]]:
        """The offset table in pieces, each as large as one slice may write."""
        pace = SliceBudget(SLICE_WORK)
        piece: dict[str, dict[int, int]] = {}
        for key in list(self.offset_table):
            if key not in self.offset_table:
                continue  # deleted between two slices
            piece[key] = self.offset_table[key]
            if pace.is_over(len(piece[key]) + ENTRY_WORK):
                yield piece
                piece = {}
        yield piece

    def _text(self) -> Generator[None, None, bytes]:
        release, whole = self._config.parsed_release, self.wrapper()
        entries: list[bytes] = []
        for piece in self.pieces():
            if entries:
                yield
            entries.append(config_entries(piece, release))
        written = {"offsetTable": entries}
        if whole.group_topic_map is not None:
            topics = written["groupTopicMap"] = list[bytes]()
            for groups in in_pieces(list(whole.group_topic_map.items()), SLICE_GROUPS):
                if topics:
                    yield
                topics.append(config_entries(dict(groups), release))
            whole = msgspec.structs.replace(whole, group_topic_map={})
        empty = msgspec.structs.replace(whole, offset_table={})
        return filled_config_file(empty, written, release)

    def _group_topic_map(self) -> dict[str, list[str]]:
        topics: dict[str, list[str]] = {}
        for key in self.offset_table:
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            topics.setdefault(group, []).append(topic)
        return topics

    def _store(self, key: str, queue_id: int, offset: int) -> bool:
        queues = self.offset_table.setdefault(key, {})
        if queues.get(queue_id) == offset and not self.has_unsaved_commits:
            return False  # clients repeat their commits every 5 s: nothing to write
        queues[queue_id] = offset
        self._changed()
        return True

    def _changed(self) -> None:
        self._changes += 1
        if self._is_durable:
            self.persist()


def first_offset(min_offset: int, max_offset: int, release: Release) -> int | None:
    """The first offset of a group without a commit; None: the client's consumeFromWhere decides.

    0 while the queue still has its first message, and before 5.1.0 also while it is empty.
    Upstream: ConsumerManageProcessor.queryConsumerOffset.
    """
    if min_offset > 0 or (max_offset == 0 and release >= EMPTY_QUEUE_HAS_NO_OFFSET):
        return None
    return 0


def _key(topic: str, group: str) -> str:
    return f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
