"""Transactions: a message is seen after its commit only, and each end is carried out as told.

A half message is in no queue that a consumer reads.  Its producer ends the transaction, or answers
the broker's question about it (``transaction_checks``).  Each end of a transaction is one that a
producer has said, and each that reaches the broker is carried out.  A commit stores the half
message in the queue to which it was sent, with its key, its tags and all its bytes.

RocketMQ does not compare an end with the ends before it: an end that the producer sends while a
check is under way is carried out, and then the answer to the check, too.  So a message may be
committed as often as its producers said so; that is no violation.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rocketmq_emulator.checks.state.broker_roles import SLAVE
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.cluster_state import SET_TOO_SMALL
from rocketmq_emulator.checks.state.half_messages import HalfMessage
from rocketmq_emulator.checks.state.queue_records import topic_kind_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    EndTransactionRefused,
    HalfMessageSent,
    HalfMessageStored,
    LocalTransactionEnded,
    MessageConsumed,
    MessageStored,
    TransactionAnswered,
    TransactionEnded,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC

SEND_OK = "SEND_OK"
NOT_REPORTED = "not reported"  # in LocalTransactionEnded.error: the broker was told nothing
CARRIED_OUT_US = 10_000_000  # from an end at its producer to the same at the broker
SEEN_MAX = 100_000  # ends, by key, and keys
EXCUSED_ENDS = (
    "not carried out, and a fault touched broker or producer; or refused: it came too late, to a "
    "slave that acts as the master, or while too few replicas were in sync"
)
COUNTS = {  # metric: sentence
    "half_messages": "stored, whose transactions have to end",
    "committed": "whose transaction was committed",
    "rolled_back": "whose transaction was rolled back",
    "committed_again": "committed for a second time, after a check",
    "open_transactions": "half messages without an end, when the run ended",
}


class _End(NamedTuple):
    """An end of a transaction, as its producer or its broker notes it."""

    key: str
    outcome: str
    by_check: bool


class TransactionsAreSettled(Checker):
    """Server invariants 40 and 42, and client invariant 24."""

    name = "transactions"
    rule = (
        "a message of a transaction is seen after its commit only, as it was sent, and each end "
        "that its producer says is carried out"
    )
    metrics = (
        *(Metric(name, "messages", what, "topic") for name, what in COUNTS.items()),
        Metric("transaction_s_max", "s", "from half message to end", "topic", total="max"),
        Metric("excused_ends", "ends", EXCUSED_ENDS),
    )
    needs = (HalfMessageStored,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._halves = shared.progress.messages.halves
        self._said: dict[str, Counter[str]] = {}  # by key: how often producers said each outcome
        self._newest: dict[
            str, tuple[MessageStored, EntryKey]
        ] = {}  # by broker: of a half message
        self._unsafe: dict[str, tuple[str, EntryKey]] = {}  # by key: not SEND_OK, until its end
        self._unknown: list[tuple[HalfMessageSent, EntryKey]] = []  # acknowledged, and not stored
        self._due: dict[_End, tuple[str, EntryKey]] = {}  # said, not carried out yet; its broker
        self._carried_out: dict[_End, None] = {}  # noted by the broker, not by the producer yet
        self._refused: dict[tuple[str, str], int] = {}  # by broker name and key: when, the last

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            HalfMessageSent: self._half_sent,
            HalfMessageStored: self._half_stored,
            MessageStored: self._stored,
            MessageConsumed: self._consumed,
            LocalTransactionEnded: self._local_ended,
            TransactionAnswered: self._answered,
            TransactionEnded: self._ended,
            EndTransactionRefused: self._end_refused,
        }

    def end(self) -> None:
        """Check half messages that are open or unknown, and ends that are not carried out."""
        if self.cluster.last is None:
            return
        for broker in sorted(self._newest):
            self._was_not_committed(broker)
        for half in self._halves:
            if half.is_open:
                self.add_to_metric("open_transactions", 1, half.queue.topic)
        for fact, sent in self._unknown:
            self._is_half(fact, sent)
        for end, (broker, said) in self._due.items():
            self._was_not_carried_out(end, broker, said, self.cluster.now_us)
        for metric in self.metrics:
            self.add_to_metric(metric.name, 0)

    # Facts of clients -----------------------------------------------------------------------

    def _half_sent(self, fact: HalfMessageSent, entry: Entry) -> None:
        here = key_of(entry)
        if fact.status != SEND_OK:
            self._unsafe[fact.uniq_key] = fact.status, here
        half = self._halves.at(fact.queue.broker, fact.offset)
        if half is None or half.key != fact.uniq_key:
            self._unknown.append((fact, here))  # the broker's fact may come later
        elif half.queue != fact.queue:
            self.report_violation(
                f"{fact.uniq_key} was sent to {place_of(fact.queue)}, and its broker keeps it for "
                f"{place_of(half.queue)}",
                half.stored,
                here,
                node=half.broker,
            )

    def _is_half(self, fact: HalfMessageSent, sent: EntryKey) -> None:
        """Report an acknowledged half message that its broker has not stored as one."""
        broker, halves = fact.queue.broker, self._halves.by_key.get(fact.uniq_key, ())
        if broker not in self.cluster.stores or any(half.broker == broker for half in halves):
            return
        if self.cluster.disturbed((broker,), sent.mono_us - CARRIED_OUT_US, sent.mono_us):
            return  # it may have ended before it noted the message
        self.report_violation(
            f"{broker} acknowledged the half message {fact.uniq_key}, and stored none", sent
        )

    def _local_ended(self, fact: LocalTransactionEnded, entry: Entry) -> None:
        status, sent = self._unsafe.pop(fact.uniq_key, (SEND_OK, None))
        if sent is not None and fact.outcome != "rollback":
            self.report_violation(
                f"{fact.uniq_key} was stored with {status}, and its local transaction ran: "
                f"{fact.outcome}",
                sent,
                entry,
            )
        self._says(fact.uniq_key, fact.outcome, fact.error, entry)
        if NOT_REPORTED not in fact.error:
            end = _End(fact.uniq_key, fact.outcome, by_check=False)
            self._is_due(end, fact.queue.broker, entry)

    def _answered(self, fact: TransactionAnswered, entry: Entry) -> None:
        self._says(fact.uniq_key, fact.outcome, fact.error, entry)
        brokers = {half.broker for half in self._halves.by_key.get(fact.uniq_key, ())}
        if len(brokers) == 1:  # else it is not known which of them has asked
            self._is_due(_End(fact.uniq_key, fact.outcome, by_check=True), brokers.pop(), entry)

    def _says(self, key: str, outcome: str, error: str, entry: Entry) -> None:
        if error and not error.startswith(NOT_REPORTED) and outcome != "unknown":
            self.report_violation(
                f"the listener of {key} raised, and its producer says {outcome}", entry
            )
        self._said.setdefault(key, Counter())[outcome] += 1
        if len(self._said) > SEEN_MAX:
            del self._said[next(iter(self._said))]

    def _is_due(self, end: _End, broker: str, entry: Entry) -> None:
        """The producer has told *broker* this end."""
        if end.outcome == "unknown":
            return
        if end in self._carried_out:
            del self._carried_out[end]
            return
        self._due[end] = broker, key_of(entry)
        if len(self._due) > SEEN_MAX:
            del self._due[next(iter(self._due))]

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        halves = self._halves.by_key.get(fact.uniq_key)
        if not halves or fact.uniq_key in self.cluster.roles.replaced_commits:
            return  # a master that was replaced committed it
        if not any(half.commits for half in halves):
            self.report_violation(
                f"{fact.uniq_key} was consumed by {fact.group}, and its transaction was "
                f"{'rolled back' if halves[0].ended else 'not ended'}",
                halves[0].stored,
                entry,
            )

    # Facts of brokers -----------------------------------------------------------------------

    def _half_stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        self.add_to_metric("half_messages", 1, fact.queue.topic)

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        """A message of a transaction is stored: its commit must be noted before the next one."""
        kind = topic_kind_of(fact.queue.topic)
        if kind == "half":
            return  # its record of the end, in releases that write it at once
        if entry.node in self._newest:
            self._was_not_committed(entry.node)
        if kind in ("topic", "waiting") and fact.uniq_key in self._halves.by_key:
            self._newest[entry.node] = fact, key_of(entry)

    def _was_not_committed(self, broker: str) -> None:
        """Report a message that its broker has stored last, unless it was committed before."""
        fact, stored = self._newest.pop(broker)
        halves = self._halves.by_key.get(fact.uniq_key, ())
        if not halves or any(half.commits for half in halves):
            return  # it was retried, or had to wait for its time
        if fact.uniq_key in self.cluster.roles.replaced_commits:
            return  # a consumer of the replaced master sent it back to another broker
        self.report_violation(
            f"{fact.uniq_key} is in {place_of(fact.queue)}, and its transaction was "
            f"{'rolled back' if halves[0].ended else 'not ended'}",
            halves[0].stored,
            stored,
        )

    def _ended(self, fact: TransactionEnded, entry: Entry) -> None:
        here, half = key_of(entry), self._halves.at(entry.node, fact.offset)
        if fact.outcome == "commit":
            stored = self._newest.pop(entry.node, None)
            if half is not None:
                self._is_as_sent(half, stored, here)
        end = _End(fact.uniq_key, fact.outcome, fact.by_check)
        if self._due.pop(end, None) is None:
            self._carried_out[end] = None
            if len(self._carried_out) > SEEN_MAX:
                del self._carried_out[next(iter(self._carried_out))]
        if half is None:
            return
        self.count_tried()
        topic = fact.queue.topic
        if half.ended == here:
            took_s = (here.mono_us - half.stored.mono_us) / 1e6
            before_s = self.measured.get(f"transaction_s_max.{topic}", 0.0)
            self.set_metric("transaction_s_max", max(before_s, took_s), topic)
            done = "committed" if fact.outcome == "commit" else "rolled_back"
            self.add_to_metric(done, 1, topic)
        elif fact.outcome == "commit" and half.commits > 1:
            self.add_to_metric("committed_again", 1, topic)
        self._was_said(half, fact.outcome, here)

    def _is_as_sent(
        self, half: HalfMessage, newest: tuple[MessageStored, EntryKey] | None, here: EntryKey
    ) -> None:
        """Report a commit that has not stored the half message, or not as it was sent."""
        if newest is None or newest[0].uniq_key != half.key:
            self.report_violation(
                f"{half.key} was committed, and {half.broker} has not stored it in "
                f"{place_of(half.queue)}",
                half.stored,
                here,
            )
            return
        fact, stored = newest
        waits = topic_kind_of(fact.queue.topic) == "waiting"
        longer_bytes = len(fact.queue.topic) - len(TRANS_HALF_TOPIC)
        wrong = (
            f"is in {place_of(fact.queue)}, and was sent to {place_of(half.queue)}"
            if fact.queue != half.queue and not waits
            else f"has the tags {fact.tags!r}, and was sent with {half.tags!r}"
            if half.tags is not None and fact.tags != half.tags
            else f"has {fact.size_bytes} bytes: {half.size_bytes} were sent"
            if fact.size_bytes < half.size_bytes + longer_bytes
            else ""
        )
        if wrong:
            self.report_violation(f"{half.key} was committed, and {wrong}", half.stored, stored)

    def _was_said(self, half: HalfMessage, outcome: str, here: EntryKey) -> None:
        """Report an end that no producer has said, or not as often."""
        said = self._said.get(half.key)
        if said is None:
            return  # a foreign producer: the journal does not have its decisions
        if not said[outcome]:
            self.report_violation(
                f"{half.key} ended with a {outcome}, and its producers said "
                f"{' and '.join(sorted(said))}",
                half.stored,
                here,
            )
        elif outcome == "commit" and half.commits > said["commit"]:
            self.report_violation(
                f"{half.key} was committed {half.commits} times, and its producers said so "
                f"{said['commit']} times",
                half.stored,
                here,
            )

    def _end_refused(self, fact: EndTransactionRefused, entry: Entry) -> None:
        slave = SLAVE.fullmatch(entry.node)
        name = entry.node if slave is None else slave[1]
        if self._may_be_refused(fact, name, entry):
            # Facts of older versions have no key.
            self._refused[name, fact.uniq_key or fact.group] = entry.mono_us
            if len(self._refused) > SEEN_MAX:
                del self._refused[next(iter(self._refused))]

    def _may_be_refused(self, fact: EndTransactionRefused, name: str, entry: Entry) -> bool:
        """Whether RocketMQ refuses that end, too.

        It came too late, and a check decides (EndTransactionProcessor.rejectCommitOrRollback); it
        came to a slave that acts as the master in the producer's route (processRequest); or too
        few replicas are in sync to store the message (sendFinalMessage).
        """
        match fact.response_code:
            case ResponseCode.ILLEGAL_OPERATION:
                return True
            case ResponseCode.SLAVE_NOT_AVAILABLE:
                escapes = self.progress.messages.escapes
                return entry.node != name and escapes.may_be_asked(name, entry.mono_us)
        return fact.remark == SET_TOO_SMALL and (
            self.cluster.lacks_slaves(name, entry.mono_us)
            or self.cluster.stores_nothing(name, entry.mono_us)
        )

    def _was_not_carried_out(self, end: _End, broker: str, said: EntryKey, now_us: int) -> None:
        """Report an end that its broker must have got, and has not carried out."""
        halves = [h for h in self._halves.by_key.get(end.key, ()) if h.broker == broker]
        if now_us - said.mono_us <= CARRIED_OUT_US or not halves:
            return
        self.count_tried()
        nodes, half = (broker, said.node), halves[0]
        since_us, until_us = said.mono_us - CARRIED_OUT_US, said.mono_us + CARRIED_OUT_US
        was_refused = any(
            self._refused.get((broker, each), 0) >= said.mono_us for each in (end.key, half.group)
        )
        is_gone = any(self.cluster.is_gone(node) for node in nodes)
        if is_gone or was_refused or self.cluster.disturbed(nodes, since_us, until_us):
            self.add_to_metric("excused_ends", 1)
            return
        self.report_violation(
            f"{said.node} told {broker} to end {end.key} with a {end.outcome}, and it did not",
            half.stored,
            said,
            node=broker,
        )
