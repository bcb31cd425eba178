"""Half messages of transactions: their records in the half topic, checks, and ends.

A half message is stored in the half topic of its broker, where no consumer reads it.  Each check
stores it there again, behind the others, and asks its producer's group.  A commit stores it in the
queue it was sent to; a rollback stores nothing.  An end of a transaction may name any of its
records, so a message that was asked about and is ended at the same moment may be committed twice.

Tables have limits; the oldest half messages are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rocketmq_emulator.checks.state.queue_records import QueueRecords
from rocketmq_emulator.facts import (
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MessageStored,
    Queue,
    TransactionChecked,
)
from rocketmq_emulator.facts.journal import EntryKey

HALVES_MAX = 100_000


class HalfRecord(NamedTuple):
    """A record of a half message: how many checks made it, and when it was stored."""

    check_times: int | None  # None: not known, an acting master sent it with the count that it had
    stored: EntryKey


class HalfMessage(msgspec.Struct, eq=False):
    """One half message; a send that was retried may have stored several with one key."""

    key: str
    queue: Queue  # to which it was sent
    group: str  # its producers
    records: QueueRecords  # of the half topic
    stored: EntryKey
    offset: int  # of its newest record in the half topic
    own_immunity_ms: int  # -1: as the broker's
    tags: str | None  # None: not known
    size_bytes: int  # of its first record; 0: not known
    sent: EntryKey | None = None  # its producer's HalfMessageSent
    checked: EntryKey | None = None  # the last check
    check_times: int = 0
    commits: int = 0
    ended: EntryKey | None = None  # the first commit or rollback
    given_up: EntryKey | None = None
    escaped: EntryKey | None = None  # an acting master sent it to another broker, which asks
    skipped: EntryKey | None = None  # an acting master gave it up: nobody has to ask
    is_lost: bool = False  # its broker lost all its records with the end of its log
    has_lost_copy: bool = False  # the newest: its broker may have read its older records for good
    by_offset: dict[int, HalfRecord] = {}  # its records, the oldest first
    ends: dict[int, EntryKey] = {}  # by the record that it named: the first one

    @property
    def broker(self) -> str:
        """The broker that has it."""
        return self.records.queue.broker

    @property
    def is_open(self) -> bool:
        """Whether its broker has to ask about it."""
        return not (self.ended or self.given_up or self.escaped or self.skipped or self.is_lost)


class HalfMessages:
    """All half messages, by key, and by broker and offset in the half topic."""

    def __init__(self) -> None:
        self.by_key: dict[str, list[HalfMessage]] = {}
        self._at: dict[tuple[str, int], HalfMessage] = {}
        self._all: dict[HalfMessage, None] = {}  # the oldest first
        self.newest: dict[str, MessageStored] = {}  # by broker: stored last, of transactions

    def stored(self, fact: HalfMessageStored, records: QueueRecords, at: EntryKey) -> HalfMessage:
        """Add a half message, which the broker has just stored in *records*."""
        newest = self.newest.get(records.queue.broker)
        is_known = newest is not None and newest.offset == fact.offset
        half = HalfMessage(
            fact.uniq_key,
            fact.queue,
            fact.group,
            records,
            at,
            fact.offset,
            fact.own_immunity_ms,
            newest.tags if is_known and newest is not None else None,
            newest.size_bytes if is_known and newest is not None else 0,
        )
        is_escaped = any(other.broker != half.broker for other in self.by_key.get(half.key, ()))
        self.by_key.setdefault(half.key, []).append(half)
        self._all[half] = None
        self._place(half, fact.offset, HalfRecord(None if is_escaped else 0, at))
        if len(self._all) > HALVES_MAX:
            self._drop(next(iter(self._all)))
        return half

    def at(self, broker: str, offset: int) -> HalfMessage | None:
        """The half message with a record at *offset* of the broker's half topic, if known."""
        return self._at.get((broker, offset))

    def sent(self, fact: HalfMessageSent, at: EntryKey) -> None:
        """A broker has acknowledged the half message."""
        half = self.at(fact.queue.broker, fact.offset)
        if half is not None:
            half.sent = half.sent or at

    def checked(
        self, fact: TransactionChecked | ImmuneHalfStoredAgain, at: EntryKey, node: str
    ) -> HalfMessage | None:
        """The half message was stored again, and its group maybe asked.  None: it is not known."""
        half = self.at(node, fact.offset)
        if half is not None:
            half.checked, half.check_times = at, fact.check_times
            self._place(half, fact.copy_offset, HalfRecord(fact.check_times, at))
        return half

    def cut(self, broker: str, offset: int) -> None:
        """The broker lost its half topic from *offset* on: older records of a message stay."""
        for half in self._all:
            if half.broker != broker or half.offset < offset:
                continue
            for lost in [each for each in half.by_offset if each >= offset]:
                del half.by_offset[lost]
                if self._at.get((broker, lost)) is half:
                    del self._at[broker, lost]
            half.is_lost, half.has_lost_copy = not half.by_offset, True
            half.offset = next(reversed(half.by_offset), half.offset)

    def has_again(self, half: HalfMessage, record: HalfRecord, offset: int) -> None:
        """An elected master has a record that its broker had lost before."""
        self._place(half, offset, record)
        half.is_lost = False

    def __iter__(self) -> Iterator[HalfMessage]:
        """Every half message, the oldest first."""
        return iter(self._all)

    def _place(self, half: HalfMessage, offset: int, record: HalfRecord) -> None:
        half.offset, half.has_lost_copy = offset, False
        self._at[half.broker, offset] = half
        half.by_offset[offset] = record

    def _drop(self, half: HalfMessage) -> None:
        del self._all[half]
        for offset in half.by_offset:
            if self._at.get((half.broker, offset)) is half:
                del self._at[half.broker, offset]
        alike = self.by_key[half.key]
        alike.remove(half)
        if not alike:
            del self.by_key[half.key]
