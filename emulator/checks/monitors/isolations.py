"""Isolation of brokers by a latency-aware producer: after which attempts, and for how long.

A broker whose answer was slow, or that failed, is isolated for a time from a table of latencies;
the table changed in 5.1.4.  Before 5.1.4 a fast answer ends an isolation; since then only time
does.  Judged are producers whose load is synchronous by the plan, by the table of their release.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from rocketmq_emulator.checks.monitors.monitor import LoadMonitor
from rocketmq_emulator.checks.monitors.registering import ROUTE_US
from rocketmq_emulator.checks.rules.failover import STORED
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of, numbers_of
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import BrokerIsolated, RouteChanged, RunStarted, SendAttempted
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.flags import is_writeable

PENALTIES_ARE_SHORT = (5, 1, 4)
CLOCK_MS = 2  # clocks are read in milliseconds
CLOCK_US = CLOCK_MS * 1_000
SEND_US_MAX = 60_000_000  # a longer send is compared with fewer isolations
FAILED_LATENCY_MS_OLD, FAILED_LATENCY_MS = 30_000, 10_000  # latency of a failure
# Latency of an attempt in ms, at least: how long the broker is avoided, in ms.
PENALTIES_LONG = {
    550: 30_000,
    1_000: 60_000,
    2_000: 120_000,
    3_000: 180_000,
    15_000: 600_000,
}
PENALTIES_SHORT = {550: 2_000, 1_800: 5_000, 3_000: 6_000, 5_000: 10_000, 15_000: 30_000}
REACHABLE_IS_APART = (5, 1, 4)  # only in it an isolation may exceed its time


class IsolationsAreTabled(LoadMonitor):
    """Client invariants 17, 18 and 19."""

    name = "isolations_are_tabled"
    rule = (
        "without latency awareness no broker is isolated (client invariant 17), with it as long "
        "as the release's table says (18, 19), and isolations do not add up"
    )
    invariants = (17, 18, 19)
    needs = (BrokerIsolated,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._release: tuple[int, ...] = ()
        self._until: dict[tuple[str, str], tuple[int, EntryKey]] = {}  # by producer and broker

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {BrokerIsolated: self._isolated, RunStarted: self._run_started}

    def reason_not_judged(self) -> str:
        """The table depends on the release: without a known release nothing is judged."""
        return "" if self._release else "the journal has no RunStarted: no release is known"

    def _run_started(self, fact: RunStarted, entry: Entry) -> None:
        self._release = numbers_of(fact.release)

    def _isolated(self, fact: BrokerIsolated, entry: Entry) -> None:
        self.count_tried()
        self._check_sum(fact, entry)
        loads = [each.get("settings", {}) for each in self.loads_of(entry.node)]
        if not self._release or any({"release", "fault_table"} & each.keys() for each in loads):
            return
        knows_all = bool(loads) and not self.cluster.plan.get("programs")
        if knows_all and not any(each.get("send_latency_fault_enable") for each in loads):
            self.report_violation(
                f"{entry.node} isolated {fact.broker} without latency awareness", entry
            )
        elif fact.for_ms not in penalties(self._release).values():
            self.report_violation(
                f"{entry.node} isolated {fact.broker} for {fact.for_ms} ms, which is in no row of "
                "its release's table",
                entry,
            )

    def _check_sum(self, fact: BrokerIsolated, entry: Entry) -> None:
        """Report if the broker is avoided beyond the latest end of its isolations."""
        before_us, before = self._until.get((entry.node, fact.broker), (0, key_of(entry)))
        until_us = max(before_us, entry.mono_us + fact.for_ms * 1_000)
        self._until[entry.node, fact.broker] = until_us, key_of(entry)
        if entry.mono_us + fact.available_in_ms * 1_000 > until_us + CLOCK_US:
            self.report_violation(
                f"{entry.node} isolated {fact.broker} for {fact.for_ms} ms and avoids it for "
                f"{fact.available_in_ms} ms",
                before,
                entry,
            )


class FailuresIsolate(LoadMonitor):
    """Client invariants 18 and 19: MQFaultStrategy.updateFaultItem."""

    name = "failures_isolate"
    rule = (
        "a latency-aware producer isolates a broker at the end of an attempt there, for the time "
        "in its table for the latency of the attempt; a failed one counts as 30 s, since 5.1.4 as "
        "10 s (client invariants 18, 19)"
    )
    invariants = (18, 19)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last: dict[str, _LastAttempt] = {}  # by producer, until its isolation is noted
        # By producer that sends asynchronously: it notes the isolation before the attempt.
        self._early: dict[str, tuple[BrokerIsolated, EntryKey]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted, BrokerIsolated: self._isolated}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        mode = latency_aware(self.load_of(entry.node))
        if not mode:
            return
        if mode == "sync":
            self._misses(entry.node)
        if fact.outcome in STORED:
            expected_ms = {
                penalty_ms(self.plan_release(), took_ms)
                for took_ms in (fact.took_ms - CLOCK_MS, fact.took_ms + CLOCK_MS)
            }
        else:
            expected_ms = {failure_ms(self.plan_release())}
        self.count_tried(fact.outcome not in STORED or expected_ms != {0})
        last = self._last[entry.node] = _LastAttempt(fact, key_of(entry), expected_ms)
        if (early := self._early.pop(entry.node, None)) is not None:
            self._compare(entry.node, *early, last)

    def _isolated(self, fact: BrokerIsolated, entry: Entry) -> None:
        mode = latency_aware(self.load_of(entry.node))
        last = self._last.pop(entry.node, None)
        if mode == "sync" or (mode and self._is_of(fact, entry, last)):
            self._compare(entry.node, fact, key_of(entry), last)
        elif mode:
            self._early[entry.node] = fact, key_of(entry)

    def _is_of(self, fact: BrokerIsolated, entry: Entry, last: _LastAttempt | None) -> bool:
        """Whether an attempt has just failed at that broker.

        A producer notes an attempt that found no address before the isolation.
        """
        return (
            last is not None
            and last.fact.queue.broker == fact.broker
            and last.fact.outcome not in STORED
            and entry.mono_us - last.key.mono_us <= CLOCK_US
        )

    def _compare(
        self, node: str, fact: BrokerIsolated, key: EntryKey, last: _LastAttempt | None
    ) -> None:
        """Report an isolation whose time does not match the attempt that has just ended."""
        if last is None or last.fact.queue.broker != fact.broker:
            self.report_violation(
                f"{node} isolated {fact.broker}, where no attempt has just ended", key
            )
        elif fact.for_ms not in last.expected_ms:
            self.report_violation(
                f"{node} isolated {fact.broker} for {fact.for_ms} ms after a send "
                f"{last.ending}, where {_text(last.expected_ms)} are due",
                *sorted((last.key, key)),
            )

    def _misses(self, node: str) -> None:
        """Report if the next attempt has ended and the broker of the last one was not isolated.

        Since 5.1.4 an attempt that found no address counts with its own time, about 0 ms.
        """
        last = self._last.pop(node, None)
        if last is None or 0 in last.expected_ms:
            return
        if last.fact.outcome in STORED or self.plan_release() < PENALTIES_ARE_SHORT:
            self.report_violation(
                f"{node} did not isolate {last.fact.queue.broker}, where its send {last.ending}",
                last.key,
            )


class _LastAttempt(NamedTuple):
    fact: SendAttempted
    key: EntryKey
    expected_ms: set[int]  # how long its broker may be isolated; 0: not at all

    @property
    def ending(self) -> str:
        is_ok = self.fact.outcome in STORED
        return f"took {self.fact.took_ms} ms" if is_ok else "failed"


_Isolations: TypeAlias = dict[str, tuple[int, EntryKey]]  # by broker: until when, and its fact


class IsolatedBrokersAreAvoided(LoadMonitor):
    """Client invariants 18 and 19: MQFaultStrategy.selectOneMessageQueue."""

    name = "isolated_brokers_rest"
    rule = (
        "a latency-aware producer begins no send at a broker that it has isolated, while its "
        "route has another one that it has not (client invariants 18, 19)"
    )
    invariants = (18, 19)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._isolations: dict[str, _Isolations] = {}  # by producer
        # By producer and topic: brokers of its route, and since when each is in it.
        self._routes: dict[tuple[str, str], dict[str, int]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SendAttempted: self._attempted,
            BrokerIsolated: self._isolated,
            RouteChanged: self._changed,
        }

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        before = self._routes.get((entry.node, fact.topic), {})
        self._routes[entry.node, fact.topic] = {
            broker: before.get(broker, entry.mono_us)
            for broker in fact.brokers
            if broker not in fact.without_master  # no producer sends to its queues
        }

    def _isolated(self, fact: BrokerIsolated, entry: Entry) -> None:
        release = self.plan_release()
        if latency_aware(self.load_of(entry.node)) == "sync" and release != REACHABLE_IS_APART:
            for_ms = fact.for_ms if fact.available_in_ms < 0 else fact.available_in_ms
            until_us = entry.mono_us + for_ms * 1_000
            isolations = self._isolations.setdefault(entry.node, {})
            isolations[fact.broker] = until_us, key_of(entry)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        isolations = self._isolations.get(entry.node)
        if not isolations:
            return
        broker, began_us = fact.queue.broker, entry.mono_us - fact.took_ms * 1_000
        route = self._routes.get((entry.node, fact.topic), {})
        # Other sends of this producer may have ended since this one began.
        rest = {each for each, (until_us, _) in isolations.items() if until_us >= began_us}
        others = {each for each in route if route[each] <= began_us} - rest
        if fact.attempt == 1 and any(self._takes_sends(fact, each, entry) for each in others):
            self.count_tried()
            if broker in rest:
                self._check(fact, began_us, isolations[broker], entry)
        if fact.outcome in STORED and self.plan_release() < PENALTIES_ARE_SHORT:
            self._end(isolations, broker, entry)
        old_us = entry.mono_us - SEND_US_MAX
        for each in [each for each, (until_us, _) in isolations.items() if until_us < old_us]:
            del isolations[each]

    def _end(self, isolations: _Isolations, broker: str, entry: Entry) -> None:
        """A fast answer ends an isolation; a slow one is followed by a new one."""
        if broker in isolations:
            until_us, key = isolations[broker]
            isolations[broker] = min(until_us, entry.mono_us - 1), key

    def _check(
        self, fact: SendAttempted, began_us: int, isolation: tuple[int, EntryKey], entry: Entry
    ) -> None:
        """Report a send that began after the isolation and before its end."""
        until_us, isolated = isolation
        if not isolated.mono_us + CLOCK_US < began_us < until_us - CLOCK_US:
            return
        if self.cluster.touched((entry.node,), isolated.mono_us, entry.mono_us):
            self.count_excused()  # a new process has no isolations
            return
        self.report_violation(
            f"{entry.node} began a send of {fact.topic} at {fact.queue.broker}, which it avoids "
            f"for {(until_us - began_us) / 1e6:.1f} s more, although others take sends",
            isolated,
            entry,
        )

    def _takes_sends(self, fact: SendAttempted, broker: str, entry: Entry) -> bool:
        """Whether *broker* is writable, and has been in every route for one route poll."""
        topics = self.cluster.topics
        if not is_writeable(topics.perm(fact.topic, broker)):
            return False
        since_us = topics.writeable_since_us(fact.topic, broker)
        return entry.mono_us - since_us > 2 * ROUTE_US


def latency_aware(load: dict[str, Any] | None) -> Literal["", "sync", "async"]:
    """How a latency-aware load sends; "" if its brokers are not isolated by a release's table."""
    settings = {} if load is None else load.get("settings", {})
    if load is None or load.get("keys") or not settings.get("send_latency_fault_enable"):
        return ""
    mode = load.get("mode", "sync")
    is_known = mode in ("sync", "async") and not {"release", "fault_table"} & settings.keys()
    return mode if is_known else ""


def penalties(release: tuple[int, ...]) -> dict[int, int]:
    """The table of *release*: latency in ms, at least, to isolation in ms."""
    return PENALTIES_LONG if release < PENALTIES_ARE_SHORT else PENALTIES_SHORT


def penalty_ms(release: tuple[int, ...], latency_ms: int) -> int:
    """How long a broker is isolated after an attempt of *latency_ms*."""
    rows = penalties(release).items()
    return max((for_ms for floor_ms, for_ms in rows if latency_ms >= floor_ms), default=0)


def failure_ms(release: tuple[int, ...]) -> int:
    """How long a broker is isolated after a failed attempt."""
    is_old = release < PENALTIES_ARE_SHORT
    return penalty_ms(release, FAILED_LATENCY_MS_OLD if is_old else FAILED_LATENCY_MS)


def _text(durations_ms: set[int]) -> str:
    return " or ".join(str(each) for each in sorted(durations_ms))
