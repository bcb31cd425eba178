"""The pull loop, from facts of brokers: one pull per queue at a time, held as long as it asks.

A queue that moves between members may be pulled twice for a while.  So a group is judged at a
broker only while it has one member there; a member that joins or leaves, or a new connection,
clears what was seen.  A member whose connection was lost may reconnect and pull before its next
heartbeat, so nothing is judged until it has joined again or is known to have ended.
``rocketmq_emulator.checks.servers`` judges each member by itself.

The first pull waits after a claim, and pulls wait after an offset was refused.
"""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import US_A_MS, Monitor
from rocketmq_emulator.checks.state.checker import CheckerContext
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ConnectionOpened,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    NodePaused,
    NodeResumed,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.codes import ResponseCode

PUSH = "CONSUME_PASSIVELY"
HOLD_MS_MAX = 15_000  # brokerSuspendMaxTimeMillis
SWEEP_MS = 5_000  # PullRequestHoldService checks so often: an answer may be this late
ERROR_US = 1_000_000  # pullTimeDelayMillsWhenException
BUSY_TEXT = f"code {int(ResponseCode.FLOW_CONTROL)}:"
PULL_US_MAX = 30_000_000  # consumerTimeoutMillisWhenSuspend
SCAN_US = 1_000_000  # from the end of a pause to calls that have no answer in time
EXPIRED_US = 120_000_000  # pullMaxIdleTime


class PushGroupMonitor(Monitor):
    """Knows which groups have exactly one member at a broker, and only push consumers."""

    servers_suffice = True

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._members: dict[tuple[str, str], set[str]] = {}  # broker, group: addresses
        self._missing: dict[tuple[str, str], set[str]] = {}  # of clients that lost a connection
        self._clients: dict[tuple[str, str], str] = {}  # broker, address: client id

    def table(self) -> Table:
        """Return the handlers of the facts about members; subclasses add theirs."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            ConnectionOpened: self._opened,
            QueuesReleased: self._released,
        }

    def forget(self, broker: str, group: str) -> None:
        """Drop what was seen of *group* at *broker*; "" stands for any."""

    def is_judged(self, broker: str, group: str) -> bool:
        """Whether *group* has one member at *broker*, a push consumer, and no lost one."""
        members = self._members.get((broker, group), ())
        if len(members) != 1 or not self.cluster.kinds(group) <= {"push"}:
            return False
        if group in self.cluster.consumers:
            return len(self.cluster.running(group)) == 1
        return not self._missing.get((broker, group))

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        if fact.consume_type == PUSH:
            self._members.setdefault((entry.node, fact.group), set()).add(fact.peer)
        self._missing.get((entry.node, fact.group), set()).discard(fact.client)
        self._clients[entry.node, fact.peer] = fact.client
        self.forget(entry.node, fact.group)

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._members.get((entry.node, fact.group), set()).discard(fact.peer)
        if fact.reason != "unregistered":
            self._missing.setdefault((entry.node, fact.group), set()).add(fact.client)
        self.forget(entry.node, fact.group)

    def _opened(self, fact: ConnectionOpened, entry: Entry) -> None:
        self.forget(entry.node, "")

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        self.forget("", fact.group)


class OnePullAtATime(PushGroupMonitor):
    """Client invariant 38."""

    name = "one_pull_at_a_time"
    rule = "never more than one outstanding pull per queue (client invariant 38)"
    invariants = (38,)
    needs = (PullHeld,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._held: dict[str, dict[Queue, Entry]] = {}  # by group

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullHeld: self._hold, PullAnswered: self._answered}

    def forget(self, broker: str, group: str) -> None:
        """Drop held pulls: they may never be answered."""
        for name, held in self._held.items():
            if group in ("", name):
                for queue in [each for each in held if broker in ("", each.broker)]:
                    del held[queue]

    def _hold(self, fact: PullHeld, entry: Entry) -> None:
        held = self._held.get(fact.group)
        if held is None:
            held = self._held[fact.group] = {}
        before = held.setdefault(fact.queue, entry)
        if before is entry:
            return
        # A slow broker may take a pull of a member that has left only now.
        is_same_peer = isinstance(before.fact, PullHeld) and before.fact.peer == fact.peer
        if is_same_peer and self.is_judged(entry.node, fact.group):
            self.report_violation(
                f"the only member of {fact.group} pulls {place_of(fact.queue)} at {fact.offset} "
                f"while its pull of {(entry.mono_us - before.mono_us) / 1e6:.1f} s before is held",
                before,
                entry,
            )
        held[fact.queue] = entry

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        held = self._held.get(fact.group)
        if held is not None and held.pop(fact.queue, None) is not None:
            self.tried += 1


class HeldPulls(Monitor):
    """Client invariant 40, the part that brokers note."""

    name = "held_pulls"
    rule = "a pull of an empty queue asks to be held for 15 s at most (client invariant 40)"
    invariants = (40,)
    servers_suffice = True
    needs = (PullHeld,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._pushed: set[tuple[str, str, str]] = set()  # broker, group, peer: a push consumer

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MemberJoined: self._joined,
            PullHeld: self._hold,
            BrokerRoleChanged: self._role_changed,
        }

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        if fact.consume_type == PUSH:
            self._pushed.add((entry.node, fact.group, fact.peer))

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """A slave that is elected has its connections with members already."""
        if (move := self.cluster.roles.move) is not None:
            self._pushed = {(move.after(node), group, peer) for node, group, peer in self._pushed}

    def _hold(self, fact: PullHeld, entry: Entry) -> None:
        self.tried += 1
        asked_ms = fact.until_ms - entry.at_ms
        if asked_ms <= HOLD_MS_MAX + SWEEP_MS:
            return
        kinds = self.cluster.kinds(fact.group)  # of clients with their own journal
        is_push = (entry.node, fact.group, fact.peer) in self._pushed
        if (kinds and kinds != {"push"}) or not (kinds or is_push):
            return
        if not self.sets(fact.group, "pull_hold_ms_max"):
            self.report_violation(
                f"a pull of {place_of(fact.queue)} by {fact.group} asks to be held too long: its "
                f"broker holds it for {asked_ms} ms",
                entry,
            )


class PullErrorsWait(Monitor):
    """Client invariant 39, the part that facts show."""

    name = "pull_errors_wait"
    rule = "after a pull that failed the next attempt is 1 s later (client invariant 39)"
    invariants = (39,)
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        # When a pull failed, and whether it may be from before a release of the queue.
        self._failed: dict[tuple[str, str, Queue], tuple[EntryKey, bool]] = {}
        self._released_us: dict[tuple[str, str, Queue], int] = {}
        self._pauses: dict[str, tuple[int, int | None]] = {}  # by node: its last one

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            PullFailed: self._fail,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            NodePaused: self._paused,
            NodeResumed: self._resumed,
        }

    def _paused(self, fact: NodePaused, entry: Entry) -> None:
        self._pauses[fact.node] = entry.mono_us, None

    def _resumed(self, fact: NodeResumed, entry: Entry) -> None:
        if (pause := self._pauses.get(fact.node)) is not None:
            self._pauses[fact.node] = pause[0], entry.mono_us

    def _may_be_old(self, known: tuple[str, str, Queue], now_us: int) -> bool:
        """Whether the pull that failed may have begun before the last release of its queue.

        Its time is up within ``PULL_US_MAX``, or when its process goes on that was paused then.
        Upstream: NettyRemotingAbstract.scanResponseTable, every second.
        """
        released_us = self._released_us.get(known)
        if released_us is None:
            return False
        up_us = released_us + PULL_US_MAX
        paused_us, resumed_us = self._pauses.get(known[0], (now_us, None))
        is_late = paused_us < up_us and now_us - (resumed_us or now_us) < SCAN_US
        return now_us < up_us or is_late

    def _fail(self, fact: PullFailed, entry: Entry) -> None:
        known = entry.node, fact.group, fact.queue
        is_old = self._may_be_old(known, entry.mono_us)
        if (failed := self._failed.pop(known, None)) is not None:
            self._check(fact, *failed, entry, is_old=is_old)
        if self.cluster.kinds(fact.group) == {"push"} and not fact.error.startswith(BUSY_TEXT):
            self._failed[known] = key(entry), is_old

    def _check(
        self, fact: PullFailed, before: EntryKey, was_old: bool, entry: Entry, *, is_old: bool
    ) -> None:
        is_early = entry.mono_us - before.mono_us < ERROR_US
        if is_old or was_old:
            if is_early:
                self.count_excused()
            return
        self.count_tried()
        if is_early and not self.sets(fact.group, "pull_error_delay_ms"):
            self.report_violation(
                f"{entry.node} tried {place_of(fact.queue)} again after "
                f"{(entry.mono_us - before.mono_us) // US_A_MS} ms",
                before,
                entry,
            )

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        """A new process queue does not wait for failures of the last one."""
        for queue in fact.queues:
            self._failed.pop((entry.node, fact.group, queue), None)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        for queue in fact.queues:
            self._released_us[entry.node, fact.group, queue] = entry.mono_us


class ExpiredPulls(Monitor):
    """Client invariant 41."""

    name = "expired_pulls"
    rule = (
        "a queue is given up as not pulled only after 120 s without a pull (client invariant 41)"
    )
    invariants = (41,)
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._pulling: dict[tuple[str, str, Queue], EntryKey] = {}  # last claim or failed pull
        self._nodes_of: dict[int, tuple[str, ...]] = {}  # by fault
        self._went_on_us: dict[str, int] = {}  # nodes whose last fault ended
        self._late: set[EntryKey] = set()  # of these: failures just after a fault of the member

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            QueuesClaimed: self._claimed,
            PullFailed: self._fail,
            QueuesReleased: self._released,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._nodes_of[fact.fault_id] = fact.nodes

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        for node in self._nodes_of.pop(fact.fault_id, ()):
            self._went_on_us[node] = entry.mono_us

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        for queue in fact.queues:
            self._pulling[entry.node, fact.group, queue] = key(entry)

    def _fail(self, fact: PullFailed, entry: Entry) -> None:
        """A pull of a process that was paused fails late, long after it began."""
        self.tried += 1
        known = entry.node, fact.group, fact.queue
        self._late.discard(self._pulling.get(known, key(entry)))
        self._pulling[known] = key(entry)
        if entry.mono_us - self._went_on_us.get(entry.node, -PULL_US_MAX) < PULL_US_MAX:
            self._late.add(key(entry))

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        for queue in fact.queues:
            before = self._pulling.pop((entry.node, fact.group, queue), None)
            if fact.reason != "pull expired" or before is None:
                continue
            passed_us = entry.mono_us - before.mono_us
            is_push = self.cluster.kinds(fact.group) == {"push"}
            # A pull that fails began up to 30 s before its PullFailed.
            is_early = is_push and passed_us < EXPIRED_US - PULL_US_MAX
            self.count_tried(before not in self._late)
            if is_early and before in self._late:
                self.count_excused()
            elif is_early:
                self.report_violation(
                    f"{entry.node} gave up {place_of(queue)} as not pulled, "
                    f"{passed_us / 1e6:.1f} s after a pull of it",
                    before,
                    entry,
                )


def key(entry: Entry) -> EntryKey:
    """The key of *entry*."""
    return EntryKey(entry.mono_us, entry.node, entry.seq)


# Delays before a pull -----------------------------------------------------------------


FIRST_PULL_US = 500_000  # since FIRST_PULL_WAITS
FIRST_PULL_WAITS = (5, 0, 0)
REPAIR_OLD_US = 10_000_000  # up to 5.1.4
REPAIR_US = 500_000  # since REPAIRED_SOON
REPAIRED_SOON = (5, 2, 0)


class FirstPullsWait(PushGroupMonitor):
    """Client invariant 37, since 5.0.0."""

    name = "first_pulls"
    rule = (
        "since 5.0.0 the first pull of a new queue is 500 ms after its claim (client invariant 37)"
    )
    invariants = (37,)
    servers_suffice = False
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._claims: dict[tuple[str, Queue], EntryKey] = {}
        self._pulled: dict[str, set[Queue]] = {}  # by group

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            QueuesClaimed: self._claimed,
            PullHeld: self._pull,
            PullAnswered: self._pull,
        }

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if self.release_at(fact.group, entry.node) < FIRST_PULL_WAITS:
            return
        pulled = self._pulled.get(fact.group, ())
        for queue in fact.queues:
            if queue not in pulled and self.is_judged(queue.broker, fact.group):
                self._claims[fact.group, queue] = key(entry)

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        pulled = self._pulled.get(fact.group)
        if pulled is None:
            pulled = self._pulled[fact.group] = set()
        if fact.queue in pulled:
            return
        pulled.add(fact.queue)
        claimed = self._claims.pop((fact.group, fact.queue), None)
        if claimed is not None and not self._is_of(claimed.node, fact):
            claimed = None  # a pull of another member, which may have an older release
        self.count_tried(claimed is not None)
        if claimed is not None and entry.mono_us - claimed.mono_us < FIRST_PULL_US:
            self.report_violation(
                f"{place_of(fact.queue)} was pulled "
                f"{(entry.mono_us - claimed.mono_us) // US_A_MS} ms after {claimed.node} claimed "
                "it",
                claimed,
                entry,
                node=claimed.node,
            )

    def _is_of(self, node: str, fact: PullHeld | PullAnswered) -> bool:
        """Whether the pull came over the connection of the member on *node*."""
        consumer = self.cluster.consumer(fact.group, node)
        client = self._clients.get((fact.queue.broker, fact.peer))
        return consumer is not None and client == consumer.started.client


class IllegalOffsetsDelayPulls(PushGroupMonitor):
    """Client invariant 42."""

    name = "illegal_offsets_rest"
    rule = (
        "after OFFSET_ILLEGAL no pull of the queue for 10 s, since 5.2.0 for 0.5 s "
        "(client invariant 42)"
    )
    invariants = (42,)
    needs = (PullAnswered,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._moved: dict[tuple[str, Queue, str], EntryKey] = {}  # with the puller's address

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullAnswered: self._answered, PullHeld: self._pull}

    def forget(self, broker: str, group: str) -> None:
        """Drop refusals: a new process queue does not wait for those of the last one."""
        for known in list(self._moved):
            if group in ("", known[0]) and broker in ("", known[1].broker):
                del self._moved[known]

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        self._pull(fact, entry)
        if fact.response_code == ResponseCode.PULL_OFFSET_MOVED:
            self.count_tried(self.cluster.kinds(fact.group) <= {"push"})
            self._moved[fact.group, fact.queue, fact.peer] = key(entry)

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        if not self._moved:
            return
        moved = self._moved.pop((fact.group, fact.queue, fact.peer), None)
        if moved is None or not self.cluster.kinds(fact.group) <= {"push"}:
            return
        passed_us = entry.mono_us - moved.mono_us
        if passed_us < self._rest_us(fact.group):
            self.report_violation(
                f"{fact.group} pulled {place_of(fact.queue)} {passed_us // US_A_MS} ms after its "
                "offset was refused as illegal",
                moved,
                entry,
            )

    def _rest_us(self, group: str) -> int:
        """The pause by the release of the members; the shorter one if it is not known."""
        consumers = self.cluster.running(group)
        releases = [self.release_at(group, consumer.node) for consumer in consumers]
        is_old = bool(releases) and all(() < release < REPAIRED_SOON for release in releases)
        return REPAIR_OLD_US if is_old else REPAIR_US
