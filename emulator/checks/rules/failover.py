"""Effects of a broker's fault on sends: how long they fail, and how they are spread.

Failover lasts from the start of the fault to the last attempt that failed at the broker;
upstream's bound, without the latency-aware choice, is the next poll of routes (client invariant
58).  Avoiding slow brokers costs twice: sends still go to a faulty broker, and a recovered broker
gets no sends.  An attempt counts at the moment when it began.

After an isolation sends must be spread evenly again (S07, S08): tables that never became fair were
upstream bugs, and are a violation.  In some releases one queue of the other brokers gets the share
of all avoided queues (S09): that is only measured.
"""

from __future__ import annotations

from collections import Counter

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerIsolated,
    FaultBegan,
    FaultEnded,
    Queue,
    RouteChanged,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry

STORED = frozenset(  # outcomes of an attempt whose message the broker has
    {"SEND_OK", "ONE_WAY", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"}
)
FAULT_EFFECT_US_MAX = 160_000_000  # until effects of a fault that closes no connection end (9.1)


class ProducerFailover(Checker):
    """The time from a broker's fault to the last send attempt that failed there.

    Client invariant 58.
    """

    name = "producer_failover"
    is_measure = True
    rule = "producers stop choosing a broker soon after its fault began (client invariant 58)"
    metrics = (
        Metric(
            "producer_failover_s",
            "s",
            "the longest from a broker's fault to the last attempt that failed there meanwhile",
            "node",
            "max",
        ),
        Metric("failed_attempts", "attempts", "of sends, at any broker", "topic"),
    )
    needs = (SendAttempted,)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._faults: dict[int, tuple[tuple[str, ...], int]] = {}
        self._until_us: dict[int, int] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SendAttempted: self._attempted,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def end(self) -> None:
        """Set every metric, also if no send failed."""
        if not any(name.startswith("failed_attempts.") for name in self.measured):
            self.set_metric("failed_attempts", 0)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in STORED:
            return
        self.add_to_metric("failed_attempts", 1, fact.topic)
        for fault_id, (nodes, began_us) in self._faults.items():
            broker = fact.queue.broker
            if broker in nodes and entry.mono_us <= self._until_us.get(fault_id, entry.mono_us):
                self._measure_failover((entry.mono_us - began_us) / 1e6, broker)

    def _measure_failover(self, seconds: float, broker: str) -> None:
        known = self.measured.get(f"producer_failover_s.{broker}", 0.0)
        self.set_metric("producer_failover_s", max(known, seconds), broker)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._faults[fact.fault_id] = fact.nodes, entry.mono_us

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        """Later failures have another cause, except attempts in progress."""
        if fact.fault_id in self._faults:
            began_us = self._faults[fact.fault_id][1]
            self._until_us[fact.fault_id] = min(entry.mono_us, began_us + FAULT_EFFECT_US_MAX)


# Shares of brokers with and without a fault --------------------------------------------


FAULTY, HEALTHY = 0, 1


class BrokerShares(Checker):
    """A broker's share of all sends while a fault touches it, and after that while none does.

    A measure.  For brokers that no fault ever touched only the attempts are counted.
    """

    name = "broker_shares"
    is_measure = True
    rule = "brokers without a fault get their share of the sends"
    metrics = (
        Metric("send_attempts", "attempts", "of sends, to this broker", "node"),
        Metric(
            "broker_share_ill",
            "share",
            "of all attempts those that went to this broker, while a fault touched it",
            "node",
            "max",
        ),
        Metric(
            "broker_share_well",
            "share",
            "of all attempts those that went to this broker, since its first fault, while none "
            "touched it",
            "node",
            "max",
        ),
    )
    needs = (SendAttempted,)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._attempts: dict[str, int] = {}
        self._touched: dict[int, tuple[str, ...]] = {}  # by fault: its nodes
        self._nodes: dict[str, _FaultedNode] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SendAttempted: self._attempted,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def end(self) -> None:
        """Set the shares of each broker that a fault touched."""
        for broker, count in self._attempts.items():
            self.set_metric("send_attempts", count, broker)
            if (node := self._nodes.get(broker)) is None:
                continue
            for metric, state in (("broker_share_ill", FAULTY), ("broker_share_well", HEALTHY)):
                if node.all[state]:
                    self.set_metric(metric, node.here[state] / node.all[state], broker)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        broker = fact.queue.broker
        self._attempts[broker] = self._attempts.get(broker, 0) + 1
        if self._nodes:
            began_us = entry.mono_us - fact.took_ms * 1_000
            here = self._nodes.get(broker)
            for node in self._nodes.values():
                if began_us >= node.first_us:
                    # An attempt that began before the last change counts for the state before it.
                    state = node.state if began_us >= node.changed_us else node.before
                    node.all[state] += 1
                    if node is here:
                        node.here[state] += 1

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._touched[fact.fault_id] = fact.nodes
        for name in fact.nodes:
            node = self._nodes.setdefault(name, _FaultedNode(entry.mono_us))
            if not node.faults:
                node.changes(FAULTY, entry.mono_us)
            node.faults += 1

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        for name in self._touched.pop(fact.fault_id, ()):
            node = self._nodes[name]
            node.faults -= 1
            if not node.faults:
                node.changes(HEALTHY, entry.mono_us)


class _FaultedNode:
    """One node since its first fault: attempts at all brokers, and at this node."""

    __slots__ = ("all", "before", "changed_us", "faults", "first_us", "here", "state")

    def __init__(self, first_us: int) -> None:
        self.all, self.here = [0, 0], [0, 0]  # indexed by state: FAULTY, HEALTHY
        self.faults = 0  # faults that touch it now
        self.state = self.before = HEALTHY  # now, and before the last change
        self.first_us = self.changed_us = first_us

    def changes(self, state: int, now_us: int) -> None:
        """Set *state*, FAULTY or HEALTHY, from *now_us* on."""
        self.before, self.state, self.changed_us = self.state, state, now_us


# Fair shares after an isolation -------------------------------------------------------


SENDS_MIN = 200  # of one producer to one topic, before its shares are judged
SETTLES_US = 31_000_000  # a poll of routes, after the isolation has ended
US_A_SECOND = 1_000_000
UNFAIR_MAX = 0.5  # of an even share
CROWD_MIN = 100  # sends of one producer to one broker while it avoids another one


class SharesAreFairAgain(Checker):
    """How evenly a producer spreads its sends during and after the isolation of a broker.

    Uneven sends after an isolation are a violation (S07, S08); during one they are measured (S09).
    """

    name = "fairness"
    rule = (
        "after a producer's isolation of a broker has ended, its sends are spread evenly over the "
        "queues again (rocketmq #7812, #7779, #5672)"
    )
    metrics = (
        Metric(
            "send_unfairness",
            "share",
            "a queue's largest difference from its even share of sends, while no isolation holds",
            "topic",
            "max",
        ),
        Metric(
            "send_crowding",
            "times",
            "the most used queue's multiple of its even share, while another broker is avoided",
            "topic",
            "max",
        ),
        Metric(
            "avoided_after_s",
            "s",
            "the longest time a producer still avoided a broker after its fault had ended",
            "node",
            "max",
        ),
    )
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._avoids_until_us: dict[str, int] = {}  # by producer
        self._until_us: dict[str, int] = {}  # the same, or until its routes are complete
        self._sends: dict[tuple[str, str], Counter[Queue]] = {}
        self._seen: dict[str, set[Queue]] = {}  # topic: queues of all sends
        self._last: dict[tuple[str, str], Entry] = {}
        self._isolations: dict[tuple[str, str], int] = {}  # producer, broker: until when
        self._touched: dict[int, tuple[str, ...]] = {}  # by fault: its nodes
        self._healed_us: dict[tuple[str, str], int] = {}  # producer, broker: last fault's end
        self._crowds: dict[tuple[str, str, str], Counter[int]] = {}  # producer, topic, broker

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SendAttempted: self._attempted,
            BrokerIsolated: self._isolated,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
            RouteChanged: self._route_changed,
        }

    def end(self) -> None:
        """Check each producer's sends since its last isolation, and during isolations."""
        for (_, topic, broker), of_queue in self._crowds.items():
            count = sum(of_queue.values())
            if count >= CROWD_MIN and not self._has_keys(topic):
                queues = sum(queue.broker == broker for queue in self._seen[topic])
                self._measure_worst(
                    "send_crowding", topic, max(of_queue.values()) * queues / count
                )
        for (node, topic), counts in self._sends.items():
            if self._has_keys(topic) or sum(counts.values()) < SENDS_MIN:
                continue
            self.count_tried(node in self._until_us)
            fair = sum(counts.values()) / len(self._seen[topic])
            worst = max(sorted(self._seen[topic]), key=lambda queue: abs(counts[queue] - fair))
            unfair = abs(counts[worst] - fair) / fair
            self._measure_worst("send_unfairness", topic, unfair)
            if unfair > UNFAIR_MAX and node in self._until_us:
                self.report_violation(
                    f"{node} sent {counts[worst]} of {sum(counts.values())} messages to "
                    f"{place_of(worst)}, one of "
                    f"{len(self._seen[topic])} queues, although it avoids no broker any more",
                    self._last[node, topic],
                )

        for known in list(self._healed_us):
            self._uses_again(known, self.cluster.now_us)

    def _measure_worst(self, metric: str, of: str, value: float) -> None:
        self.set_metric(metric, max(value, self.measured.get(f"{metric}.{of}", 0.0)), of)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        queue = fact.queue
        if self._healed_us:
            self._uses_again((entry.node, queue.broker), entry.mono_us - fact.took_ms * 1_000)
        is_counted = not self.cluster.faults
        if is_counted and entry.mono_us < self._avoids_until_us.get(entry.node, 0):
            of_broker = entry.node, fact.topic, queue.broker
            self._crowds.setdefault(of_broker, Counter())[queue.queue_id] += 1
        if not is_counted or entry.mono_us < self._until_us.get(entry.node, 0):
            self._seen.setdefault(fact.topic, set()).add(queue)
            return
        known = (entry.node, fact.topic)
        counts = self._sends.get(known)
        if counts is None:
            counts = self._sends[known] = Counter()
        count = counts.get(queue, 0)
        if not count:
            self._seen.setdefault(fact.topic, set()).add(queue)
        counts[queue] = count + 1
        self._last[known] = entry

    def _isolated(self, fact: BrokerIsolated, entry: Entry) -> None:
        until_us = entry.mono_us + fact.for_ms * 1_000
        self._isolations[entry.node, fact.broker] = until_us
        for known in (self._avoids_until_us, self._until_us):
            known[entry.node] = max(until_us, known.get(entry.node, 0))
        self._forget(entry.node)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._touched[fact.fault_id] = fact.nodes
        self._disturbed(fact, entry)

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        well = set(self._touched.pop(fact.fault_id, ())).difference(*self._touched.values())
        for (node, broker), until_us in self._isolations.items():
            if broker in well and until_us > entry.mono_us:
                self._healed_us.setdefault((node, broker), entry.mono_us)
        self._disturbed(fact, entry)

    def _uses_again(self, known: tuple[str, str], now_us: int) -> None:
        """Measure how long a broker without a fault was avoided, at the first new send to it."""
        since_us = self._healed_us.get(known)
        if since_us is not None and now_us >= since_us:
            del self._healed_us[known]
            self._measure_worst("avoided_after_s", known[1], (now_us - since_us) / US_A_SECOND)

    def _disturbed(self, fact: FaultBegan | FaultEnded, entry: Entry) -> None:
        """After a fault begins or ends clients update their routes: do not judge meanwhile."""
        for node in self._until_us:
            self._until_us[node] = max(self._until_us[node], entry.mono_us + SETTLES_US)
        self._sends.clear()

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """Start counting again: the producer has other queues now."""
        self._forget(entry.node)

    def _forget(self, node: str) -> None:
        for known in [each for each in self._sends if each[0] == node]:
            del self._sends[known]

    def _has_keys(self, topic: str) -> bool:
        """Whether keys of a load choose the queues, so sends are only as even as the keys."""
        loads = self.cluster.plan.get("load", [])
        return any(each.get("topic") == topic and each.get("keys") for each in loads)
