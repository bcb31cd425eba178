"""How many timer messages of each topic wait (5.x): a broker tells its slaves.

A message counts when it is put into the wheel, and no longer when it is delivered or stored again
for a later slot; a message that deletes another counts as one less.  The counts are saved with the
timer checkpoint and at the end, so after a crash they may differ from the wheel, as upstream's do.

Upstream: TimerMetrics, TimerMessageStore.addMetric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.offsets import TimerMetric, TimerMetricsSerializeWrapper
from rocketmq_emulator.protocol.bodies.topics import DataVersion

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

METRICS_DOCUMENT = "timermetrics"


class TimerMetrics:
    """The waiting messages by topic, as saved on *disk*; the table is new at *now_ms*."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note, now_ms: int) -> None:
        self._release = config.parsed_release
        self._document = Document(
            disk, METRICS_DOCUMENT, TimerMetricsSerializeWrapper, config.parsed_release, note
        )
        saved = self._document.load()
        self._counts = dict(saved.timing_count) if saved else {}
        self._version = saved.data_version if saved else DataVersion(timestamp=now_ms)
        self._is_dirty = False

    def add(self, topic: str, count: int, now_ms: int) -> None:
        """*count* more messages of *topic* wait; nothing for a record without a topic."""
        if not topic:
            return
        before = self._counts.get(topic, TimerMetric())
        self._counts[topic] = TimerMetric(count=before.count + count, time_stamp=now_ms)
        self._version = self._version.next(now_ms)
        self._is_dirty = True

    def forget_topic(self, topic: str) -> None:
        """Remove the count of a deleted topic.  Upstream: removeTimingCount."""
        if self._counts.pop(topic, None) is not None:
            self._is_dirty = True

    def wrapper(self) -> TimerMetricsSerializeWrapper:
        """The counts as they are saved and sent."""
        return TimerMetricsSerializeWrapper(timing_count=self._counts, data_version=self._version)

    def copy(self, masters: TimerMetricsSerializeWrapper) -> bool:
        """Replace the counts by a master's of another version, and save them; whether it did.

        Upstream: SlaveSynchronize.syncTimerMetrics.
        """
        if masters.data_version == self._version:
            return False
        self._counts, self._version = dict(masters.timing_count), masters.data_version
        self._is_dirty = True
        self.persist()
        return True

    def persist(self) -> None:
        """Save the counts if they have changed."""
        if self._is_dirty:
            text = encode_body(self.wrapper(), self._release)
            self._is_dirty = not self._document.save_text(text)

    def reset(self, now_ms: int) -> None:
        """Remove all counts."""
        self._counts, self._version = {}, DataVersion(timestamp=now_ms)
        self._is_dirty = True
        self.persist()
