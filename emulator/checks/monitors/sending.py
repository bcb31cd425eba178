"""A producer's sends: number and brokers of attempts, total time, and that each send ends.

The plan has a producer's sends: its loads, in their order, are sync, async, one-way, or choose a
queue by a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from rocketmq_emulator.checks.monitors.monitor import LoadMonitor, Monitor
from rocketmq_emulator.checks.monitors.registering import ROUTE_US
from rocketmq_emulator.checks.rules.failover import FAULT_EFFECT_US_MAX, STORED
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import SET_TOO_SMALL
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    FaultBegan,
    HalfMessageSent,
    MessageSent,
    NodeKilled,
    RouteChanged,
    SendAttempted,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.flags import is_writeable
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

# Attempts -----------------------------------------------------------------------------


SendEnd: TypeAlias = MessageSent | HalfMessageSent | SendFailed
SEND_ENDS = (MessageSent, HalfMessageSent, SendFailed)
ATTEMPTS_MAX = 3  # retryTimesWhenSendFailed + 1
CHOSEN_US = 1_000_000  # the broker may be chosen so long before the attempt begins


class AttemptsAreBounded(LoadMonitor):
    """Client invariants 13 and 23."""

    name = "attempts_are_bounded"
    rule = (
        "a send makes at most 3 attempts, a one-way send 1 (client invariant 13), and all of them "
        "carry one unique id (23)"
    )
    invariants = (13, 23)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        # Failed attempts that no other followed, by node, id and their number.  A member that
        # was given several copies of a message sends them back at the same time, with one id.
        self._open: dict[tuple[str, str, int], list[EntryKey]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome == "SEND_OK":
            return
        evidence = self._attempt_before(entry.node, fact)
        self.count_tried(fact.attempt > 1)
        limit = 1 if fact.outcome == "ONE_WAY" else ATTEMPTS_MAX
        if fact.attempt > limit and not self._sets_retries(entry.node):
            self.report_violation(
                f"attempt {fact.attempt} of a send to {fact.topic}, where {limit} are allowed",
                *evidence,
                entry,
            )
        elif fact.attempt > 1 and not evidence:
            self.report_violation(
                f"attempt {fact.attempt} of a send to {fact.topic} has the id {fact.uniq_key}, "
                f"which no attempt {fact.attempt - 1} had",
                entry,
            )
        if fact.outcome not in ("SEND_OK", "ONE_WAY"):
            known = entry.node, fact.uniq_key, fact.attempt
            self._open.setdefault(known, []).append(key_of(entry))

    def _attempt_before(self, node: str, fact: SendAttempted) -> tuple[EntryKey, ...]:
        """The failed attempt that *fact* follows; none if there is none."""
        known = node, fact.uniq_key, fact.attempt - 1
        if not (failed := self._open.get(known)):
            return ()
        found = failed.pop(0)
        if not failed:
            del self._open[known]
        return (found,)

    def _sets_retries(self, producer: str) -> bool:
        names = {"sync_retries", "async_retries"}
        return any(names & each.get("settings", {}).keys() for each in self.loads_of(producer))


class AsyncRetriesStay(Monitor):
    """Client invariant 16, for producers whose load is asynchronous by the plan."""

    name = "async_retries_stay"
    rule = "the retry of an asynchronous send keeps its queue number (client invariant 16)"
    invariants = (16,)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._producers: frozenset[str] | None = None  # of async loads; None: not looked up yet
        self._open: dict[tuple[str, str], tuple[int, EntryKey]] = {}  # failed: queue number

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
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
        self.count_tried(known in self._open)
        number, before = self._open.pop(known, (fact.queue.queue_id, key))
        if fact.queue.queue_id != number:
            self.report_violation(
                f"attempt {fact.attempt} of an asynchronous send went to queue "
                f"{fact.queue.queue_id} of {fact.queue.broker}, the one before to number {number}",
                before,
                entry,
            )
        elif fact.outcome != "SEND_OK":
            self._open[known] = number, key

    def _senders(self, mode: str) -> frozenset[str]:
        """The producers of loads of this mode; producers are numbered over all loads."""
        modes = [
            each.get("mode", "sync")
            for each in self.cluster.plan.get("load", ())
            for _ in range(each.get("producers", 1))
        ]
        return frozenset(f"producer-{at}" for at, each in enumerate(modes, 1) if each == mode)


class SendsFollowRoutes(Monitor):
    """Client invariants 9 and 58, the part that facts show."""

    name = "sends_follow_routes"
    rule = (
        "a send goes to brokers of the producer's route only (client invariant 9), so never to "
        "one that the route has lost (58)"
    )
    invariants = (9, 58)
    needs = (RouteChanged,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._routes: dict[tuple[str, str], tuple[tuple[str, ...], EntryKey]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
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
        if fact.attempt == 1 and began_us - known[1].mono_us > CHOSEN_US:
            self.report_violation(
                f"{entry.node} sent to {fact.queue.broker}, which its route of {fact.topic} "
                f"lost {(began_us - known[1].mono_us) / 1e6:.1f} s before",
                known[1],
                entry,
            )


class HealthyAttemptsSucceed(Monitor):
    """DefaultMQProducerImpl.sendKernelImpl: without a fault the first attempt succeeds."""

    name = "healthy_attempts_succeed"
    rule = (
        "an attempt at a broker that takes sends succeeds, if for 160 s no fault touched the "
        "broker, the producer or a NameServer (client invariant 13: only failed sends are retried)"
    )
    invariants = (13,)
    needs = (SendAttempted,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in STORED:
            self.tried += not self.cluster.faults
            return
        topics, queue = self.cluster.topics, fact.queue
        began_us = entry.mono_us - fact.took_ms * 1_000
        is_writable = is_writeable(topics.perm(fact.topic, queue.broker))
        if not is_writable or topics.writeable_since_us(fact.topic, queue.broker) > began_us:
            return
        nodes = {entry.node, queue.broker, *topics.name_servers, *self._awaited(queue.broker)}
        if self.cluster.disturbed(nodes, began_us, entry.mono_us):
            return
        if self.cluster.lacks_slaves(queue.broker, began_us) or self._takes_nothing(fact):
            self.count_excused()
            return
        if self.cluster.disturbed(nodes, began_us - FAULT_EFFECT_US_MAX, began_us):
            self.count_excused()  # a fault that has just ended still has effects
            return
        self.report_violation(
            f"{entry.node} failed to send to {queue.broker}, although no fault touches "
            f"either: {fact.outcome}",
            entry,
        )

    def _awaited(self, broker: str) -> Iterable[str]:
        """The slaves for which *broker* waits: their faults make sends late."""
        store, master = self.cluster.stores.get(broker), self.cluster.replicas.of(broker)
        waits = store is not None and (store.slaves_awaited or store.awaits_sync_state_set)
        return master.slaves if waits and master is not None else ()

    def _takes_nothing(self, fact: SendAttempted) -> bool:
        """Whether the sync-state set is smaller than minInSyncReplicas: nothing was written.

        Or the master is a slave now, and the elected broker, which may have ended, has no role.
        """
        if fact.queue.broker in self.cluster.roles.vacant:
            return True
        return SET_TOO_SMALL in fact.outcome and self.cluster.replicas.may_move(fact.queue.broker)


# Whole sends --------------------------------------------------------------------------


SEND_US = 3_000_000  # sendMsgTimeout
SLACK_US = 100_000  # timers are in milliseconds, and one of them may be late
ENDS_US = 10_000_000  # after its last failed attempt a send ends within this time
LAST_BROKER_AVOIDED = (4, 9, 0)  # before, some releases retried at the broker that failed


class RetriesChangeBroker(LoadMonitor):
    """Client invariants 13 and 14."""

    name = "retries_change_broker"
    rule = (
        "a sync send is never retried at the broker that just failed, if there is another broker "
        "(client invariants 13, 14); a send to a chosen queue is not retried"
    )
    invariants = (13, 14)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._failed: dict[tuple[str, str], tuple[str, EntryKey]] = {}  # node, id: broker
        self._routes: dict[tuple[str, str], tuple[str, ...]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted, RouteChanged: self._changed}

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        self._routes[entry.node, fact.topic] = fact.brokers

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome in ("SEND_OK", "ONE_WAY"):
            return
        known = entry.node, fact.uniq_key
        before = self._failed.pop(known, None)
        if before is not None and fact.attempt > 1:
            self._check(fact, before, entry)
        if fact.outcome != "SEND_OK":
            self._failed[known] = fact.queue.broker, key_of(entry)

    def _check(self, fact: SendAttempted, before: tuple[str, EntryKey], entry: Entry) -> None:
        load = self.load_of(entry.node)
        if load is None or load.get("mode", "sync") != "sync":
            return
        if load.get("keys"):
            self.count_tried()
            self.report_violation(
                f"{entry.node} retried a send of {fact.topic} to a chosen queue", before[1], entry
            )
        elif self._may_change(fact, entry, load):
            self.count_tried()
            if fact.queue.broker == before[0]:
                if self._knows_no_other(fact, entry):
                    self.count_excused()
                    return
                self.report_violation(
                    f"attempt {fact.attempt} of a send to {fact.topic} went to {before[0]} again, "
                    "where the last attempt had failed",
                    before[1],
                    entry,
                )

    def _may_change(self, fact: SendAttempted, entry: Entry, load: dict[str, Any]) -> bool:
        settings = load.get("settings", {})
        if settings.get("send_latency_fault_enable") or "release" in settings:
            return False
        if self.plan_release() < LAST_BROKER_AVOIDED:
            return False
        brokers = self._routes.get((entry.node, fact.topic), ())
        perms = [self.cluster.topics.perm(fact.topic, broker) for broker in brokers]
        return len(perms) > 1 and all(map(is_writeable, perms))

    def _knows_no_other(self, fact: SendAttempted, entry: Entry) -> bool:
        """Whether its route may exclude all other brokers: read-only recently, or without master.

        Upstream: topicRouteData2TopicPublishInfo leaves such queues out until the next poll.
        """
        topics = self.cluster.topics
        for broker in self._routes[entry.node, fact.topic]:
            if broker == fact.queue.broker:
                continue
            since_us = topics.writeable_since_us(fact.topic, broker)
            nodes = {entry.node, broker, *topics.name_servers}
            quiet_us = self.cluster.undisturbed_us(nodes, since_us, entry.mono_us)
            if self._may_lack_its_master(broker, entry):
                continue
            if since_us == 0 or quiet_us > ROUTE_US:
                return False
        return True

    def _may_lack_its_master(self, broker: str, entry: Entry) -> bool:
        """Whether only slaves may keep *broker* in the route: its master was touched lately."""
        since_us = entry.mono_us - FAULT_EFFECT_US_MAX
        has_slaves = self.cluster.replicas.of(broker) is not None
        return has_slaves and self.cluster.touched((broker,), since_us, entry.mono_us)


class SendsKeepTheirTimeout(LoadMonitor):
    """Client invariant 15, the part about the whole call."""

    name = "send_timeouts"
    rule = (
        "all attempts of a send together take sendMsgTimeout, 3 s, at most; after that no attempt "
        "follows (client invariant 15)"
    )
    invariants = (15,)
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._used_ms: dict[tuple[str, str], int] = {}  # node, id: time of its attempts
        self._began: dict[tuple[str, str], EntryKey] = {}  # node, id: its first attempt ended
        self._first_us: dict[tuple[str, str], int] = {}  # when its first attempt began

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted, **dict.fromkeys(SEND_ENDS, self._ended)}

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome in ("SEND_OK", "ONE_WAY"):
            return
        known = entry.node, fact.uniq_key
        if fact.attempt == 1:
            self._began[known] = key_of(entry)
            self._first_us[known] = entry.mono_us - fact.took_ms * 1_000
            self._used_ms[known] = fact.took_ms
            return
        began_us = self._first_us.get(known)
        used_ms = self._used_ms.get(known, 0)
        self._used_ms[known] = used_ms + fact.took_ms
        load = self.load_of(entry.node)
        if began_us is None or load is None or load.get("mode", "sync") == "oneway":
            return
        names = {"send_timeout_ms", "send_timeout_ms_per_attempt", "release"}
        if names & load.get("settings", {}).keys():
            return
        self.count_tried()
        took_us = entry.mono_us - began_us
        if used_ms * 1_000 >= SEND_US and load.get("mode", "sync") == "sync":
            self.report_violation(
                f"attempt {fact.attempt} of a send to {fact.topic} was made after the others had "
                f"taken {used_ms} ms, the whole timeout",
                self._began[known],
                entry,
            )
        if took_us <= SEND_US + SLACK_US:
            return
        if self.cluster.touched((entry.node,), began_us, entry.mono_us):
            self.count_excused()
        else:
            self.report_violation(
                f"attempt {fact.attempt} of a send to {fact.topic} ended {took_us / 1e6:.2f} s "
                "after the send had begun",
                self._began[known],
                entry,
            )

    def _ended(self, fact: SendEnd, entry: Entry) -> None:
        if self._first_us:
            for known in (self._first_us, self._began, self._used_ms):
                known.pop((entry.node, fact.uniq_key), None)


class SendsEnd(LoadMonitor):
    """DefaultMQProducerImpl: a call returns or raises, a callback is called once."""

    name = "sends_end"
    rule = (
        "a send whose attempt failed is retried or ends with an error; if the error says that "
        "nothing was stored, the message is stored nowhere"
    )
    needs = (SendAttempted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._open: dict[tuple[str, str], tuple[EntryKey, str]] = {}  # node, id: failure, topic

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SendAttempted: self._attempted,
            **dict.fromkeys(SEND_ENDS, self._ended),
            SendFailed: self._failed,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
        }

    def end(self) -> None:
        """Report sends that are open for long."""
        for (node, key), (failed, topic) in self._open.items():
            open_us = self.cluster.now_us - failed.mono_us
            if open_us <= ENDS_US:
                continue
            now_us = self.cluster.now_us
            if self.cluster.undisturbed_us((node,), failed.mono_us, now_us) <= ENDS_US:
                self.count_excused()
            else:
                assert self.cluster.last is not None
                self.report_violation(
                    f"the send of {key} to {topic} neither ended nor was retried in "
                    f"{open_us / 1e6:.0f} s after its attempt failed",
                    failed,
                    key_of(self.cluster.last),
                    node=node,
                )

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in ("SEND_OK", "ONE_WAY"):
            if fact.attempt > 1:
                self._open.pop((entry.node, fact.uniq_key), None)
            return
        self.count_tried()
        self._open[entry.node, fact.uniq_key] = key_of(entry), fact.topic

    def _ended(self, fact: SendEnd, entry: Entry) -> None:
        if self._open:
            self._open.pop((entry.node, fact.uniq_key), None)

    def _failed(self, fact: SendFailed, entry: Entry) -> None:
        self._ended(fact, entry)
        # A consumer that sends a message back as a send keeps the message's key.
        if fact.maybe_stored or fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            return
        self.count_tried()
        for records, offset in self.progress.messages.pending.open_sends.get(fact.uniq_key, ()):
            self.report_violation(
                f"{fact.uniq_key} ended as not stored ({fact.error}), and it is stored: "
                f"{place_of(records.queue)}, offset {offset}",
                *records.entries_of_message(offset),
                entry,
            )

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._forget((fact.node,))

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.cluster.all_faults[-1].word in PROCESS_ENDING:
            self._forget(fact.nodes)

    def _forget(self, nodes: tuple[str, ...]) -> None:
        """Drop open sends of *nodes*, whose processes have ended."""
        for known in [each for each in self._open if each[0] in nodes]:
            del self._open[known]
