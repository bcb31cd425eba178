"""What becomes of a send as a whole: where it is retried, how long it takes, that it ends.

Which sends a producer makes is in the plan: its loads, in their order, say whether they are sync,
async, one-way, or choose a queue by a key.
"""

from __future__ import annotations

from typing import Any

from emulator.checks.checker import Shared, key_of, place_of
from emulator.checks.disturbances import ENDING
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import OfLoads
from emulator.checks.monitors.registering import ROUTE_US
from emulator.facts import (
    FaultBegan,
    MessageSent,
    NodeKilled,
    RouteChanged,
    SendAttempted,
    SendFailed,
)
from emulator.journal import Entry, EntryKey
from protocol.names import RETRY_GROUP_TOPIC_PREFIX
from protocol.perm import is_writeable

SEND_US = 3_000_000  # sendMsgTimeout
SLACK_US = 100_000  # timers are in milliseconds, and one of them may be late
ENDS_US = 10_000_000  # a send whose last attempt failed has told so by then
LAST_BROKER_AVOIDED = (4, 9, 0)  # before, some releases retried at the broker that failed


class RetriesChangeBroker(OfLoads):
    """Client invariants 13 and 14."""

    name = "retries_change_broker"
    rule = (
        "a sync send is never retried at the broker that just failed, if there is another one "
        "(client invariants 13, 14); one to a chosen queue is not retried"
    )
    invariants = (13, 14)
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._failed: dict[tuple[str, str], tuple[str, EntryKey]] = {}  # node, id: broker
        self._routes: dict[tuple[str, str], tuple[str, ...]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {SendAttempted: self._attempted, RouteChanged: self._changed}

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        self._routes[entry.node, fact.topic] = fact.brokers

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.attempt == 1 and fact.outcome in ("SEND_OK", "ONE_WAY"):
            return
        known = entry.node, fact.uniq_key
        before = self._failed.pop(known, None)
        if before is not None and fact.attempt > 1:
            self._looks(fact, before, entry)
        if fact.outcome != "SEND_OK":
            self._failed[known] = fact.queue.broker, key_of(entry)

    def _looks(self, fact: SendAttempted, before: tuple[str, EntryKey], entry: Entry) -> None:
        load = self.load_of(entry.node)
        if load is None or load.get("mode", "sync") != "sync":
            return
        if load.get("keys"):
            self.tries()
            self.objects(
                f"{entry.node} retried a send of {fact.topic} to a chosen queue", before[1], entry
            )
        elif self._may_change(fact, entry, load):
            self.tries()
            if fact.queue.broker == before[0]:
                if self._knows_no_other(fact, entry):
                    self.excuses()
                    return
                self.objects(
                    f"attempt {fact.attempt} of a send to {fact.topic} went to {before[0]} again, "
                    "where the one before had failed",
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
        perms = [self.scene.topics.perm(fact.topic, broker) for broker in brokers]
        return len(perms) > 1 and all(map(is_writeable, perms))

    def _knows_no_other(self, fact: SendAttempted, entry: Entry) -> bool:
        """Every other broker was read-only so shortly before that its route may still say so.

        Upstream: topicRouteData2TopicPublishInfo leaves such queues out, until the next poll.
        """
        topics = self.scene.topics
        for broker in self._routes[entry.node, fact.topic]:
            if broker == fact.queue.broker:
                continue
            since_us = topics.writeable_since_us(fact.topic, broker)
            nodes = {entry.node, broker, *topics.name_servers}
            quiet_us = self.scene.undisturbed_us(nodes, since_us, entry.mono_us)
            if since_us == 0 or quiet_us > ROUTE_US:
                return False
        return True


class SendsKeepTheirTimeout(OfLoads):
    """Client invariant 15, as far as the whole call goes."""

    name = "send_timeouts"
    rule = (
        "all attempts of a send together take sendMsgTimeout, 3 s, at most; once they have, no "
        "other one follows (client invariant 15)"
    )
    invariants = (15,)
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._used_ms: dict[tuple[str, str], int] = {}  # node, id: by its attempts up to now
        self._began: dict[tuple[str, str], EntryKey] = {}  # node, id: its first attempt ended
        self._first_us: dict[tuple[str, str], int] = {}  # when that attempt had begun

    def table(self) -> Table:
        """What it reads."""
        return {SendAttempted: self._attempted, SendFailed: self._ended, MessageSent: self._ended}

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
        self.tries()
        took_us = entry.mono_us - began_us
        if used_ms * 1_000 >= SEND_US and load.get("mode", "sync") == "sync":
            self.objects(
                f"attempt {fact.attempt} of a send to {fact.topic} was made after the others had "
                f"taken {used_ms} ms, all the time it has",
                self._began[known],
                entry,
            )
        if took_us <= SEND_US + SLACK_US:
            return
        if self.scene.touched((entry.node,), began_us, entry.mono_us):
            self.excuses()
        else:
            self.objects(
                f"attempt {fact.attempt} of a send to {fact.topic} ended {took_us / 1e6:.2f} s "
                "after the send had begun",
                self._began[known],
                entry,
            )

    def _ended(self, fact: SendFailed | MessageSent, entry: Entry) -> None:
        if self._first_us:
            for known in (self._first_us, self._began, self._used_ms):
                known.pop((entry.node, fact.uniq_key), None)


class SendsEnd(OfLoads):
    """DefaultMQProducerImpl: a call returns or raises, a callback is called once."""

    name = "sends_end"
    rule = (
        "a send whose attempt failed is retried, or ends with an error; one of which the error "
        "says that nothing was stored is stored nowhere"
    )
    needs = (SendAttempted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._open: dict[tuple[str, str], tuple[EntryKey, str]] = {}  # node, id: failed; topic

    def table(self) -> Table:
        """What it reads."""
        return {
            SendAttempted: self._attempted,
            SendFailed: self._failed,
            MessageSent: self._ended,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
        }

    def end(self) -> None:
        """A send that is open for long has been forgotten."""
        for (node, key), (failed, topic) in self._open.items():
            open_us = self.scene.now_us - failed.mono_us
            if open_us <= ENDS_US:
                continue
            now_us = self.scene.now_us
            if self.scene.undisturbed_us((node,), failed.mono_us, now_us) <= ENDS_US:
                self.excuses()
            else:
                assert self.scene.last is not None
                self.objects(
                    f"the send of {key} to {topic} neither ended nor was retried in "
                    f"{open_us / 1e6:.0f} s after its attempt failed",
                    failed,
                    key_of(self.scene.last),
                    node=node,
                )

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in ("SEND_OK", "ONE_WAY"):
            if fact.attempt > 1:
                self._open.pop((entry.node, fact.uniq_key), None)
            return
        self.tries()
        self._open[entry.node, fact.uniq_key] = key_of(entry), fact.topic

    def _ended(self, fact: SendFailed | MessageSent, entry: Entry) -> None:
        if self._open:
            self._open.pop((entry.node, fact.uniq_key), None)

    def _failed(self, fact: SendFailed, entry: Entry) -> None:
        self._ended(fact, entry)
        # A consumer that sends a message back by itself sends it with the key that it has.
        if fact.maybe_stored or fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            return
        self.tries()
        for records, offset in self.progress.messages.chains.open_sends.get(fact.uniq_key, ()):
            self.objects(
                f"{fact.uniq_key} failed for certain ({fact.error}), and it is stored: "
                f"{place_of(records.queue)}, offset {offset}",
                *records.life_of(offset),
                entry,
            )

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._forget((fact.node,))

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.scene.all_faults[-1].word in ENDING:
            self._forget(fact.nodes)

    def _forget(self, nodes: tuple[str, ...]) -> None:
        """Their processes have ended, with all that they had open."""
        for known in [each for each in self._open if each[0] in nodes]:
            del self._open[known]
