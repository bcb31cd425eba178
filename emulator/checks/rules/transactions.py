"""Transactions: a message is seen after its commit only, and each half message is settled.

A half message is in no queue that a consumer reads.  Its producer ends the transaction; if the
broker hears of no end, it asks a producer of the same group, again at each of its checks, and
gives the message up after ``transactionCheckMax`` of them.  While the message is immune by a
property of its own, a check asks nobody and counts all the same.  Each end of a transaction is one
that a producer has said.

RocketMQ does not compare an end with the ends before it: an end that the producer sends while a
check is under way is carried out, and then the answer to the check, too.  So a message may be
committed as often as its producers said so.  Since 5.1.0 the record of an end is written up to
3 s later: a broker that dies in between asks again.  Both are no violation.
"""

from __future__ import annotations

from collections import Counter

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
    numbers_of,
)
from rocketmq_emulator.checks.state.half_messages import HalfMessage
from rocketmq_emulator.checks.state.queue_records import topic_kind_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LocalTransactionEnded,
    MessageConsumed,
    MessageStored,
    NodeStarted,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

CHECKED_EVERY_US = 60_000_000  # transactionCheckInterval up to 5.1.0
CHECKED_OFTENER, OFTENER_US = (5, 1, 1), 30_000_000
FIRST_AFTER_US = 6_000_000  # transactionTimeOut
OPS_IN_BATCHES, BATCH_US = (5, 1, 0), 3_000_000  # transactionOpBatchInterval
CHECKS_MAX = 15  # transactionCheckMax
SLACK_US = 10_000_000  # for a pass over all half messages, and for a busy broker
ANSWER_US_MAX = 10_000_000  # from a check to its answer, with the listener's time
CONNECTED_US = 65_000_000  # a producer is known at a broker after two heartbeats
RETAINED_US = 72 * 3_600_000_000  # fileReservedTime
SEND_OK = "SEND_OK"
SEEN_MAX = 100_000  # keys of ends that producers said
COUNTS = {  # metric: sentence
    "half_messages": "stored, whose transactions have to end",
    "committed": "whose transaction was committed",
    "rolled_back": "whose transaction was rolled back",
    "committed_again": "committed for a second time, after a check",
    "given_up": "half messages that were given up",
    "open_transactions": "half messages without an end, when the run ended",
    "ends_forgotten": "asked about after their end: a broker died, or they were immune",
}


class TransactionsAreSettled(Checker):
    """Server invariants 40, 41 and 42, and client invariant 24."""

    name = "transactions"
    rule = (
        "a message of a transaction is seen after its commit only, as its producer said, and a "
        "half message that nobody ends is asked about in time"
    )
    metrics = (
        *(Metric(name, "messages", what, "topic") for name, what in COUNTS.items()),
        Metric("transaction_checks", "checks", "of half messages without an end", "topic"),
        Metric("unasked_checks", "checks", "of these: nobody of the group was connected", "topic"),
        Metric("immune_checks", "checks", "counted, and nobody was asked: it was immune", "topic"),
        Metric("transaction_s_max", "s", "from half message to end", "topic", total="max"),
        Metric("excused_late_checks", "messages", "late, and a fault touched their broker"),
    )
    needs = (HalfMessageStored,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._halves = shared.progress.messages.halves
        self._releases: dict[str, tuple[int, ...]] = {}  # by broker
        self._said: dict[str, Counter[str]] = {}  # by key: how often producers said each outcome
        self._producers: dict[str, dict[str, None]] = {}  # by group: their nodes
        self._uncommitted: dict[str, tuple[MessageStored, EntryKey]] = {}  # by broker: stored last
        self._asked: dict[str, tuple[HalfMessage, EntryKey]] = {}  # by key: without an answer
        self._unsafe: dict[str, tuple[str, EntryKey]] = {}  # by key: not SEND_OK, until its end
        self._since: dict[HalfMessage, EntryKey] = {}  # open ones: stored, or last asked about

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeStarted: self._started,
            HalfMessageSent: self._half_sent,
            HalfMessageStored: self._half_stored,
            MessageStored: self._stored,
            MessageConsumed: self._consumed,
            LocalTransactionEnded: self._local_ended,
            TransactionAnswered: self._answered,
            TransactionChecked: self._checked,
            ImmuneHalfStoredAgain: self._immune,
            TransactionEnded: self._ended,
            TransactionGivenUp: self._given_up,
        }

    def end(self) -> None:
        """Check half messages that are open, and checks without an answer."""
        if self.cluster.last is None:
            return
        here = key_of(self.cluster.last)
        for broker in sorted(self._uncommitted):
            self._was_not_committed(broker)
        for half, since in self._since.items():
            if half.is_open:
                self.add_to_metric("open_transactions", 1, half.queue.topic)
                self._is_in_time(half, since, here)
        for half, asked in self._asked.values():
            self._has_answer(half, asked, here)
        for metric in self.metrics:
            self.add_to_metric(metric.name, 0)

    # Facts of clients -----------------------------------------------------------------------

    def _half_sent(self, fact: HalfMessageSent, entry: Entry) -> None:
        if fact.status != SEND_OK:
            self._unsafe[fact.uniq_key] = fact.status, key_of(entry)

    def _local_ended(self, fact: LocalTransactionEnded, entry: Entry) -> None:
        status, sent = self._unsafe.pop(fact.uniq_key, (SEND_OK, None))
        if sent is not None and fact.outcome != "rollback":
            self.report_violation(
                f"{fact.uniq_key} was stored with {status}, and its local transaction ran: "
                f"{fact.outcome}",
                sent,
                entry,
            )
        self._says(fact.uniq_key, fact.outcome)
        self._producers.setdefault(fact.group, {})[entry.node] = None

    def _answered(self, fact: TransactionAnswered, entry: Entry) -> None:
        self._says(fact.uniq_key, fact.outcome)
        self._producers.setdefault(fact.group, {})[entry.node] = None
        if (asked := self._asked.pop(fact.uniq_key, None)) is not None:
            self._has_answer(*asked, key_of(entry))

    def _says(self, key: str, outcome: str) -> None:
        self._said.setdefault(key, Counter())[outcome] += 1
        if len(self._said) > SEEN_MAX:
            del self._said[next(iter(self._said))]

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        halves = self._halves.by_key.get(fact.uniq_key)
        if halves and not any(half.commits for half in halves):
            self.report_violation(
                f"{fact.uniq_key} was consumed by {fact.group}, and its transaction was "
                f"{'rolled back' if halves[0].ended else 'not ended'}",
                halves[0].stored,
                entry,
            )

    # Facts of brokers -----------------------------------------------------------------------

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._releases[entry.node] = numbers_of(fact.release)

    def _half_stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        half = self._halves.at(entry.node, fact.offset)
        self.add_to_metric("half_messages", 1, fact.queue.topic)
        if half is not None:
            self._since[half] = key_of(entry)

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        """A message of a transaction is stored: its commit must be noted before the next one."""
        if topic_kind_of(fact.queue.topic) == "half":
            return  # its record of the end, in releases that write it at once
        if entry.node in self._uncommitted:
            self._was_not_committed(entry.node)
        halves = self._halves.by_key.get(fact.uniq_key)
        if not halves:
            return
        is_first = not any(half.commits for half in halves)
        if is_first and topic_kind_of(fact.queue.topic) in ("topic", "waiting"):
            self._uncommitted[entry.node] = fact, key_of(entry)

    def _was_not_committed(self, broker: str) -> None:
        fact, stored = self._uncommitted.pop(broker)
        half = self._halves.by_key[fact.uniq_key][0]
        self.report_violation(
            f"{fact.uniq_key} is in {place_of(fact.queue)}, and its transaction was "
            f"{'rolled back' if half.ended else 'not ended'}",
            half.stored,
            stored,
        )

    def _checked(self, fact: TransactionChecked, entry: Entry) -> None:
        topic, half = fact.queue.topic, self._halves.at(entry.node, fact.copy_offset)
        self.add_to_metric("transaction_checks", 1, topic)
        self.count_tried()
        if half is None:
            return
        here = key_of(entry)
        if half.ended is not None:
            self._was_forgotten(half, here)
            return
        since = self._since.get(half, half.stored)
        self._is_in_time(half, since, here)
        self._since[half] = here
        if fact.check_times > self._checks_max(entry.node):
            self.report_violation(
                f"{half.key} was asked about for the {fact.check_times}th time", half.stored, here
            )
        if (before := self._asked.pop(half.key, None)) is not None:
            self._has_answer(*before, here)
        if fact.client:
            self._asked[half.key] = half, here
            return
        self.add_to_metric("unasked_checks", 1, topic)
        if connected := self._connected(half, here):
            self.report_violation(
                f"nobody was asked about {half.key}, and {connected} of its group runs",
                half.stored,
                here,
            )

    def _immune(self, fact: ImmuneHalfStoredAgain, entry: Entry) -> None:
        """A check that asks nobody: it counts, and the next one is due an interval later."""
        half = self._halves.at(entry.node, fact.copy_offset)
        if half is not None and half.ended is None:
            here = key_of(entry)
            self._is_in_time(half, self._since.get(half, half.stored), here)
            self._since[half] = here
            self.add_to_metric("immune_checks", 1, fact.queue.topic)

    def _ended(self, fact: TransactionEnded, entry: Entry) -> None:
        here, stored = key_of(entry), self._uncommitted.get(entry.node)
        if stored is not None and fact.outcome == "commit" and stored[0].uniq_key == fact.uniq_key:
            del self._uncommitted[entry.node]
        half = self._halves.at(entry.node, fact.offset)
        if half is None:
            return
        self.count_tried()
        topic, is_first = fact.queue.topic, half.ended == here
        if is_first:
            self._since.pop(half, None)
            took_s = (here.mono_us - half.stored.mono_us) / 1e6
            before_s = self.measured.get(f"transaction_s_max.{topic}", 0.0)
            self.set_metric("transaction_s_max", max(before_s, took_s), topic)
            done = "committed" if fact.outcome == "commit" else "rolled_back"
            self.add_to_metric(done, 1, topic)
        elif fact.outcome == "commit" and half.commits > 1:
            self.add_to_metric("committed_again", 1, topic)
        said = self._said.get(half.key)
        if said is None:
            return  # a foreign producer: the journal does not have its decisions
        if not said[fact.outcome]:
            self.report_violation(
                f"{half.key} ended with a {fact.outcome}, and its producers said "
                f"{' and '.join(sorted(said))}",
                half.stored,
                here,
            )
        elif fact.outcome == "commit" and half.commits > said["commit"]:
            self.report_violation(
                f"{half.key} was committed {half.commits} times, and its producers said so "
                f"{said['commit']} times",
                half.stored,
                here,
            )

    def _given_up(self, fact: TransactionGivenUp, entry: Entry) -> None:
        self.add_to_metric("given_up", 1, fact.queue.topic)
        half = self._halves.at(entry.node, fact.offset)
        if half is None:
            return
        self._since.pop(half, None)
        self.count_tried()
        if fact.check_times < self._checks_max(entry.node) and not self._is_old(half, entry):
            self.report_violation(
                f"{half.key} was given up after {fact.check_times} checks", half.stored, entry
            )

    # Times ----------------------------------------------------------------------------------

    def _is_in_time(self, half: HalfMessage, since: EntryKey, here: EntryKey) -> None:
        """Report a half message that nobody was asked about for too long."""
        limit_us = self._every_us(half.broker) + self._immune_us(half.broker) + SLACK_US
        if here.mono_us - since.mono_us <= limit_us:
            return
        moved_us = self.cluster.clock_moved_us(half.broker, half.stored.mono_us, here.mono_us)
        quiet_us = self.cluster.undisturbed_us((half.broker,), since.mono_us, here.mono_us)
        if quiet_us <= limit_us + moved_us or self.cluster.is_gone(half.broker):
            self.add_to_metric("excused_late_checks", 1)
            return
        self.report_violation(
            f"nobody was asked about {half.key} of {half.group} for "
            f"{(here.mono_us - since.mono_us) / 1e6:.0f} s",
            half.stored,
            since,
            here,
            node=half.broker,
        )

    def _has_answer(self, half: HalfMessage, asked: EntryKey, here: EntryKey) -> None:
        """Report a check that no producer answers, although its group runs undisturbed."""
        producers = tuple(self._producers.get(half.group, ()))
        if not producers or here.mono_us - asked.mono_us <= ANSWER_US_MAX:
            return
        nodes = (half.broker, *producers)
        since_us, until_us = asked.mono_us - CONNECTED_US, asked.mono_us + ANSWER_US_MAX
        if self.cluster.touched(nodes, since_us, until_us) or self._has_gone(nodes):
            return
        self.report_violation(
            f"{half.broker} asked about {half.key}, and no producer of {half.group} answers",
            half.stored,
            asked,
            here,
            node=half.broker,
        )

    def _connected(self, half: HalfMessage, here: EntryKey) -> str:
        """A producer of the group that the broker must know; empty: there may be none."""
        since_us = here.mono_us - CONNECTED_US
        for node in self._producers.get(half.group, ()):
            nodes = (half.broker, node)
            if not self._has_gone(nodes) and not self.cluster.touched(
                nodes, since_us, here.mono_us
            ):
                return node
        return ""

    def _was_forgotten(self, half: HalfMessage, here: EntryKey) -> None:
        """The broker asks about a transaction that has ended: it has lost the end's record."""
        assert half.ended is not None
        self.add_to_metric("ends_forgotten", 1, half.queue.topic)
        has_batches = self._releases.get(half.broker, ()) >= OPS_IN_BATCHES
        window_us = BATCH_US + SLACK_US if has_batches else 0
        ended_us = half.ended.mono_us
        died = self.cluster.disturbed((half.broker,), ended_us, ended_us + window_us)
        promise = self.cluster.stores.get(half.broker)
        is_kept = promise is not None and promise.outlives_process
        excused = died or half.was_immune or self._lost_power(half.broker, ended_us, here.mono_us)
        if is_kept and not excused:
            self.report_violation(
                f"{half.key} has ended, and its producers are asked about it again",
                half.stored,
                half.ended,
                here,
            )

    def _lost_power(self, broker: str, since_us: int, until_us: int) -> bool:
        """Whether the broker may have lost the record of an end with the power in that time."""
        return any(
            fault.word in ("power_off", "failing_flush")
            and broker in fault.nodes
            and fault.held(since_us, until_us)
            for fault in self.cluster.all_faults
        )

    def _has_gone(self, nodes: tuple[str, ...]) -> bool:
        return any(self.cluster.is_gone(node) for node in nodes)

    # Settings of the brokers ----------------------------------------------------------------

    def _every_us(self, broker: str) -> int:
        own = OFTENER_US if self._releases.get(broker, ()) >= CHECKED_OFTENER else CHECKED_EVERY_US
        given = self._setting(broker, "transaction_check_interval_ms")
        return own if given is None else given * 1_000

    def _immune_us(self, broker: str) -> int:
        given = self._setting(broker, "transaction_immunity_ms")
        return FIRST_AFTER_US if given is None else given * 1_000

    def _checks_max(self, broker: str) -> int:
        given = self._setting(broker, "transaction_checks_max")
        return CHECKS_MAX if given is None else given

    def _setting(self, broker: str, name: str) -> int | None:
        """The setting by the plan, in its own unit; None: the plan does not have it."""
        cluster = self.cluster.plan.get("cluster", {})
        own = cluster.get("settings_of", {}).get(broker, {}).get(name)
        given = cluster.get("broker_settings", {}).get(name) if own is None else own
        return int(given) if isinstance(given, int | float) else None

    @staticmethod
    def _is_old(half: HalfMessage, entry: Entry) -> bool:
        """Whether its broker may drop it for its age (fileReservedTime)."""
        return entry.mono_us - half.stored.mono_us >= RETAINED_US
