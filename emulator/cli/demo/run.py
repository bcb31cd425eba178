"""One run of the demo: clients start, a consumer is killed, a broker is killed and comes back.

Events happen at fixed times, not at a share of the lines, so any file makes a demo.  Producer and
consumers are processes (``MemberProcess``).  All counts of the run come from the facts that they
write to standard output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.cli.demo import timeline
from rocketmq_emulator.cli.demo.ledger import Ledger, MemberEntry, read_entry
from rocketmq_emulator.cli.demo.member import MemberConfig
from rocketmq_emulator.cli.demo.timeline import (
    GROUP,
    QUEUES_A_BROKER,
    TOPIC,
    DemoEvent,
    DemoPlan,
    EventTemplate,
)
from rocketmq_emulator.client import PushConsumerConfig
from rocketmq_emulator.cluster.world import perform
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.facts import Queue, QueuesClaimed, SendFailed
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.processes.spawning import node_environment
from rocketmq_emulator.protocol.bodies.topics import TopicConfig

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
        self.on_event: Callable[[], None] = _no_display
        self.broker_state = dict.fromkeys(cluster.brokers, "running")
        self._file = file
        self._began_s = time.monotonic()
        self._condition: Callable[[], bool] = self._is_complete
        self._is_met = trio.Event()

    @property
    def now_s(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._began_s

    async def execute(self) -> None:
        """Run from the first client to the last delivery.

        Raises ``NodeDied`` if a process ends that was not killed here.
        """
        await self._make_topic()
        async with cancelling_nursery() as nursery:
            nursery.start_soon(self._watch_nodes)
            for name in CONSUMERS:
                self._start(nursery, self._member_config(name, "consumer"))
            self._add_caption(timeline.CONSUMERS_START)
            await self._wait_until(self._is_shared, GATHER_S_MAX)
            began_s = trio.current_time()
            producer = self._start(nursery, self._member_config("producer", "producer"))
            self._add_caption(timeline.SENDING_STARTS)
            await self._inject_faults(began_s)
            await producer.ended.wait()
            self._add_caption(
                timeline.SENDING_ENDS_EARLY if self._broker_waits() else timeline.SENDING_ENDS
            )
            await self._wait_until(self._is_complete, self.plan.delivery_timeout_s)
            self._add_caption(
                timeline.ALL_DELIVERED if self._is_complete() else timeline.LINES_LOST
            )

    def stop_early(self) -> None:
        """Note that the user ended the run."""
        self.was_interrupted = True
        self._add_caption(timeline.STOPPED_EARLY)

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
        self._add_caption(timeline.CONSUMER_KILLED)
        await trio.sleep_until(began_s + plan.kill_broker_s)
        await perform(self.cluster, self.cluster.kill, BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = KILLED
        ledger.broker_killed(BROKER_KILLED, _wall_ms())
        self._add_caption(timeline.BROKER_KILLED)
        await trio.sleep_until(began_s + plan.restart_broker_s)
        await perform(self.cluster, self.cluster.restart, BROKER_KILLED)
        self.broker_state[BROKER_KILLED] = "back"
        ledger.broker_back(_wall_ms())
        self._add_caption(timeline.BROKER_RETURNS)

    def _is_shared(self) -> bool:
        """Every queue has an owner, and every consumer has queues."""
        owners = [self.ledger.owners_of(queue)[-1:] for queue in self.ledger.queues]
        everywhere = len(owners) == QUEUES_A_BROKER * len(self.cluster.brokers)
        return everywhere and all(owners) and {owner for (owner,) in owners} == set(CONSUMERS)

    def _broker_waits(self) -> bool:
        """The restarted broker has messages, and has delivered none since its return."""
        return bool(self.ledger.undelivered) and not self.ledger.broker_resumed_ms

    def _is_complete(self) -> bool:
        return not self.ledger.undelivered

    async def _wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Wait for *condition*, *within_s* at most; it is checked after each entry."""
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

    # The members' journals --------------------------------------------------------------

    def _read_entry(self, entry: MemberEntry) -> None:
        ledger, fact = self.ledger, entry.fact
        resumed, failed = bool(ledger.broker_resumed_ms), ledger.failed_sends
        ledger.read(entry)
        if isinstance(fact, SendFailed) and not failed:
            first_line = fact.error.splitlines()[0]
            self._add_text(f"a send fails, others are only counted: {first_line}", is_bad=True)
        elif isinstance(fact, QueuesClaimed):
            if mine := [queue for queue in fact.queues if queue.topic == TOPIC]:
                self._add_text(f"{entry.node} takes {queues_text(mine)}")
        elif bool(ledger.broker_resumed_ms) != resumed:
            self._add_caption(timeline.DELIVERY_RESUMES)
        if self._condition():
            self._is_met.set()

    def _add_caption(self, moment: EventTemplate) -> None:
        self._add(moment.event(_wall_ms(), self.now_s, **self._caption_values()))

    def _add_text(self, text: str, *, is_bad: bool = False) -> None:
        self._add(DemoEvent(_wall_ms(), self.now_s, text, is_bad=is_bad))

    def _add(self, event: DemoEvent) -> None:
        self.events.append(event)
        self.on_event()

    def _caption_values(self) -> dict[str, Any]:
        """Values for the placeholders of the event texts."""
        heartbeat_ms = self.plan.timers.get("heartbeat_interval_ms", HEARTBEAT_MS)
        return {
            "consumer": CONSUMER_KILLED,
            "broker": BROKER_KILLED,
            "other": next(name for name in self.cluster.brokers if name != BROKER_KILLED),
            "heartbeat_s": heartbeat_ms / 1000,
            "patience_s": self.plan.delivery_timeout_s,
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


def _no_display() -> None:
    """Draw nothing: the default of ``on_event``."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


# Producer and consumers as processes --------------------------------------------------


READ_BYTES = 64 * 1024
STOP_S_MAX = 8.0
LAST_LINES = 5
KILLED = "killed"


class MemberProcess:
    """The process of one member.  The screen shows its ``state``."""

    def __init__(self, config: MemberConfig) -> None:
        self.name = config.name
        self.state = "running"
        self.ended = trio.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by ``wait_ended``
        self.popen = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
            [
                *(sys.executable, "-P", "-m", "rocketmq_emulator.cli.demo.member"),
                msgspec.json.encode(config).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=node_environment(),
            process_group=0,
        )

    async def read(self, on_entry: Callable[[MemberEntry], None]) -> None:
        """Call *on_entry* for each line, also for those before a kill.  Raises ``NodeDied``."""
        assert self.popen.stdout is not None
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(self.popen.stdout.fileno())) as stream:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    on_entry(read_entry(line))
        code = await trio.to_thread.run_sync(self.popen.wait)
        if self.state == "running":
            self.state = "done" if code == 0 else "died"
        self.ended.set()
        if self.state == "died":
            raise NodeDied(self.name, code, self._last_lines())

    def kill(self) -> None:
        """Send SIGKILL; ``read`` notes the end of the process."""
        self.state = KILLED
        self.popen.send_signal(signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Send SIGTERM, unless the process has ended."""
        if self.popen.poll() is None:
            self.state = "stopped"
            self.popen.terminate()

    def wait_ended(self, until_s: float) -> None:
        """Wait for its end until *until_s* of the monotonic clock, then kill it."""
        try:
            self.popen.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for file in (self.popen.stdin, self.popen.stdout, self._errors):
            assert file is not None
            file.close()

    def _last_lines(self) -> list[str]:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").splitlines()[-LAST_LINES:]


def stop_all(members: list[MemberProcess]) -> None:
    """Stop *members* by SIGTERM and wait for their ends; kill them after ``STOP_S_MAX``."""
    for member in members:
        member.ask_to_stop()
    until_s = time.monotonic() + STOP_S_MAX
    for member in members:
        member.wait_ended(until_s)
