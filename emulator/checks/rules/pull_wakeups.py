"""A held pull is answered when a message comes, not at the broker's next sweep.

Facts of the broker show it: a pull is held, a message that it wants is stored in its queue, and
the answer follows at once.  A later answer came from the sweep: the client waited up to 5 s
without need, and neither loss nor backlog shows that.  A pull that is never answered is late,
too.  A broker touched by a fault may answer at its next sweep.

With allAckInSyncStateSet a message can be read once each slave of the sync-state set has it, so it
wakes pulls then.  Upstream: CommitLog.getConfirmOffset, ReputMessageService.doReput.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
)
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.message_labels import labels_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConnectionClosed,
    FaultBegan,
    MemberJoined,
    MessageStored,
    NodeKilled,
    NodeStarted,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    SlaveAcknowledged,
    SyncStateSetChanged,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

WOKEN_US_MAX = 1_000_000  # upstream: within 100 ms
SWEPT_US_MAX = 6_000_000  # sweeps come every 5 s
LOSING = PROCESS_ENDING | {"answer"}  # faults that end held pulls: no process, or no answer
Puller = tuple[str, str]  # group, address


class HeldPullsWake(Checker):
    """Server invariant 47."""

    name = "wakes"
    rule = "a message wakes the held pulls that want it, long before the next sweep"
    metrics = (
        Metric("late_wakes", "pulls", "answered more than 1 s after their message came"),
        Metric("excused_late_wakes", "pulls", "the same, and a fault touched their broker"),
    )
    needs = (PullHeld,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._held: dict[Queue, dict[Puller, tuple[PullHeld, Entry]]] = {}
        self._due: dict[tuple[Puller, Queue], tuple[EntryKey, EntryKey]] = {}  # held, stored
        # By broker, the same: held, and the end of a record that cannot be read yet.
        self._unconfirmed: dict[str, dict[tuple[Puller, Queue], tuple[EntryKey, int]]] = {}
        self._clients: dict[tuple[str, str], str] = {}  # broker, address of a member: its id

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            PullHeld: self._hold,
            MessageStored: self._stored,
            SlaveAcknowledged: self._acknowledged,
            SyncStateSetChanged: self._set_changed,
            PullAnswered: self._answered,
            PullFailed: self._failed,
            MemberJoined: self._joined,
            NodeStarted: self._started,
            ConnectionClosed: self._closed,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
        }

    def end(self) -> None:
        """Report woken pulls that are not answered at the end."""
        for metric in self.metrics:
            self.add_to_metric(metric.name, 0)
        if self.cluster.last is not None:
            self._give_up(sorted(self._due), key_of(self.cluster.last))

    def _hold(self, fact: PullHeld, entry: Entry) -> None:
        if entry.node != fact.queue.broker:
            return  # at a slave: up to 4.x the messages that it copies wake no pull
        pullers = self._held.get(fact.queue)
        if pullers is None:
            pullers = self._held[fact.queue] = {}
        pullers[fact.group, fact.peer] = fact, entry

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        pullers = self._held.get(fact.queue)
        if not pullers or (self.cluster.faults and self._loses(entry.node)):
            return
        stored = EntryKey(entry.mono_us, entry.node, entry.seq)
        rung = [each for each, (held, _) in pullers.items() if held.offset <= fact.offset]
        for puller in rung:
            _, held = pullers.pop(puller)
            now_us = entry.mono_us
            if not self.cluster.has_filters or self.cluster.is_wanted(
                puller[0], fact.queue.topic, labels_of(fact), now_us, now_us
            ):
                self.tried += 1
                self._wakes(puller, fact, key_of(held), stored)

    def _wakes(self, puller: Puller, fact: MessageStored, held: EntryKey, at: EntryKey) -> None:
        broker, end = fact.queue.broker, fact.position + fact.size_bytes
        if self.cluster.is_confirmed(broker, end):
            self._due[puller, fact.queue] = held, at
        else:
            self._unconfirmed.setdefault(broker, {})[puller, fact.queue] = held, end

    def _acknowledged(self, fact: SlaveAcknowledged, entry: Entry) -> None:
        self._confirms(entry.node, entry)

    def _set_changed(self, fact: SyncStateSetChanged, entry: Entry) -> None:
        self._confirms(fact.broker, entry)

    def _confirms(self, broker: str, entry: Entry) -> None:
        """Pulls wait for messages that can be read from now on."""
        waiting = self._unconfirmed.get(broker)
        if not waiting:
            return
        for each, (held, end) in list(waiting.items()):
            if self.cluster.is_confirmed(broker, end):
                del waiting[each]
                self._due[each] = held, key_of(entry)

    def _loses(self, broker: str) -> bool:
        faults = self.cluster.faults.values()
        return any(each.word in LOSING and broker in each.nodes for each in faults)

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        puller = fact.group, fact.peer
        pullers = self._held.get(fact.queue)
        if pullers:
            pullers.pop(puller, None)
        if (waiting := self._unconfirmed.get(fact.queue.broker)) is not None:
            waiting.pop((puller, fact.queue), None)
        due = self._due.pop((puller, fact.queue), None)
        if due is not None and entry.mono_us - due[1].mono_us > WOKEN_US_MAX:
            self._check(fact.group, fact.queue, *due, key_of(entry), "answered")

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._clients[entry.node, fact.peer] = fact.client

    def _failed(self, fact: PullFailed, entry: Entry) -> None:
        """The woken pull was refused: only the member notes that, not the broker."""
        consumer = self.cluster.consumer(fact.group, entry.node)
        client = "" if consumer is None else consumer.started.client

        def is_of_member(puller: Puller, queue: Queue) -> bool:
            known = self._clients.get((queue.broker, puller[1]), client)
            return (puller[0], queue, known) == (fact.group, fact.queue, client)

        unconfirmed = self._unconfirmed.get(fact.queue.broker, {})
        for known in [each for each in unconfirmed if is_of_member(*each)]:
            del unconfirmed[known]
        for known in [each for each in self._due if is_of_member(*each)]:
            held, stored = self._due.pop(known)
            self._check(fact.group, fact.queue, held, stored, key_of(entry), "refused")

    def _check(
        self,
        group: str,
        queue: Queue,
        held: EntryKey,
        stored: EntryKey,
        now: EntryKey,
        what: str,
    ) -> None:
        late_us = now.mono_us - stored.mono_us
        if late_us <= WOKEN_US_MAX:
            return
        brokers, since_us = (queue.broker,), stored.mono_us
        if self.cluster.touched(brokers, since_us - SWEPT_US_MAX, since_us + WOKEN_US_MAX):
            quiet_us = self.cluster.undisturbed_us(brokers, since_us, now.mono_us)
            if quiet_us <= SWEPT_US_MAX:
                self.add_to_metric("excused_late_wakes", 1)
                return
        self.add_to_metric("late_wakes", 1)
        self.report_violation(
            f"a message came to {place_of(queue)}, and a pull of {group} that waited "
            f"for it was {what} {late_us / 1e6:.1f} s later",
            held,
            stored,
            now,
            node=queue.broker,
        )

    def _closed(self, fact: ConnectionClosed, entry: Entry) -> None:
        """Drop pulls of a closed connection: their answers have no receiver."""
        for queue, pullers in self._held.items():
            if queue.broker == entry.node:
                for puller in [each for each in pullers if each[1] == fact.peer]:
                    del pullers[puller]
        unconfirmed = self._unconfirmed.get(entry.node, {})
        for known in [each for each in unconfirmed if each[0][1] == fact.peer]:
            del unconfirmed[known]
        gone = [
            (puller, queue)
            for puller, queue in self._due
            if puller[1] == fact.peer and queue.broker == entry.node
        ]
        self._give_up(gone, key_of(entry))

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._forget_broker(entry.node, key_of(entry))

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._forget_broker(fact.node, key_of(entry))

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.cluster.all_faults[-1].word in LOSING:
            for broker in fact.nodes:
                self._forget_broker(broker, key_of(entry))

    def _forget_broker(self, broker: str, now: EntryKey) -> None:
        for queue in [each for each in self._held if each.broker == broker]:
            del self._held[queue]
        self._unconfirmed.pop(broker, None)
        self._give_up([each for each in self._due if each[1].broker == broker], now)

    def _give_up(self, pulls: list[tuple[Puller, Queue]], now: EntryKey) -> None:
        """Check *pulls* that have no answer at *now*, and drop them."""
        for puller, queue in pulls:
            held, stored = self._due.pop((puller, queue))
            self._check(puller[0], queue, held, stored, now, "not answered yet")
