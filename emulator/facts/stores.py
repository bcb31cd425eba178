"""Facts of stores: messages appended, delayed, flushed, recovered, dropped, refused.

Timer messages (5.x) have a time of delivery: they wait for it and are delivered, recalled or lost.
Half messages wait for the outcome of their transaction.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from rocketmq_emulator.facts.fact import Fact, Queue, Severity


class MessageStored(Fact, frozen=True, omit_defaults=True):
    """A message was appended to the commit log and to its queue."""

    queue: Queue
    offset: int  # in the queue
    position: int  # in the commit log, in bytes
    uniq_key: str
    size_bytes: int  # of the record
    tags: str = ""  # left out if the message has none
    real_topic: str = ""  # of a delayed message: the topic to which it is delivered when it is due
    user_properties: tuple[str, ...] = ()  # as name=value, if the broker filters by SQL92


class DelayedDelivered(Fact, frozen=True):
    """A delayed message's time has come: it was stored in the queue it was sent to."""

    queue: Queue
    delay_level: int  # at which it waited
    late_by_ms: int  # how long after its time


class DelayedMessageDropped(Fact, frozen=True):
    """A delayed message could not be stored in the queue it was sent to, and is lost."""

    severity: ClassVar[Severity] = "error"

    queue: Queue
    delay_level: int  # at which it waited
    reason: str
    uniq_key: str


class LogFlushed(Fact, frozen=True):
    """The commit log is on the disk up to a position: a power loss keeps what is below it."""

    severity: ClassVar[Severity] = "debug"

    position: int  # in the commit log, in bytes: the end of the flushed part
    flushed_bytes: int  # by this flush
    message_count: int  # messages in those bytes


class FlushFailed(Fact, frozen=True):
    """The disk refused a flush: a power loss may delete everything from this position on.

    Noted once, not for every try, until a flush succeeds again.
    """

    severity: ClassVar[Severity] = "error"
    advice: ClassVar[str] = "check the disk"

    position: int  # in the commit log, in bytes: the end of the flushed part
    error: str


class PowerLost(Fact, frozen=True):
    """A machine lost power: of the bytes not flushed, a random part was kept.

    Messages whose records end beyond ``kept_position`` are lost.
    """

    severity: ClassVar[Severity] = "warning"

    flushed_position: int  # in the commit log, in bytes: the end of the flushed part
    kept_position: int  # the end of the kept part, at or after it
    end_position: int  # the end of all appended records
    documents: tuple[str, ...]  # files that went back to their former content


class StoreOpened(Fact, frozen=True, omit_defaults=True):
    """A broker opened its store; the fields are the guarantees of the store."""

    severity: ClassVar[Severity] = "debug"

    flush_disk_type: Literal["SYNC_FLUSH", "ASYNC_FLUSH"]  # sync: flush, then acknowledge
    outlives_process: bool  # the next process finds the written messages; else none
    retained_hours_max: int  # older messages may be deleted
    slaves_awaited: int = 0  # that have a message before SEND_OK; left out if 0
    awaits_sync_state_set: bool = False  # all slaves of that set have it; left out if not


class LogRecovering(Fact, frozen=True):
    """A broker that starts has read a part of the commit log that it found in its store."""

    done_bytes: int  # from the oldest message on
    total_bytes: int  # an estimate


class TimersRecovering(Fact, frozen=True):
    """A broker that starts has read a part of the timer messages that it found in its log."""

    done_count: int  # messages
    total_count: int  # in the queue of the timer topic


class LogRecovered(Fact, frozen=True):
    """A broker has read the commit log that it found in its store."""

    message_count: int  # that it holds
    min_position: int  # of the oldest, in bytes
    end_position: int  # after the newest, in bytes


class LogTailCut(Fact, frozen=True):
    """The commit log in a store has an incomplete record: it ends there, the rest is lost."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = (
        "only a copy of the store has the lost messages: stop the broker and put that back"
    )

    position: int  # in the commit log, in bytes: its end now
    reason: str
    message_count: int  # records lost, at least
    cut_bytes: int  # lost, without the zeros at the end
    file: str  # below the folder of the store
    file_position: int  # in that file, in bytes

    def sentence(self) -> str:
        return (
            f"{self.file} is damaged at byte {self.file_position} ({self.reason}): "
            f"the rest was cut off and is lost, at least {_messages(self.message_count)} "
            f"({self.cut_bytes} bytes); {self.advice}"
        )


class DocumentDamaged(Fact, frozen=True):
    """A table in a store cannot be read: the copy before it is used, or the table is empty."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "to restore the file, stop the broker and put back a copy"

    file: str  # below the folder of the store
    reason: str
    used_file: str  # the file that was read instead; empty: none

    def sentence(self) -> str:
        instead = "no other file is read: its content is lost"
        if self.used_file:
            instead = f"{self.used_file} is used, without the last changes"
        return f"{self.file} cannot be read ({self.reason}): {instead}; {self.advice}"


class OddFileFound(Fact, frozen=True):
    """A file in a store is unexpected or invalid, and is not used."""

    severity: ClassVar[Severity] = "warning"

    file: str  # below the folder of the store
    reason: str

    def sentence(self) -> str:
        return f"{self.file} {self.reason}"


class MessagesWithoutTopic(Fact, frozen=True):
    """A broker found messages of topics that its table of topics does not have."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "create these topics again to read their messages"

    topics: tuple[str, ...]  # their names, at most 10
    message_count: int  # of all such topics

    def sentence(self) -> str:
        return (
            f"{_messages(self.message_count)} of topics that are missing in config/topics.json "
            f"({', '.join(self.topics)}): they cannot be read; {self.advice}"
        )


class OffsetsBeyondLog(Fact, frozen=True):
    """Groups have consumed further than the log reaches: its end was lost.

    New messages get the offsets of the lost ones, and those groups skip them.
    """

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "put back a copy of the log, or reset the offsets of these groups"

    groups: tuple[str, ...]  # their names, at most 10
    message_count: int  # committed beyond the ends of the queues, over all queues

    def sentence(self) -> str:
        return (
            f"groups have consumed {_messages(self.message_count)} beyond the end of the log "
            f"({', '.join(self.groups)}): it lost its end, or a topic was created again; "
            f"these groups skip as many new messages; {self.advice}"
        )


class OldestDropped(Fact, frozen=True):
    """The oldest messages, those before ``min_position``, were deleted (retention)."""

    min_position: int  # in the commit log, in bytes
    freed_bytes: int  # of memory or disk


class StoreRefused(Fact, frozen=True):
    """The disk is full or not writable; nothing was stored and nothing was lost.

    Noted once, not for every sender, until something can be written again.
    """

    severity: ClassVar[Severity] = "error"
    advice: ClassVar[str] = "free some room, or choose a folder on another disk"

    reason: str


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


# Timer messages -----------------------------------------------------------------------


class TimerMessagePutAside(Fact, frozen=True):
    """A message waits in the timer topic until its time has come."""

    queue: Queue  # to which it was sent
    offset: int  # in the queue of the timer topic
    out_ms: (
        int  # wall time; the message is delivered when the clock has passed the slot of this time
    )
    uniq_key: str


class TimerMessageRolled(Fact, frozen=True):
    """A message whose time is beyond the roll window was stored again, to wait longer."""

    queue: Queue  # to which it was sent
    offset: int  # of the old record, in the queue of the timer topic
    roll_times: int  # how often this happened to it, this time included
    uniq_key: str


class TimerMessageDelivered(Fact, frozen=True):
    """A timer message's time has come: it was stored in the queue it was sent to."""

    queue: Queue
    offset: int  # in the queue of the timer topic
    late_by_ms: int  # how long after its slot had passed
    uniq_key: str


class TimerMessageRecalled(Fact, frozen=True):
    """A timer message's time has come, but it was recalled before: it is not delivered."""

    queue: Queue  # to which it was sent
    offset: int  # in the queue of the timer topic
    uniq_key: str


class TimerMessageDropped(Fact, frozen=True):
    """A timer message could not be stored in the queue it was sent to, and is lost."""

    severity: ClassVar[Severity] = "error"

    queue: Queue
    offset: int  # in the queue of the timer topic
    reason: str
    uniq_key: str


# Transactions -------------------------------------------------------------------------


class HalfMessageStored(Fact, frozen=True):
    """A half message was put aside: it is delivered only if its transaction is committed."""

    queue: Queue  # to which it was sent
    offset: int  # in the queue of the half topic
    position: int  # in the commit log, in bytes
    group: str  # the producer's
    uniq_key: str
    own_immunity_ms: int  # not asked about before, by its own property; -1: as the broker's


class TransactionEnded(Fact, frozen=True):
    """A producer committed or rolled back a transaction; a commit stored the message again."""

    queue: Queue  # to which the half message was sent
    offset: int  # in the queue of the half topic
    outcome: Literal["commit", "rollback"]  # as the producer answered
    group: str  # the producer's
    by_check: bool  # it answered a check
    stored_offset: int  # of the committed message in its queue; -1: none, or it waits for its time
    uniq_key: str


class EndTransactionRefused(Fact, frozen=True):
    """A broker refused to end a transaction: its half message stays as it was."""

    severity: ClassVar[Severity] = "warning"

    group: str  # that asked for it
    topic: str  # to which the half message was sent; empty: no such message, or of no transaction
    response_code: int  # the reason
    remark: str
    uniq_key: str = ""  # of the half message, as the broker found it or the request names it


class TransactionChecked(Fact, frozen=True):
    """A half message without an outcome was stored again, and its group was asked for it."""

    queue: Queue  # to which the half message was sent
    offset: int  # of the record that was checked, in the queue of the half topic
    copy_offset: int  # of the record that the answer and the next check are about
    check_times: int  # this one included
    client: str  # that was asked; empty: no member of the group was connected
    group: str  # the producer's
    uniq_key: str


class ImmuneHalfStoredAgain(Fact, frozen=True):
    """A half message is immune by its own property: it was stored again, and nobody was asked.

    That counts as a check: the property is CHECK_IMMUNITY_TIME_IN_SECONDS.
    """

    queue: Queue  # to which the half message was sent
    offset: int  # of the record that was checked, in the queue of the half topic
    copy_offset: int  # of the record that the next check is about
    check_times: int  # this one included
    immune_for_ms: int  # from now on
    group: str  # the producer's
    uniq_key: str


class TransactionGivenUp(Fact, frozen=True):
    """A half message without an outcome is not checked any more, and is not delivered."""

    severity: ClassVar[Severity] = "warning"

    queue: Queue  # to which the half message was sent
    offset: int  # of the record, in the queue of the half topic
    check_times: int  # how often its group was to be asked
    reason: str
    uniq_key: str
