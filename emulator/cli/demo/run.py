"""What happens when: clients start, a consumer dies, a broker dies and comes back.

What happens when is decided by the clock, not by progress, so any file makes a demo.  All that is
known about it afterwards comes from the members' facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import trio

from emulator.cli.demo.ledger import Ledger, MemberEntry
from emulator.cli.demo.member import MemberConfig
from emulator.cli.demo.members import KILLED, MemberProcess
from emulator.cli.demo.plan import QUEUES_A_BROKER, TOPIC, Plan
from emulator.cluster.admin import admin_over_tcp
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.world import perform
from emulator.facts import Queue, QueuesClaimed, SendFailed
from emulator.net.plain_nursery import plain_nursery
from protocol.bodies.topics import TopicConfig

CONSUMERS = ("consumer-a", "consumer-b", "consumer-c")
CONSUMER_KILLED, BROKER_KILLED = "consumer-b", "broker-b"
LOOK_S = 0.05
GATHER_S_MAX = 10.0


class DemoEvent(msgspec.Struct, frozen=True):
    """One line of the timeline."""

    at_s: float
    text: str
    is_bad: bool = False


class DemoRun:
    """One run of the demo; *on_event* is given every event as it happens."""

    def __init__(
        self,
        cluster: ProcessCluster,
        plan: Plan,
        file: str,
        lines: int,
        on_event: Callable[[DemoEvent], None],
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.ledger = Ledger()
        self.events: list[DemoEvent] = []
        self.members: dict[str, MemberProcess] = {}
        self.lines = lines
        self.was_interrupted = False
        self.broker_state = dict.fromkeys(cluster.brokers, "running")
        self._file = file
        self._on_event = on_event
        self._began_s = time.monotonic()
        self._condition: Callable[[], bool] = self._is_complete
        self._is_met = trio.Event()

    @property
    def now_s(self) -> float:
        """Seconds since the run was made."""
        return time.monotonic() - self._began_s

    async def play(self) -> None:
        """From the first client to the last delivery.  Raises ``NodeDied`` for a death unasked."""
        await self._make_topic()
        async with plain_nursery() as nursery:
            nursery.start_soon(self._watch_nodes)
            for name in CONSUMERS:
                self._start(nursery, self._member_config(name, "consumer"))
            self._record("three consumers start")
            await self._wait_until(self._is_shared, GATHER_S_MAX)
            began_s = trio.current_time()
            producer = self._start(nursery, self._member_config("producer", "producer"))
            self._record(f"the producer starts: {self.lines:,} lines")
            await self._inject_faults(began_s)
            await producer.ended.wait()
            self._record(f"the last line is acknowledged ({len(self.ledger.sent_ms):,})")
            await self._wait_until(self._is_complete, self.plan.patience_s)
            if self._is_complete():
                self._record("every acknowledged line was delivered")
            else:
                self._record(f"{self.ledger.lost:,} acknowledged lines never came", is_bad=True)

    async def _make_topic(self) -> None:
        topic = TopicConfig(
            topic_name=TOPIC, read_queue_nums=QUEUES_A_BROKER, write_queue_nums=QUEUES_A_BROKER
        )
        async with admin_over_tcp(self.cluster.namesrv) as admin:
            await admin.create_topic_everywhere(topic)

    async def _inject_faults(self, began_s: float) -> None:
        plan, ledger = self.plan, self.ledger
        await trio.sleep_until(began_s + plan.kill_consumer_s)
        self.members[CONSUMER_KILLED].kill()
        ledger.consumer_killed(CONSUMER_KILLED, _wall_ms())
        self._record(f"{CONSUMER_KILLED} is killed with -9", is_bad=True)
        await trio.sleep_until(began_s + plan.kill_broker_s)
        await perform(self.cluster, "kill", BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = KILLED
        ledger.broker_killed(BROKER_KILLED, _wall_ms())
        self._record(f"{BROKER_KILLED} is killed with -9", is_bad=True)
        await trio.sleep_until(began_s + plan.restart_broker_s)
        await perform(self.cluster, "restart", BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = "restarted"
        ledger.broker_back(_wall_ms())
        self._record(f"{BROKER_KILLED} is back, with its store")

    def _is_shared(self) -> bool:
        """Every queue has an owner, and every consumer has queues."""
        owners = [history.owner for history in self.ledger.queues.values()]
        everywhere = len(owners) == QUEUES_A_BROKER * len(self.cluster.brokers)
        return everywhere and all(owners) and set(owners) == set(CONSUMERS)

    def _is_complete(self) -> bool:
        return not self.ledger.lost

    async def _wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Checked again with every entry that is read."""
        self._condition, self._is_met = condition, trio.Event()
        with trio.move_on_after(within_s):
            if not condition():
                await self._is_met.wait()

    async def _watch_nodes(self) -> None:
        while True:
            self.cluster.check_alive()
            await trio.sleep(LOOK_S)

    # Members --------------------------------------------------------------------------

    def _start(self, nursery: trio.Nursery, config: MemberConfig) -> MemberProcess:
        member = self.members[config.name] = MemberProcess(config)
        nursery.start_soon(member.read, self._read_entry)
        return member

    def _member_config(self, name: str, role: Literal["producer", "consumer"]) -> MemberConfig:
        return MemberConfig(
            name=name,
            role=role,
            namesrv=self.cluster.namesrv,
            timers=self.plan.timers,
            file=self._file,
            lines_a_second=self.lines / self.plan.send_until_s,
        )

    # Their journals -------------------------------------------------------------------

    def _read_entry(self, entry: MemberEntry) -> None:
        ledger, fact = self.ledger, entry.fact
        resumed = bool(ledger.broker_resumed_ms)
        ledger.read(entry)
        if isinstance(fact, SendFailed):
            self._record(f"{entry.node}: a send failed: {fact.error.splitlines()[0]}", is_bad=True)
        elif isinstance(fact, QueuesClaimed):
            if mine := [queue for queue in fact.queues if queue.topic == TOPIC]:
                self._record(f"{entry.node} takes {queues_text(mine)}")
        elif bool(ledger.broker_resumed_ms) != resumed:
            self._record(f"{ledger.broker}'s queues are delivered again")
        if self._condition():
            self._is_met.set()

    def _record(self, text: str, *, is_bad: bool = False) -> None:
        event = DemoEvent(self.now_s, text, is_bad)
        self.events.append(event)
        self._on_event(event)


def queues_text(queues: Sequence[Queue]) -> str:
    """``broker-a/0,1,2 broker-b/3``."""
    numbers: dict[str, list[str]] = {}
    for queue in sorted(queues):
        numbers.setdefault(queue.broker, []).append(str(queue.queue_id))
    return " ".join(f"{broker}/{','.join(ids)}" for broker, ids in numbers.items())


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
