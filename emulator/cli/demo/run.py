"""What happens when: clients start, a consumer dies, a broker dies and comes back.

What happens when is decided by the clock, not by progress, so any file makes a demo.  All that is
known about it afterwards comes from the members' facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import trio

from emulator.cli.demo import story
from emulator.cli.demo.ledger import Ledger, MemberEntry
from emulator.cli.demo.member import MemberConfig
from emulator.cli.demo.members import KILLED, MemberProcess
from emulator.cli.demo.plan import GROUP, QUEUES_A_BROKER, TOPIC, DemoPlan
from emulator.cli.demo.story import DemoEvent, Moment
from emulator.client import PushConsumerConfig
from emulator.cluster.admin import admin_over_tcp
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.world import perform
from emulator.facts import Queue, QueuesClaimed, SendFailed
from emulator.net.plain_nursery import plain_nursery
from protocol.bodies.topics import TopicConfig

CONSUMERS = ("consumer-a", "consumer-b", "consumer-c")
CONSUMER_KILLED, BROKER_KILLED = "consumer-b", "broker-b"
HEARTBEAT_MS: int = PushConsumerConfig(group=GROUP).heartbeat_interval_ms
LOOK_S = 0.05
GATHER_S_MAX = 10.0


class DemoRun:
    """One run of the demo; ``on_event`` is called after every event."""

    def __init__(
        self,
        cluster: ProcessCluster,
        plan: DemoPlan,
        file: str,
        lines: int,
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.ledger = Ledger(plan.bar_ms)
        self.events: list[DemoEvent] = []
        self.members: dict[str, MemberProcess] = {}
        self.lines = lines
        self.was_interrupted = False
        self.on_event: Callable[[], None] = _nobody_looks
        self.broker_state = dict.fromkeys(cluster.brokers, "running")
        self._file = file
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
            self._tell(story.CONSUMERS_START)
            await self._wait_until(self._is_shared, GATHER_S_MAX)
            began_s = trio.current_time()
            producer = self._start(nursery, self._member_config("producer", "producer"))
            self._tell(story.SENDING_STARTS)
            await self._inject_faults(began_s)
            await producer.ended.wait()
            self._tell(story.SENDING_ENDS_EARLY if self._broker_waits() else story.SENDING_ENDS)
            await self._wait_until(self._is_complete, self.plan.patience_s)
            self._tell(story.ALL_DELIVERED if self._is_complete() else story.LINES_LOST)

    def stop_early(self) -> None:
        """The user has seen enough."""
        self.was_interrupted = True
        self._tell(story.STOPPED_EARLY)

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
        self._tell(story.CONSUMER_KILLED)
        await trio.sleep_until(began_s + plan.kill_broker_s)
        await perform(self.cluster, "kill", BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = KILLED
        ledger.broker_killed(BROKER_KILLED, _wall_ms())
        self._tell(story.BROKER_KILLED)
        await trio.sleep_until(began_s + plan.restart_broker_s)
        await perform(self.cluster, "restart", BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = "back"
        ledger.broker_back(_wall_ms())
        self._tell(story.BROKER_RETURNS)

    def _is_shared(self) -> bool:
        """Every queue has an owner, and every consumer has queues."""
        owners = [history.owner for history in self.ledger.queues.values()]
        everywhere = len(owners) == QUEUES_A_BROKER * len(self.cluster.brokers)
        return everywhere and all(owners) and set(owners) == set(CONSUMERS)

    def _broker_waits(self) -> bool:
        """The restarted broker has messages, and has delivered none since its return."""
        return bool(self.ledger.undelivered) and not self.ledger.broker_resumed_ms

    def _is_complete(self) -> bool:
        return not self.ledger.undelivered

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
        resumed, failed = bool(ledger.broker_resumed_ms), ledger.failed_sends
        ledger.read(entry)
        if isinstance(fact, SendFailed) and not failed:
            first_line = fact.error.splitlines()[0]
            self._record(f"a send fails, others are only counted: {first_line}", is_bad=True)
        elif isinstance(fact, QueuesClaimed):
            if mine := [queue for queue in fact.queues if queue.topic == TOPIC]:
                self._record(f"{entry.node} takes {queues_text(mine)}")
        elif bool(ledger.broker_resumed_ms) != resumed:
            self._tell(story.DELIVERY_RESUMES)
        if self._condition():
            self._is_met.set()

    def _tell(self, moment: Moment) -> None:
        self._add(moment.event(_wall_ms(), self.now_s, **self._known()))

    def _record(self, text: str, *, is_bad: bool = False) -> None:
        self._add(DemoEvent(_wall_ms(), self.now_s, text, is_bad=is_bad))

    def _add(self, event: DemoEvent) -> None:
        self.events.append(event)
        self.on_event()

    def _known(self) -> dict[str, Any]:
        """What the sentences of the story have places for."""
        heartbeat_ms = self.plan.timers.get("heartbeat_interval_ms", HEARTBEAT_MS)
        return {
            "consumer": CONSUMER_KILLED,
            "broker": BROKER_KILLED,
            "other": next(name for name in self.cluster.brokers if name != BROKER_KILLED),
            "heartbeat_s": heartbeat_ms / 1000,
            "patience_s": self.plan.patience_s,
            "lines": self.lines,
            "sent": len(self.ledger.sent),
            "waiting": self.ledger.undelivered,
            "duplicates": self.ledger.duplicates,
        }


def queues_text(queues: Sequence[Queue]) -> str:
    """``broker-a/0,1,2 broker-b/3``."""
    numbers: dict[str, list[str]] = {}
    for queue in sorted(queues):
        numbers.setdefault(queue.broker, []).append(str(queue.queue_id))
    return " ".join(f"{broker}/{','.join(ids)}" for broker, ids in numbers.items())


def _nobody_looks() -> None:
    """The events are kept anyhow."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
