"""One queue from facts: its stored messages, and the progress of each reader.

A place is an offset of a queue.  The record of each message (the time and entry of its storing,
its key, its tags, its acknowledgement) is dropped once all readers have consumed it, and beyond
``MESSAGES_KEPT_MAX`` messages from the oldest on.  The name of a queue's topic shows what its
messages wait for: a reader, their time, a retry, the end of a transaction, or nothing, as dead
letters.

A message that is consumed twice is explained by two claims that both include it
(``QueueClaim``), or by an offset that went back; else it is not explained.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Literal, TypeAlias

from rocketmq_emulator.checks.state.message_labels import MessageLabels
from rocketmq_emulator.checks.state.message_records import LostPlaces, MessageRecords
from rocketmq_emulator.checks.state.offset_runs import OffsetRuns
from rocketmq_emulator.checks.state.queue_claims import QueueClaim, ReportedOffsets
from rocketmq_emulator.facts import MessageStored, Queue
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

MESSAGES_KEPT_MAX = 1 << 18  # messages of one queue that some reader has not consumed
TRIMMED_EVERY = 1 << 8  # messages
HOLES_MAX = 1 << 12  # messages left unconsumed before later ones
ASKED_US = 60_000_000  # from the offset query to the claim: at most, with slow brokers
KNOWN_US = 6_000_000  # the same if a claim has no offset
LISTENER_US_MAX = 60_000_000  # a message given to a listener is finished within this time
AHEAD_DELIVERIES_MAX = 64  # deliveries before earlier messages that are kept
LOST_DONE_MAX = 1 << 12  # of one loss: consumed messages that a client may consume once more
SKIPPED_MAX = 1 << 12  # excused messages of one range whose later delivery is noticed
PASSES_MAX = 64  # commits kept as evidence that first passed an unsettled message


class QueueRecords:
    """The messages stored in a queue, and which of them are promised to readers."""

    __slots__ = (
        "acked",
        "acked_unstored",
        "delivered_to",
        "dropped_to",
        "end_offset",
        "filtered",
        "first",
        "lost",
        "lost_after_ack",
        "message_records",
        "queue",
        "readings",
        "sent",
        "stored_count",
        "topic_kind",
        "unflushed_lost",
        "unnoted",
        "unsafe",
    )

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.topic_kind: TopicKind = topic_kind_of(queue.topic)
        self.first: int | None = None  # the first offset that the journal has
        self.end_offset = 0  # after the last stored message
        self.stored_count = 0
        self.unnoted = False  # its broker was killed before it noted all stored messages
        self.acked = OffsetRuns()
        self.acked_unstored: dict[int, tuple[str, EntryKey]] = {}  # acknowledged, not (yet) stored
        self.unsafe = OffsetRuns()  # of acked: acknowledged before their flush
        self.readings: list[QueueReading] = []
        self.filtered: list[QueueReading] = []  # of these: of groups that filter
        # Acknowledged as safe, lost by a broker: offset, and entries up to the loss.
        self.lost_after_ack: list[tuple[int, tuple[EntryKey, ...]]] = []
        self.unflushed_lost = 0  # acknowledged, lost with the power, not promised
        self.delivered_to = 0  # of a queue of waiting copies: 1 + the highest delivered
        self.dropped_to = 0  # the first offset that retention kept
        self.message_records = MessageRecords()
        self.sent: dict[int, EntryKey] = {}  # offset: entry of the producer's MessageSent
        self.lost = LostPlaces()

    def store(self, fact: MessageStored, entry: Entry) -> None:
        """Add a stored message, at the next offset or after a hole."""
        offset = fact.offset
        if self.first is None:
            self.first = offset
        self.end_offset = offset + 1
        self.stored_count += 1
        self.lost.use(offset)
        if not self.message_records.add(fact, entry) % TRIMMED_EVERY:
            self._trim()

    def stored_us(self, offset: int) -> int | None:
        """When the message at *offset* was stored; None if that is not known any more.

        A message that its broker has lost may still be given to a listener.
        """
        found = self.message_records.stored_us(offset)
        return self.lost.stored_us(offset) if found is None else found

    def key_at(self, offset: int) -> str | None:
        """The key of the message at *offset* now; None if that is not known."""
        return self.message_records.key_at(offset)

    def labels_at(self, offset: int) -> MessageLabels | None:
        """What filters see of the message at *offset*; None if it is not known."""
        return self.message_records.labels_at(offset)

    def tags_at(self, offset: int) -> str | None:
        """The tags of the message at *offset*; None if they are not known."""
        labels = self.labels_at(offset)
        return None if labels is None else labels.tags

    def position_of(self, offset: int) -> int | None:
        """Where the message's record begins in the log; None if that is not known."""
        life = self.message_records.at(offset)
        return None if life is None else life.position

    def entries_of_message(self, offset: int) -> tuple[EntryKey, ...]:
        """The entries of the message's storing and acknowledgement, if known."""
        found = []
        if (life := self.message_records.at(offset)) is not None:
            found.append(EntryKey(life.stored_us, self.queue.broker, life.seq))
        if (sent := self.sent.get(offset)) is not None:
            found.append(sent)
        return tuple(found)

    def cut(self, offset: int) -> None:
        """End the queue at *offset*: later messages are lost."""
        if offset < self.message_records.first:
            self.lost.lose_unknown(min(self.message_records.first, self.end_offset))
        self.end_offset = min(self.end_offset, offset)
        self.acked.cut(offset)
        self.unsafe.cut(offset)
        self.delivered_to = min(self.delivered_to, offset)
        for place, life in self.message_records.cut(offset):
            self.lost.lose(place, life.stored_us, life.key)
        for lost in [each for each in self.sent if each >= offset]:
            del self.sent[lost]

    def drop_before(self, position: int) -> None:
        """Retention deleted all records that begin before *position* in the commit log."""
        self.dropped_to = max(self.dropped_to, self.message_records.before(position))

    def _trim(self) -> None:
        """Drop messages that all readers have consumed; keep a few older open ones separately."""
        alone: list[int] = []
        if self.topic_kind == "half":
            needed = self.end_offset
        elif self.topic_kind == "waiting" and not self.readings:
            needed = self.delivered_to
        else:
            needed = min((each.read_to() for each in self.readings), default=0)
            holes = (each.done.holes(each.start, needed) for each in self.readings)
            for start, end in chain.from_iterable(holes):
                alone += range(start, min(end, start + HOLES_MAX + 1))
            if len(alone) > HOLES_MAX:  # too many: that reader is just not so far
                needed = min(each.done.first_missing(each.start) for each in self.readings)
                alone = []
        needed = max(
            needed, self.message_records.first + len(self.message_records) - MESSAGES_KEPT_MAX
        )
        if needed > self.message_records.first:
            self.message_records.forget_before(needed, alone)
            kept = set(alone)
            for offset in [each for each in self.sent if each < needed and each not in kept]:
                del self.sent[offset]


class QueueReading:
    """The progress of one reader in one queue."""

    __slots__ = (
        "ahead_deliveries",
        "began_to",
        "claims",
        "committed",
        "consumed_us",
        "done",
        "excused",
        "failed",
        "given_to",
        "last_pull",
        "lost_done",
        "misdelivered",
        "of_other_logs",
        "owner",
        "passes",
        "pulled_to",
        "queue",
        "reader",
        "records",
        "refused_pull",
        "reported_offsets",
        "resumed_at",
        "reused_before",
        "reused_to",
        "skipped",
        "stale_to",
        "start",
        "start_recheck_until_us",
        "unwanted",
    )

    def __init__(self, reader: str, queue: Queue, start: int, records: QueueRecords) -> None:
        self.reader, self.queue, self.start, self.records = reader, queue, start, records
        self.done = OffsetRuns()  # consumed, or skipped for a known cause
        self.failed: dict[int, str] = {}  # offset: uniq_key of the failed message
        self.given_to = start  # after the last message that a member was given
        # (time, offset) of messages given before earlier ones.
        self.ahead_deliveries: deque[tuple[int, int]] = deque(maxlen=AHEAD_DELIVERIES_MAX)
        self.start_recheck_until_us = 0  # a new lite pull group queries again until then
        self.began_to = 0  # a new group may begin up to there: the end of the queue at its query
        self.committed: int | None = None
        self.resumed_at: int | None = None  # below what was committed of lost messages
        self.consumed_us = 0  # when a member last consumed a message of it
        self.pulled_to = start
        self.excused: dict[str, int] = {}  # cause: number of messages skipped by it
        self.skipped: set[int] = set()  # of done: excused and not consumed yet
        self.of_other_logs: set[int] = set()  # offsets last read at a slave with another log
        self.lost_done: dict[int, str] = {}  # consumed and lost: offset, uniq_key
        self.reused_to = 0  # places below were used before the broker lost them
        self.reused_before = (0, 0)  # the same before the last claim, and when that was
        self.stale_to = 0  # commits up to there are of offsets that the log has lost
        self.owner = ""  # node of the last claim
        self.claims: dict[str, QueueClaim] = {}  # by node: its last claim
        self.misdelivered: set[int] = set()  # given to a member that must not get it
        self.unwanted = OffsetRuns()  # of done: tags that the group filters
        self.reported_offsets = ReportedOffsets()
        self.passes: list[tuple[int, EntryKey]] = []
        self.last_pull: Entry | None = None
        self.refused_pull: Entry | None = None

    # Offsets at the broker ------------------------------------------------------------------

    @property
    def passed_to(self) -> int:
        """The offset before which the group gets no more messages, by its last commit."""
        if self.committed is None:
            return self.start
        return self.committed if self.resumed_at is None else min(self.committed, self.resumed_at)

    def commits(self, offset: int, now_us: int) -> None:
        """A member committed *offset*."""
        self.committed, self.resumed_at = offset, None
        self.reported_offsets.add(offset, now_us)

    def note_own_offset(self, now_us: int) -> None:
        """A broadcasting member has consumed: keep the offset that it may write."""
        if self.reported_offsets.is_due(now_us):
            self.reported_offsets.add(self.done.first_missing(self.start), now_us)

    def is_restored(self, since_us: int, now_us: int) -> None:
        """The broker restarted with an offset that it had at *since_us* or later."""
        if self.committed is not None:
            self.reported_offsets.add(self.reported_offsets.lowest_since(since_us), now_us)

    # Holds --------------------------------------------------------------------------------

    def claimed(
        self, node: str, claimed: EntryKey, offset: int | None, since_us: int | None = None
    ) -> QueueClaim:
        """*node* claims the queue at *offset*; None: at an offset that the broker may have.

        The broker's answer is an offset of *since_us* or later; None: of the time of a query.
        """
        now_us = claimed.mono_us
        window_us = KNOWN_US if offset is None else ASKED_US
        told_us = now_us - window_us
        lowest = self.reported_offsets.lowest_since(
            told_us if since_us is None else min(told_us, since_us)
        )
        start = lowest if offset is None else max(lowest, offset)
        before = self.claims.get(node)
        is_open = before is not None and before.claimed is None and before.ended_us is None
        if before is not None and is_open and offset is None:
            before.claimed = claimed  # it pulled before it noted its claim
            self.owner = node
            return before
        hold = QueueClaim(node, start, claimed, "handed_over")
        if before is not None:
            hold.earlier_in_flight = {**before.earlier_in_flight, **before.in_flight}
        self.claims[node] = hold
        self.owner = node
        return hold

    def start_new_group_at(self, offset: int, start_recheck_until_us: int) -> None:
        """A new group begins at *offset* or, if it queries again, up to the end of the queue.

        A lite pull member queries just before its first pull, until *start_recheck_until_us*.
        """
        if self.given_to <= self.start:  # no member was given anything
            self.began_to, self.start_recheck_until_us = (
                self.records.end_offset,
                start_recheck_until_us,
            )
            self._passes_over(offset)

    def _passes_over(self, offset: int) -> None:
        """Excuse messages before *offset* that were stored before the new group began."""
        last_us = self.records.stored_us(offset - 1)
        if last_us is not None and last_us <= self.start_recheck_until_us:
            self.began_to = max(self.began_to, offset)
        if self.began_to:
            self.excuse(self.start, min(offset, self.began_to), "began at the end")

    def resume_from(self, offset: int, node: str, now_us: int) -> None:
        """*node* reads new messages from *offset* on, unless other claims are still open.

        The broker answered *offset*: it does not have what was committed of the lost messages,
        as an elected slave does not that copied the offsets before.  An older offset that a slave
        answered does not change the master's: the next member may begin at the offset that was
        committed there before the loss.
        Upstream: RemoteBrokerOffsetStore.fetchConsumeOffsetFromBroker, which asks any slave.
        """
        if self.reused_to < offset <= self.reused_before[0] and offset == self.committed:
            self.reused_to = offset
        others = (hold for name, hold in self.claims.items() if name != node)
        if self.reused_to > offset and all(hold.ended_us is not None for hold in others):
            self.reused_before = self.reused_to, now_us
            self.reused_to = offset
            self.resumed_at = offset

    def resume_from_file(self, offset: int, written_us: int) -> None:
        """A restarted broadcasting member has in its file the *offset* of before its repair."""
        before, repaired_us = self.reused_before
        if repaired_us >= written_us and self.reused_to < offset <= before:
            self.reused_to = offset

    @property
    def is_broadcast(self) -> bool:
        """Whether the reader is one member, which keeps its own offsets."""
        return "@" in self.reader

    @property
    def has_lost_seek(self) -> bool:
        """Whether the owner sought an offset, and its next pull failed: it goes on where it was.

        It commits the offset of the seek until it consumes a message, also if its pulls are
        corrected.  Upstream: DefaultLitePullConsumerImpl.nextPullOffset, which forgets the seek
        before the pull; a correction changes only the offset of the next pull.
        """
        hold, refused = self.claims.get(self.owner), self.refused_pull
        if hold is None or hold.ended_us is not None or hold.sought is None or refused is None:
            return False
        offset, sought_us = hold.sought
        return offset == self.committed and refused.mono_us > max(self.consumed_us, sought_us)

    def was_forgotten(self, offset: int) -> bool:
        """Whether a lost seek leaves the owner behind the message, which it will not pull.

        It had pulled it, or another one there that the broker has lost.

        Upstream: DefaultLitePullConsumerImpl.seek clears the process queue, and the offset of
        the next pull stays (AssignedMessageQueue.setSeekOffset).
        """
        return offset < max(self.pulled_to, self.reused_to) and self.has_lost_seek

    def read_to(self) -> int:
        """The offset after the last consumed message."""
        return self.done.ends[-1] if self.done.ends else self.start

    def released(self, node: str, now_us: int) -> None:
        """*node* released the queue, or has ended."""
        hold = self.claims.get(node)
        if hold is not None and hold.ended_us is None:
            hold.ended_us = now_us

    def gives(
        self,
        node: str,
        offset: int,
        entry: Entry,
        *,
        polled: bool = False,
        asks_again: bool = False,
    ) -> QueueClaim:
        """A member is given the message at *offset*, rightly or not; return the claim.

        *polled*: by a lite pull consumer, which may pull its share before it claims it, and
        queries the start itself.
        *asks_again*: by an orderly consumer, which queries its start again under its lock.
        """
        hold, now_us = self.claims.get(node), entry.mono_us
        if hold is None or (polled and hold.ended_us is not None):
            since_us = now_us - (KNOWN_US if hold is None else ASKED_US)
            start = self.reported_offsets.lowest_since(since_us) if self.claims else 0
            hold = self.claims[node] = QueueClaim(node, start, None, "handed_over", now_us)
        asks_again = asks_again or (polled and bool(self.reported_offsets))
        if asks_again and not hold.given.ends and hold.claimed is not None:
            asked_us = hold.claimed.mono_us - (KNOWN_US if polled else 0)
            hold.start = min(hold.start, self.reported_offsets.lowest_since(asked_us))
        if hold.takes(offset):
            if offset < hold.start:
                self.misdelivered.add(offset)
            elif self.misdelivered:
                self.misdelivered.discard(offset)
        elif offset in hold.to_redeliver:
            hold.to_redeliver.discard(offset)
        else:
            self.misdelivered.add(offset)
        self.stale_to = 0
        if self.began_to or self.start_recheck_until_us:
            self._passes_over(offset)
            self.began_to = self.start_recheck_until_us = 0
        if offset >= self.given_to:
            if offset > self.given_to:
                self.ahead_deliveries.append((entry.mono_us, offset))
            self.given_to = offset + 1
        return hold

    def cause_of_repeat(self, node: str, offset: int) -> str:
        """The cause for which *node* may consume a message again; empty: there is none."""
        if offset in self.misdelivered:
            return ""
        hold = self.claims[node]
        return hold.cause_of_repeat(offset, self.claims.values())

    def seeks(self, offset: int, now_us: int, node: str) -> None:
        """*node* seeks *offset*: its next pull, if it succeeds, is from there."""
        if (hold := self.claims.get(node)) is not None:
            hold.sought = offset, now_us

    def move_to(self, offset: int, why: str, now_us: int, node: str = "") -> None:
        """*node*, or every member, continues at *offset* (a tool, ``seek``, a repair)."""
        for hold in self.claims.values():
            if node in ("", hold.node):
                hold.move_to(offset, why)
        self.start = min(self.start, offset)
        if not node or self.is_broadcast:  # a member of a group commits it first
            self.reported_offsets.add(offset, now_us)

    # Messages -----------------------------------------------------------------------------

    def takes(self, offset: int, key: str) -> bool:
        """Note that the message is consumed; return whether it was consumed before.

        A client may consume a message that its broker has lost meanwhile: another message has
        its offset, or will have it, and is not consumed by that.  A broadcasting member that had
        pulled it goes on behind it, as does any member that pulled it from a replaced master.
        """
        lost = self.records.lost
        if lost and lost.is_known(offset, key) and self.records.key_at(offset) != key:
            # Pulls of broadcasting members are not told apart, and a replaced master's not cut.
            if self.is_broadcast or lost.was_left_behind(offset, key):
                self.reads_on(offset + 1)
            was_done = self.lost_done.get(offset) == key
            self.lost_done[offset] = key
            return was_done
        if self.done.add(offset):
            return False
        if offset in self.skipped:  # excused before, and consumed now
            self.skipped.remove(offset)
            return False
        return True

    def reads_on(self, offset: int) -> None:
        """A member goes on at *offset*: it skips what will be stored, or is, before that."""
        self.reused_to = max(self.reused_to, offset)

    def excuse(self, start: int, end: int, cause: str) -> None:
        """Excuse messages from *start* to *end* that are not done: they are not owed."""
        for first, behind in list(self.done.holes(start, end)):
            self.excused[cause] = self.excused.get(cause, 0) + behind - first
            self.skipped.update(range(first, min(behind, first + SKIPPED_MAX)))
        self.done.add_run(start, end)

    def given_entries(self, offset: int) -> list[Entry]:
        """Entries that gave the message to members that have not finished it."""
        found = [
            hold.in_flight.get(offset) or hold.earlier_in_flight.get(offset)
            for hold in self.claims.values()
        ]
        return [entry for entry in found if entry is not None]

    def cut(self, offset: int) -> None:
        """The queue ends at *offset*: new messages use the places of lost ones.

        A reader that was beyond *offset* skips them: RocketMQ promises no more.
        """
        filtered_to = self.done.ends[-1] if self.done.ends else 0  # also filtered messages
        beyond = max(self.committed or 0, self.pulled_to, self.given_to, filtered_to)
        for first, behind in self.done.runs(max(offset, filtered_to - LOST_DONE_MAX), filtered_to):
            for each in range(first, behind):
                if each not in self.skipped and (key := self.records.lost.key_at(each)):
                    self.lost_done[each] = key
        self.done.cut(offset)
        self.skipped = {each for each in self.skipped if each < offset}
        self.misdelivered = {each for each in self.misdelivered if each < offset}
        self.pulled_to = min(self.pulled_to, offset)
        self.given_to = min(self.given_to, offset)
        self.start = min(self.start, offset)
        for lost in [each for each in self.failed if each >= offset]:
            del self.failed[lost]
        if beyond > offset:
            self.reused_to = max(self.reused_to, beyond)
        for hold in self.claims.values():
            hold.cut(offset)


# Kinds of topics ----------------------------------------------------------------------


TopicKind: TypeAlias = Literal["topic", "waiting", "retry", "dead", "half"]
HALF_TOPICS = (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)


def topic_kind_of(topic: str) -> TopicKind:
    """What a message stored in *topic* waits for."""
    if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
        return "retry"
    if topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        return "dead"
    if topic in HALF_TOPICS:
        return "half"
    return "waiting" if topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else "topic"
