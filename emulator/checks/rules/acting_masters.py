"""What goes on while a master is away and its slave acts: messages sent to other brokers.

An acting master stores nothing.  Delayed, timer and half messages that are due it sends to another
broker, if remote_escape is on.  What it says it has sent is there.  In one time of acting it sends
each record once, and again only after a failure, which may have been stored all the same; a
message has a record for each retry and each check.  Its progress may be that of its last copy from
the master, so it may send what that has delivered.  A master that comes back with older progress,
or that was only cut off, delivers it once more.  RocketMQ allows these, and losses without an
escape: timer messages are dropped after some tries, half messages after eleven.  They are counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.escapes import TRANSACTIONS, EscapeClaim
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    HalfMessageSkipped,
    MessageEscaped,
    MessageNotEscaped,
    NodeStarted,
    TimerMessageDropped,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

NOTED_US = 10_000_000  # between the two facts of one message; a killed target notes none
SEND_US_MAX = 3_000_000  # EscapeBridge.SEND_TIMEOUT
STARTS_US = 2_000_000  # ScheduleMessageService.FIRST_DELAY_TIME, and a slot of the timers
LATE_US_MAX = 10_000_000  # a failing send takes 3 s, and a level sends one message at a time
EFFECTS_US = 35_000_000  # until a fault's effects end: routes are looked up every 30 s
COUNTS = {  # metric: sentence
    "escaped": "that a slave of this master sent to another broker while it acted",
    "escaped_again": "of these: sent or delivered before, from another record or progress",
    "halves_skipped": "half messages that it skipped: nobody asks for their outcome",
    "timers_given_up": "timer messages that it dropped after its tries",
}


class EscapesArrive(Checker):
    """EscapeBridge.asyncPutMessage, putMessageToRemoteBroker."""

    name = "escapes"
    rule = (
        "a message that an acting master has sent to another broker is stored there, soon after "
        "it was due, and as often as it had to be sent"
    )
    metrics = (
        *(Metric(name, "messages", what, "node") for name, what in COUNTS.items()),
        Metric(
            "escapes_failed",
            "times",
            "after a success a message could not be sent to another broker",
            "node",
        ),
        Metric(
            "escape_late_s",
            "s",
            "the longest from the time of a message, or the start of acting, to its escape",
            "node",
            "max",
        ),
        Metric(
            "acting_s",
            "s",
            "the longest time for which a slave of this master acted",
            "node",
            "max",
        ),
    )
    needs = (ActingMasterBegan,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._escapes = shared.progress.messages.escapes
        self._began: dict[str, EntryKey] = {}  # by acting slave
        self._ended_us: dict[str, int] = {}  # when a slave last stopped
        # By slave and key: since it began, or last failed; as often as records were stored.
        self._sent: dict[tuple[str, str], list[EntryKey]] = {}
        self._keys_sent: dict[tuple[str, str], None] = {}  # names and keys

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            ActingMasterBegan: self._begins,
            ActingMasterEnded: self._ends,
            NodeStarted: self._started,
            MessageEscaped: self._escaped,
            MessageNotEscaped: self._failed,
            TimerMessageDropped: self._dropped,
            HalfMessageSkipped: self._skipped,
        }

    def end(self) -> None:
        """Report messages that no broker has stored."""
        for node in list(self._began):
            self._stops(node, self.cluster.now_us)
        for claim in self._escapes.unfounded.values():
            self._is_missing(claim)

    # Times of acting ------------------------------------------------------------------------

    def _begins(self, fact: ActingMasterBegan, entry: Entry) -> None:
        self._began[entry.node] = key_of(entry)
        self._forget(entry.node)

    def _ends(self, fact: ActingMasterEnded, entry: Entry) -> None:
        self._stops(entry.node, entry.mono_us)

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._stops(entry.node, entry.mono_us)

    def _stops(self, node: str, now_us: int) -> None:
        """It acts no longer: since its process ended if it was killed."""
        began = self._began.pop(node, None)
        self._ended_us[node] = now_us
        if began is not None:
            ended_us = max(began.mono_us, min(now_us, self.cluster.ended_us(node, now_us)))
            acted_us = (ended_us if ended_us > began.mono_us else now_us) - began.mono_us
            self._measure("acting_s", acted_us / 1e6, _master_of(node))

    # Messages -------------------------------------------------------------------------------

    def _escaped(self, fact: MessageEscaped, entry: Entry) -> None:
        self.count_tried()
        name, node, key = fact.queue.broker, entry.node, fact.uniq_key
        self.add_to_metric("escaped", 1, name)
        began, copy = self._began.get(node), self._escapes.copy
        was_delivered = copy is None and fact.service != TRANSACTIONS  # by its master
        if was_delivered or (name, key) in self._keys_sent:
            self.add_to_metric("escaped_again", 1, name)
        self._keys_sent[name, key] = None
        if began is None:
            if entry.mono_us - self._ended_us.get(node, 0) > NOTED_US:
                self._object_to(fact, "and does not act as the master", entry)
            return
        if copy is not None:
            self._is_in_time(fact, copy.due_us, began, entry)
        sent = self._sent.setdefault((node, key), [])
        sent.append(key_of(entry))
        stored = self._escapes.stored_counts.get((key, name), 0)
        if 0 < stored < len(sent):
            self._object_to(fact, f"{len(sent)} times: {name} stored it {stored} times", *sent)

    def _is_in_time(
        self, fact: MessageEscaped, due_us: int | None, began: EntryKey, entry: Entry
    ) -> None:
        since_us = max(due_us or 0, began.mono_us + STARTS_US)
        late_us = entry.mono_us - since_us
        self._measure("escape_late_s", max(0, late_us) / 1e6, fact.queue.broker)
        if due_us is None or late_us <= LATE_US_MAX:
            return
        nodes = {entry.node, *self._others(fact.queue.broker)}
        if self.cluster.disturbed(nodes, since_us - EFFECTS_US, entry.mono_us):
            return
        self._object_to(fact, f"{late_us / 1e6:.1f} s after it was due", began, entry)

    def _others(self, name: str) -> Iterable[str]:
        """The nodes that an escape needs: other masters, and the NameServers."""
        return (*(self.cluster.stores.keys() - {name}), *self.cluster.topics.name_servers)

    def _is_missing(self, claim: EscapeClaim) -> None:
        """Report a message that its acting master noted as sent, and its target never stored."""
        noted_us, broker = claim.noted.mono_us, claim.target.broker
        if any(
            broker in fault.nodes
            and fault.word in PROCESS_ENDING
            and noted_us - SEND_US_MAX <= fault.began_us <= noted_us + NOTED_US
            for fault in self.cluster.all_faults
        ):
            return  # it may have ended before it noted the message
        self.report_violation(
            f"{claim.noted.node} sent {claim.key} to {broker}, which never stored it in "
            f"{claim.target.topic}",
            claim.noted,
            node=broker,
        )

    def _failed(self, fact: MessageNotEscaped, entry: Entry) -> None:
        self.add_to_metric("escapes_failed", 1, fact.queue.broker)
        self._forget(entry.node)  # the send that failed may have been stored

    def _forget(self, node: str) -> None:
        for known in [each for each in self._sent if each[0] == node]:
            del self._sent[known]

    def _dropped(self, fact: TimerMessageDropped, entry: Entry) -> None:
        if entry.node in self._began:
            self.add_to_metric("timers_given_up", 1, fact.queue.broker)

    def _skipped(self, fact: HalfMessageSkipped, entry: Entry) -> None:
        self.count_tried()
        self.add_to_metric("halves_skipped", 1, fact.queue.broker)

    def _object_to(self, fact: MessageEscaped, why: str, *entries: Entry | EntryKey) -> None:
        node = key_of(entries[-1]).node
        self.report_violation(
            f"{node} sent {fact.uniq_key} of {fact.queue.topic} to {fact.to_broker} {why}",
            *entries,
        )

    def _measure(self, metric: str, value: float, name: str) -> None:
        self.set_metric(metric, max(value, self.measured.get(f"{metric}.{name}", 0.0)), name)


def _master_of(slave: str) -> str:
    return slave.rpartition("-")[0]
