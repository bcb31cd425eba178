"""A producer's attempts: how often it tries, and where."""

from __future__ import annotations

from emulator.checks.checker import Shared
from emulator.checks.failover import FELT_US_MAX, STORED
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import Monitor, OfLoads
from emulator.facts import RouteChanged, SendAttempted
from emulator.journal import Entry, EntryKey
from protocol.perm import is_writeable

ATTEMPTS_MAX = 3  # retryTimesWhenSendFailed + 1
ROUTE_US = 1_000_000  # an attempt may have been chosen so long before it began


class AttemptsAreBounded(OfLoads):
    """Client invariants 13 and 23."""

    name = "attempts_are_bounded"
    rule = (
        "a send makes at most 3 attempts, a one-way one 1 (client invariant 13), and all of them "
        "carry one unique id (23)"
    )
    invariants = (13, 23)
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._open: dict[tuple[str, str], EntryKey] = {}  # node, id: its first attempts failed
        self._counts: dict[tuple[str, str], int] = {}

    def table(self) -> Table:
        """What it reads."""
        return {SendAttempted: self._attempted}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome == "SEND_OK":
            return
        known = entry.node, fact.uniq_key
        count = self._counts.pop(known, 0)
        before = self._open.pop(known, None)
        evidence = () if before is None else (before,)
        self.tries(fact.attempt > 1)
        limit = 1 if fact.outcome == "ONE_WAY" else ATTEMPTS_MAX
        if fact.attempt > limit and not self._sets_retries(entry.node):
            self.objects(
                f"attempt {fact.attempt} of a send to {fact.topic}, where {limit} may be made",
                *evidence,
                entry,
            )
        elif fact.attempt not in (1, count + 1):
            self.objects(
                f"attempt {fact.attempt} of a send to {fact.topic} has the id {fact.uniq_key}, "
                f"which no attempt {fact.attempt - 1} had",
                *evidence,
                entry,
            )
        if fact.outcome not in ("SEND_OK", "ONE_WAY"):
            self._open[known] = EntryKey(entry.mono_us, entry.node, entry.seq)
            self._counts[known] = fact.attempt

    def _sets_retries(self, producer: str) -> bool:
        names = {"sync_retries", "async_retries"}
        return any(names & each.get("settings", {}).keys() for each in self.loads_of(producer))


class AsyncRetriesStay(Monitor):
    """Client invariant 16: of producers whose load is sent asynchronously, says the plan."""

    name = "async_retries_stay"
    rule = "the retry of an asynchronous send keeps its queue number (client invariant 16)"
    invariants = (16,)
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._producers: frozenset[str] | None = None  # those that send so, once looked up
        self._open: dict[tuple[str, str], tuple[int, EntryKey]] = {}  # failed: queue number

    def table(self) -> Table:
        """What it reads."""
        return {SendAttempted: self._attempted}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome == "SEND_OK":
            return
        if self._producers is None:
            self._producers = self._senders("async")
        if entry.node not in self._producers:
            return
        known = entry.node, fact.uniq_key
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.tries(known in self._open)
        number, before = self._open.pop(known, (fact.queue.queue_id, key))
        if fact.queue.queue_id != number:
            self.objects(
                f"attempt {fact.attempt} of an asynchronous send went to queue "
                f"{fact.queue.queue_id} of {fact.queue.broker}, the one before to number {number}",
                before,
                entry,
            )
        elif fact.outcome != "SEND_OK":
            self._open[known] = number, key

    def _senders(self, mode: str) -> frozenset[str]:
        """The producers of loads of this mode; they are counted over all loads."""
        modes = [
            each.get("mode", "sync")
            for each in self.scene.plan.get("load", ())
            for _ in range(each.get("producers", 1))
        ]
        return frozenset(f"producer-{at}" for at, each in enumerate(modes, 1) if each == mode)


class SendsFollowRoutes(Monitor):
    """Client invariant 9, the part that facts show; with it 58."""

    name = "sends_follow_routes"
    rule = (
        "a send goes to brokers of the producer's route only (client invariant 9), so never to "
        "one that the route has lost (58)"
    )
    invariants = (9, 58)
    needs = (RouteChanged,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._routes: dict[tuple[str, str], tuple[tuple[str, ...], EntryKey]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {RouteChanged: self._changed, SendAttempted: self._attempted}

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._routes[entry.node, fact.topic] = fact.brokers, key

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        known = self._routes.get((entry.node, fact.topic))
        if known is None:
            return
        self.tried += 1
        if fact.queue.broker in known[0]:
            return
        began_us = entry.mono_us - fact.took_ms * 1_000
        if fact.attempt == 1 and began_us - known[1].mono_us > ROUTE_US:
            self.objects(
                f"{entry.node} sent to {fact.queue.broker}, which its route of {fact.topic} "
                f"lost {(began_us - known[1].mono_us) / 1e6:.1f} s before",
                known[1],
                entry,
            )


class HealthyAttemptsSucceed(Monitor):
    """DefaultMQProducerImpl.sendKernelImpl: what nothing disturbs needs no second attempt."""

    name = "healthy_attempts_succeed"
    rule = (
        "an attempt at a broker that takes sends succeeds, if for 160 s no fault touched the "
        "broker, the producer or a NameServer (client invariant 13: only what failed is retried)"
    )
    invariants = (13,)
    needs = (SendAttempted,)

    def table(self) -> Table:
        """What it reads."""
        return {SendAttempted: self._attempted}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in STORED:
            self.tried += not self.scene.faults
            return
        topics, queue = self.scene.topics, fact.queue
        began_us = entry.mono_us - fact.took_ms * 1_000
        is_writable = is_writeable(topics.perm(fact.topic, queue.broker))
        if not is_writable or topics.writeable_since_us(fact.topic, queue.broker) > began_us:
            return
        nodes = {entry.node, queue.broker, *topics.name_servers}
        if self.scene.disturbed(nodes, began_us, entry.mono_us):
            return
        if self.scene.disturbed(nodes, began_us - FELT_US_MAX, began_us):
            self.excuses()  # what is over is still felt
            return
        self.objects(
            f"{entry.node} tried to send to {queue.broker} and failed, where nothing disturbs "
            f"either: {fact.outcome}",
            entry,
        )
