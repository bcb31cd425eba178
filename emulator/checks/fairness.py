"""Whether a producer that avoids a broker spreads its sends evenly, and does so again afterwards.

Where a producer isolates brokers, its sends must be spread evenly after the isolation (S07,
S08): tables that never became fair again were upstream bugs, and a violation.  That one queue of
the brokers that are left gets the share of all avoided ones (S09) is how some releases choose: it
is measured.
"""

from __future__ import annotations

from collections import Counter

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import (
    BrokerIsolated,
    FaultBegan,
    FaultEnded,
    Queue,
    RouteChanged,
    SendAttempted,
)
from emulator.journal import Entry

SENDS_MIN = 200  # of one producer to one topic, before its shares say anything
SETTLES_US = 31_000_000  # a poll of routes, after the isolation has ended
US_A_SECOND = 1_000_000
UNFAIR_MAX = 0.5  # of an even share
CROWD_MIN = 100  # sends of one producer to one broker while it avoids another one


class SharesAreFairAgain(Checker):
    """S07, S08, S09."""

    name = "fairness"
    rule = (
        "after a producer's isolation of a broker has ended, its sends are spread evenly over the "
        "queues again (rocketmq #7812, #7779, #5672)"
    )
    metrics = (
        Metric(
            "send_unfairness",
            "share",
            "how far a queue is from its even share of sends, when no isolation holds",
            "topic",
            "max",
        ),
        Metric(
            "send_crowding",
            "times",
            "what the most used queue of a broker got of its even share, while another is avoided",
            "topic",
            "max",
        ),
        Metric(
            "avoided_after_s",
            "s",
            "the longest a producer went on to avoid a broker whose fault had ended",
            "node",
            "max",
        ),
    )
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._avoids_until_us: dict[str, int] = {}  # by producer
        self._until_us: dict[str, int] = {}  # the same, or until it knows all routes again
        self._sends: dict[tuple[str, str], Counter[Queue]] = {}
        self._seen: dict[str, set[Queue]] = {}  # topic: queues that anybody sent to
        self._last: dict[tuple[str, str], Entry] = {}
        self._isolations: dict[tuple[str, str], int] = {}  # producer, broker: until then
        self._touched: dict[int, tuple[str, ...]] = {}  # by fault: its nodes
        self._healed_us: dict[tuple[str, str], int] = {}  # producer, broker: avoided since then
        self._crowds: dict[tuple[str, str, str], Counter[int]] = {}  # producer, topic, broker

    def table(self) -> Table:
        """What it reads."""
        return {
            SendAttempted: self._attempted,
            BrokerIsolated: self._isolated,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
            RouteChanged: self._route_changed,
        }

    def end(self) -> None:
        """Look at what was sent since the last isolation of each producer, and during them."""
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
            self.tries(node in self._until_us)
            fair = sum(counts.values()) / len(self._seen[topic])
            worst = max(sorted(self._seen[topic]), key=lambda queue: abs(counts[queue] - fair))
            unfair = abs(counts[worst] - fair) / fair
            self._measure_worst("send_unfairness", topic, unfair)
            if unfair > UNFAIR_MAX and node in self._until_us:
                self.objects(
                    f"{node} sent {counts[worst]} of {sum(counts.values())} messages to "
                    f"{worst.topic}@{worst.broker}:{worst.queue_id}, one of "
                    f"{len(self._seen[topic])} queues, although it avoids nobody any more",
                    self._last[node, topic],
                )

        for known in list(self._healed_us):
            self._uses_again(known, self.scene.now_us)

    def _measure_worst(self, metric: str, of: str, value: float) -> None:
        self.measures(metric, max(value, self.measured.get(f"{metric}.{of}", 0.0)), of)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        queue = fact.queue
        if self._healed_us:
            self._uses_again((entry.node, queue.broker), entry.mono_us - fact.took_ms * 1_000)
        is_counted = not self.scene.faults
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
        """A producer sends to a broker that it avoided; not one that it began to before."""
        since_us = self._healed_us.get(known)
        if since_us is not None and now_us >= since_us:
            del self._healed_us[known]
            self._measure_worst("avoided_after_s", known[1], (now_us - since_us) / US_A_SECOND)

    def _disturbed(self, fact: FaultBegan | FaultEnded, entry: Entry) -> None:
        """Routes are learned anew for a while."""
        for node in self._until_us:
            self._until_us[node] = max(self._until_us[node], entry.mono_us + SETTLES_US)
        self._sends.clear()

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """Shares are of the queues that the producer knows."""
        self._forget(entry.node)

    def _forget(self, node: str) -> None:
        for known in [each for each in self._sends if each[0] == node]:
            del self._sends[known]

    def _has_keys(self, topic: str) -> bool:
        """A load whose keys choose the queue is as even as its keys."""
        loads = self.scene.plan.get("load", [])
        return any(each.get("topic") == topic and each.get("keys") for each in loads)
