"""Half messages that nobody ends: their brokers ask in time, not too early, and not too often.

If a broker hears of no end of a transaction, it asks a producer of the same group: not before the
message's immunity has passed, then at each of its checks, and it gives the message up after
``transactionCheckMax`` of them.  Each check stores the message again, with a count that is one
higher; that record is the next check's.

With allAckInSyncStateSet a half message is read once each slave of the sync-state set has it: the
time in which to ask about it begins then.  Upstream: CommitLog.getConfirmOffset, which ends what
ReputMessageService.doReput puts into queues.

Since 5.1.0 the record of an end is written some seconds later: a check in between, or a broker
that dies in between, asks about a transaction that has ended.  That is no violation.
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
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LocalTransactionEnded,
    MasterElected,
    NodeStarted,
    SlaveAcknowledged,
    SyncStateSetChanged,
    TimeAdvanced,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import TRANS_CHECK_MAX_TIME_TOPIC

CHECKED_EVERY_US = 60_000_000  # transactionCheckInterval up to 5.1.0
CHECKED_OFTENER, OFTENER_US = (5, 1, 1), 30_000_000
FIRST_AFTER_US = 6_000_000  # transactionTimeOut
OPS_IN_BATCHES, BATCH_US = (5, 1, 0), 3_000_000  # transactionOpBatchInterval
WRITTEN_US_MAX = 2 * BATCH_US + 1_000_000  # of an end: a batch waits for a tick of its interval
CHECKS_MAX = 15  # transactionCheckMax
SLACK_US = 10_000_000  # for a pass over all half messages, and for a busy broker
EARLY_US_MAX = 1_000_000  # clocks of broker and journal; a send under way
ANSWER_US_MAX = 10_000_000  # from a check to its answer, with the listener's time
CONNECTED_US = 65_000_000  # a producer is known at a broker after two heartbeats
SENT_US_MAX = 10_000_000  # from a send's first attempt to its storing
RETAINED_US = 72 * 3_600_000_000  # fileReservedTime
COUNTS = {  # metric: sentence
    "given_up": "half messages that were given up",
    "ends_forgotten": "asked about after an end: it named an older record, was not written yet, "
    "or was lost with its broker",
}


class HalfMessagesAreChecked(Checker):
    """Server invariants 41 and 42."""

    name = "transaction_checks"
    rule = (
        "a half message that nobody ends is asked about in time, not too early and not too often, "
        "and one that has ended is not"
    )
    metrics = (
        *(Metric(name, "messages", what, "topic") for name, what in COUNTS.items()),
        Metric("transaction_checks", "checks", "of half messages without an end", "topic"),
        Metric("unasked_checks", "checks", "of these: nobody of the group was connected", "topic"),
        Metric("immune_checks", "checks", "counted, and nobody was asked: it was immune", "topic"),
        Metric(
            "excused_late_checks",
            "messages",
            "late, and a fault touched their broker, or a slave in its sync-state set lacked them",
        ),
    )
    needs = (HalfMessageStored,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._halves = shared.progress.messages.halves
        self._releases: dict[str, tuple[int, ...]] = {}  # by broker
        self._producers: dict[str, dict[str, None]] = {}  # by group: their nodes
        self._asked: dict[str, tuple[HalfMessage, EntryKey]] = {}  # by key: without an answer
        self._asked_count: Counter[str] = Counter()  # by key
        self._answers: dict[str, list[EntryKey]] = {}  # by key
        self._since: dict[HalfMessage, EntryKey] = {}  # open ones: stored, or last asked about
        # By broker: those whose newest record ends there, and cannot be read yet.
        self._unconfirmed: dict[str, dict[HalfMessage, int]] = {}
        self._advanced: set[str] = set()  # brokers whose half messages a tool made older

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeStarted: self._started,
            TimeAdvanced: self._time_advanced,
            HalfMessageStored: self._half_stored,
            LocalTransactionEnded: self._says,
            TransactionAnswered: self._answered,
            TransactionChecked: self._checked,
            ImmuneHalfStoredAgain: self._immune,
            TransactionEnded: self._ended,
            TransactionGivenUp: self._given_up,
            SlaveAcknowledged: self._acknowledged,
            SyncStateSetChanged: self._set_changed,
            MasterElected: self._set_changed,
        }

    def end(self) -> None:
        """Check half messages that are open, and checks without an answer."""
        if self.cluster.last is None:
            return
        here = key_of(self.cluster.last)
        for half, since in self._since.items():
            if half.is_open:
                self._is_in_time(half, since, here)
        for half, asked in self._asked.values():
            self._has_answer(half, asked, here)
        for key, answers in self._answers.items():
            self._was_asked(key, answers)
        for metric in self.metrics:
            self.add_to_metric(metric.name, 0)

    # Facts ----------------------------------------------------------------------------------

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._releases[entry.node] = numbers_of(fact.release)

    def _time_advanced(self, fact: TimeAdvanced, entry: Entry) -> None:
        self._advanced.add(entry.node)

    def _says(self, fact: LocalTransactionEnded | TransactionAnswered, entry: Entry) -> None:
        self._producers.setdefault(fact.group, {})[entry.node] = None

    def _answered(self, fact: TransactionAnswered, entry: Entry) -> None:
        self._says(fact, entry)
        self._answers.setdefault(fact.uniq_key, []).append(key_of(entry))
        if (asked := self._asked.pop(fact.uniq_key, None)) is not None:
            self._has_answer(*asked, key_of(entry))

    def _half_stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        half = self._halves.at(entry.node, fact.offset)
        if half is not None:
            self._waits_since(half, key_of(entry))

    def _waits_since(self, half: HalfMessage, here: EntryKey) -> None:
        """From *here* on its broker has to ask, once it can read the record that it has stored."""
        self._since[half] = here
        record, broker = self._halves.newest.get(half.broker), half.broker
        end = 0 if record is None else record.position + record.size_bytes
        if not self.cluster.is_confirmed(broker, end):
            self._unconfirmed.setdefault(broker, {})[half] = end
        elif (waiting := self._unconfirmed.get(broker)) is not None:
            waiting.pop(half, None)

    def _acknowledged(self, fact: SlaveAcknowledged, entry: Entry) -> None:
        self._confirms(entry.node, entry)

    def _set_changed(self, fact: SyncStateSetChanged | MasterElected, entry: Entry) -> None:
        self._confirms(fact.broker, entry)

    def _confirms(self, broker: str, entry: Entry) -> None:
        """Half messages that can be read from now on have their time from now on."""
        waiting = self._unconfirmed.get(broker)
        if not waiting:
            return
        for half, end in list(waiting.items()):
            if self.cluster.is_confirmed(broker, end):
                del waiting[half]
                if half in self._since:
                    self._since[half] = key_of(entry)

    def _immune(self, fact: ImmuneHalfStoredAgain, entry: Entry) -> None:
        """A check that asks nobody: it counts, and the next one is due an interval later."""
        half = self._halves.at(entry.node, fact.copy_offset)
        if half is not None and half.ended is None:
            self._is_counted(half, fact, key_of(entry))
            self._waits_since(half, key_of(entry))
            self.add_to_metric("immune_checks", 1, fact.queue.topic)

    def _checked(self, fact: TransactionChecked, entry: Entry) -> None:
        topic, half = fact.queue.topic, self._halves.at(entry.node, fact.copy_offset)
        self.add_to_metric("transaction_checks", 1, topic)
        self.count_tried()
        self._asked_count[fact.uniq_key] += 1
        if half is None:
            return
        here = key_of(entry)
        self._is_counted(half, fact, here)
        if half.ended is not None:
            self._was_forgotten(half, half.ends.get(fact.offset), here)
            return
        if half.is_open:  # else a slave sent it away, or gave it up, and its master asks again
            self._is_in_time(half, self._since.get(half, half.stored), here)
        self._is_old_enough(half, fact, here)
        self._waits_since(half, here)
        before = self._asked.get(half.key)
        if before is not None and here.mono_us - before[1].mono_us > ANSWER_US_MAX:
            del self._asked[half.key]
            self._has_answer(*before, here)
        if fact.client:
            self._asked.setdefault(half.key, (half, here))
            return
        self.add_to_metric("unasked_checks", 1, topic)
        if connected := self._connected(half, here):
            self.report_violation(
                f"nobody was asked about {half.key}, and {connected} of its group runs",
                half.stored,
                here,
            )

    def _ended(self, fact: TransactionEnded, entry: Entry) -> None:
        half = self._halves.at(entry.node, fact.offset)
        if half is not None:
            self._since.pop(half, None)

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
        kept = self._halves.newest.get(entry.node)
        is_kept = kept is not None and kept.queue.topic == TRANS_CHECK_MAX_TIME_TOPIC
        if not (is_kept and kept is not None and kept.uniq_key == half.key) and (
            "refused" not in fact.reason
        ):
            self.report_violation(
                f"{half.key} was given up, and is not in {TRANS_CHECK_MAX_TIME_TOPIC}",
                half.stored,
                entry,
            )

    # Counts ---------------------------------------------------------------------------------

    def _is_counted(
        self, half: HalfMessage, fact: TransactionChecked | ImmuneHalfStoredAgain, here: EntryKey
    ) -> None:
        """Report a count that is not one more than that of the record that was read, or a copy
        that is not the half message.
        """
        before, copy = half.by_offset.get(fact.offset), self._halves.newest.get(half.broker)
        count = None if before is None else before.check_times
        if count is not None and fact.check_times != count + 1:
            self.report_violation(
                f"{half.key} was asked about for the {fact.check_times}th time, and its record "
                f"counts {count}",
                half.stored,
                here,
            )
        if fact.check_times > self._checks_max(half.broker):
            self.report_violation(
                f"{half.key} was asked about for the {fact.check_times}th time", half.stored, here
            )
        if copy is None or copy.offset != fact.copy_offset or half.tags is None:
            return
        is_same = (copy.uniq_key, copy.tags) == (half.key, half.tags)
        if not is_same or copy.size_bytes < half.size_bytes:
            self.report_violation(
                f"{half.key} was stored again as {copy.uniq_key!r} with the tags {copy.tags!r} "
                f"and {copy.size_bytes} bytes; it was sent with {half.tags!r} and "
                f"{half.size_bytes} bytes",
                half.stored,
                here,
            )

    # Times ----------------------------------------------------------------------------------

    def _is_in_time(self, half: HalfMessage, since: EntryKey, here: EntryKey) -> None:
        """Report a half message that nobody was asked about for too long."""
        limit_us = self._every_us(half.broker) + self._immune_us(half) + SLACK_US
        if here.mono_us - since.mono_us <= limit_us:
            return
        moved_us = self.cluster.clock_moved_us(half.broker, half.stored.mono_us, here.mono_us)
        quiet_us = self.cluster.undisturbed_us((half.broker,), since.mono_us, here.mono_us)
        is_unread = half in self._unconfirmed.get(half.broker, ())
        is_excused = is_unread or half.has_lost_copy or self.cluster.is_gone(half.broker)
        if is_excused or quiet_us <= limit_us + moved_us:
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

    def _is_old_enough(self, half: HalfMessage, fact: TransactionChecked, here: EntryKey) -> None:
        """Report a check before the immunity has passed, or sooner than the broker's interval."""
        broker, before = half.broker, half.by_offset.get(fact.offset)
        nodes = (broker, *self._producers.get(half.group, ()))
        sent_us = half.stored.mono_us - SENT_US_MAX
        if broker in self._advanced or before is None:
            return
        moved_us = sum(self.cluster.clock_moved_us(node, 0, here.mono_us) for node in nodes)
        age_us = here.mono_us - self._born_us(half) + EARLY_US_MAX + moved_us
        if age_us < self._immune_us(half) and not self.cluster.disturbed(
            nodes, sent_us, half.stored.mono_us
        ):
            self.report_violation(
                f"{half.key} was asked about {(here.mono_us - half.stored.mono_us) / 1e6:.1f} s "
                f"after it was stored: it is immune for {self._immune_us(half) / 1e6:g} s",
                half.stored,
                here,
            )
        since_us = here.mono_us - before.stored.mono_us
        if before.check_times and since_us + EARLY_US_MAX + moved_us < self._every_us(broker):
            self.report_violation(
                f"{half.key} was asked about again after {since_us / 1e6:.1f} s: the interval of "
                f"{broker} is {self._every_us(broker) / 1e6:g} s",
                before.stored,
                here,
            )

    def _born_us(self, half: HalfMessage) -> int:
        """When the producer sent it: an acting master sends it on with that time.

        It may have ended there: then a copy of it waited for its time, with TRAN_MSG still.
        Upstream: BrokerOuterAPI.buildSendMessageRequestHeaderV2; the age that
        TransactionalMessageServiceImpl.check compares is since the time of birth.
        """
        sent_on_by = self.progress.messages.escapes.sent.get(half.key)
        escaped = (
            each.stored.mono_us
            for each in self._halves.by_key.get(half.key, ())
            if each.escaped is not None or each.broker == sent_on_by
        )
        return min((half.stored.mono_us, *escaped))

    def _has_answer(self, half: HalfMessage, asked: EntryKey, here: EntryKey) -> None:
        """Report a check that no producer answers, although its group runs undisturbed."""
        producers = tuple(self._producers.get(half.group, ()))
        if not producers or here.mono_us - asked.mono_us <= ANSWER_US_MAX:
            return
        nodes = (half.broker, *producers)
        since_us, until_us = asked.mono_us - CONNECTED_US, asked.mono_us + ANSWER_US_MAX
        if self.cluster.disturbed(nodes, since_us, until_us) or self._has_gone(nodes):
            return
        self.report_violation(
            f"{half.broker} asked about {half.key}, and no producer of {half.group} answers",
            half.stored,
            asked,
            here,
            node=half.broker,
        )

    def _was_asked(self, key: str, answers: list[EntryKey]) -> None:
        """Report producers that answer more often than they were asked."""
        asked = self._asked_count[key] + self.cluster.roles.replaced_checks[key]
        halves = self._halves.by_key.get(key)
        if halves and len(answers) > asked:
            self.report_violation(
                f"producers of {halves[0].group} answered {len(answers)} times about {key}, and "
                f"were asked {asked} times",
                halves[0].stored,
                answers[asked],
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

    def _was_forgotten(self, half: HalfMessage, ended: EntryKey | None, here: EntryKey) -> None:
        """The broker asks about a transaction that has ended; *ended*: by the record it has read.

        An end of an older record means nothing for that one; else the end's record is lost.
        """
        self.add_to_metric("ends_forgotten", 1, half.queue.topic)
        has_batches = self._releases.get(half.broker, ()) >= OPS_IN_BATCHES
        # Batches are timed by the wall clock: one that was set back writes none for as long.
        written_us = WRITTEN_US_MAX + self.cluster.clock_moved_us(half.broker, 0, here.mono_us)
        if ended is None or (has_batches and here.mono_us - ended.mono_us <= written_us):
            return
        window_us = BATCH_US + SLACK_US if has_batches else 0
        died = self.cluster.disturbed((half.broker,), ended.mono_us, ended.mono_us + window_us)
        promise = self.cluster.stores.get(half.broker)
        is_kept = promise is not None and promise.outlives_process
        if not died and is_kept and not self._lost_power(half.broker, ended.mono_us, here.mono_us):
            self.report_violation(
                f"{half.key} has ended, and its producers are asked about it again",
                half.stored,
                ended,
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

    def _immune_us(self, half: HalfMessage) -> int:
        """For how long nobody is asked about it, after it was sent."""
        if half.own_immunity_ms >= 0:
            return half.own_immunity_ms * 1_000
        given = self._setting(half.broker, "transaction_immunity_ms")
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
