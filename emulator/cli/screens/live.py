"""The live view of ``up`` in a terminal: drawn every second until a signal, from the latest data.

Drawing never waits for a node: ``watch`` draws the latest data, ``ClusterWatch`` reads it, each
node in its own task.  If a node hangs, its last figures are still shown, with their age.  Only the
members of ``shown_groups`` are asked for their queues, on connections of their own, because a call
without an answer closes its connection.  ``live_screen`` makes the lines.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
import trio
from rich.console import Console, Group
from rich.live import Live

from rocketmq_emulator.admin.calls import Admin, AdminError, tool_client
from rocketmq_emulator.admin.cluster_reader import ClusterReader
from rocketmq_emulator.admin.overview import (
    BrokerReport,
    BrokerSample,
    ClusterSnapshot,
    NodeSnapshot,
    SeenState,
    changes_between,
    leading_reports,
    overview_of,
    rates_between,
)
from rocketmq_emulator.cli.screens.held_changes import HeldChange, held_changes
from rocketmq_emulator.cli.screens.live_screen import (
    ClusterEvent,
    ClusterSummary,
    LiveFrame,
    LiveScreen,
)
from rocketmq_emulator.cluster.node_view import RUNNING_STATES, NodeView
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
from rocketmq_emulator.cluster.world import CannotDo, ClusterEnded
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal
from rocketmq_emulator.protocol.bodies.extensions import BrokerOverview, ReplyRuleState
from rocketmq_emulator.protocol.queues import sorted_queues

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.worlds.real_world import RealWorld
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.protocol.queues import MessageQueue


DRAW_EVERY_S = 1.0
CPU_SHARE_MAX = 0.1  # of one core: above it, the cluster is read less often
PERIOD_S_MAX = 10.0
EVENTS_KEPT_MAX = 100
LOG_SHOWN_S = 120.0


async def watch(cluster: RealWorld, news: Callable[[], list[str]]) -> None:
    """Draw until SIGINT or SIGTERM.  *news* returns new lines; its exceptions are raised here."""
    spec = cluster.spec
    store = "temporary" if spec.broker_settings.get("store_is_temporary") else spec.store
    screen = LiveScreen(ClusterSummary(spec.release, cluster.namesrv, store, cluster.control))
    async with cancelling_nursery() as nursery:
        stopped = trio.Event()
        await nursery.start(stop_on_signal, stopped)
        known = ClusterWatch(cluster)
        nursery.start_soon(known.run)
        nursery.start_soon(_draw, known, screen, news, cluster.ready_s)
        await stopped.wait()


async def _draw(
    known: ClusterWatch, screen: LiveScreen, news: Callable[[], list[str]], ready_s: float
) -> None:
    began_s = trio.current_time()
    events = [ClusterEvent(_wall_ms(), f"ready in {ready_s:.2f} s")]
    logs: list[tuple[float, str]] = []
    before: ClusterSnapshot | None = None
    pace = PollInterval(time.thread_time())
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        await known.wait_first_answers()
        while True:
            now_s, now_ms = trio.current_time(), _wall_ms()
            logs += [(now_s, line) for line in news()]
            logs = [(at_s, line) for at_s, line in logs if at_s > now_s - LOG_SHOWN_S]
            snapshot = known.snapshot()
            if before is not None:
                events += [
                    ClusterEvent(now_ms, text) for text in changes_between(before, snapshot)
                ]
            del events[:-EVENTS_KEPT_MAX]
            before = snapshot
            shown = [line for _, line in logs]
            frame = LiveFrame(now_ms, now_s - began_s, snapshot, events, shown, known.held)
            size = live.console.size
            live.update(Group(*screen.draw(frame, size.width, size.height)), refresh=True)
            known.shown_groups = screen.shown_groups
            known.period_s = pace.period_s(time.thread_time())
            await trio.sleep_until(now_s + DRAW_EVERY_S)


class PollInterval:
    """How often to read the cluster, from the cost of reads.  *cpu_s* is the time used so far."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._period_s = DRAW_EVERY_S

    def period_s(self, cpu_s: float) -> float:
        """The period of reads; to be called at each draw with the CPU time of this thread."""
        share = (cpu_s - self._cpu_s) / DRAW_EVERY_S
        self._cpu_s = cpu_s
        wanted_s = self._period_s * share / CPU_SHARE_MAX
        smoothed_s = (3 * self._period_s + wanted_s) / 4
        self._period_s = min(PERIOD_S_MAX, max(DRAW_EVERY_S, smoothed_s))
        return self._period_s


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


# Reading the cluster ------------------------------------------------------------------


CALL_MS_MAX = 3_000
SILENT_AFTER_S = 1.5  # a node is shown as silent if its answer takes longer
UNLISTED_AFTER_S = 4.0  # after a broker's start: routes are read less often
MEMBER_MS_MAX = 1_000
MEMBERS_EVERY_S = HELD_EVERY_S = 2.0
MEMBERS_ASKED_MAX = 30  # a round
FIRST_ANSWERS_S_MAX = 1.0
ANSWERING_STATES: tuple[SeenState, ...] = ("running", "unlisted")  # nodes that answer


class ClusterWatch:
    """The latest data of *cluster*; ``run`` reads it again every ``period_s`` seconds."""

    def __init__(self, cluster: RealWorld) -> None:
        self._cluster = cluster
        self.period_s = 1.0
        self.shown_groups: tuple[str, ...] = ()
        self.held: tuple[HeldChange, ...] = ()  # faults and reply rules
        self._looks: dict[
            str, tuple[BrokerSample, BrokerSample]
        ] = {}  # the last two of each broker
        self._asked_ms: dict[str, int] = {}  # since when a node has not answered
        self._listed: dict[str, frozenset[tuple[str, int]]] = {}  # by NameServer: name, id
        self._owned: dict[tuple[str, str], tuple[MessageQueue, ...] | None] = {}
        self._waiting_for = set(cluster.node_names)  # for the first read of each node
        self._first_answers = trio.Event()

    async def run(self) -> None:
        """Read nodes and members until cancelled."""
        async with trio.open_nursery() as nursery:
            remoting, members_client = tool_client(nursery), tool_client(nursery)
            spec = self._cluster.spec
            for name in spec.name_server_names:
                nursery.start_soon(self._watch, name, self._read_route, remoting)
            for name in spec.broker_names:
                nursery.start_soon(self._watch, name, self._read_broker, remoting)
            nursery.start_soon(self._watch_members, Admin("", members_client, MEMBER_MS_MAX))
            nursery.start_soon(self._watch_held)

    async def wait_first_answers(self) -> None:
        """Wait for the first read of every node, ``FIRST_ANSWERS_S_MAX`` at most."""
        with trio.move_on_after(FIRST_ANSWERS_S_MAX):
            await self._first_answers.wait()

    def snapshot(self) -> ClusterSnapshot:
        """The latest data; the last figures of a silent broker count, its members do not."""
        nodes = [self._node_snapshot(view) for view in self._cluster.nodes]
        answering = {node.name for node in nodes if node.state in ANSWERING_STATES}
        brokers = [node for node in nodes if node.role == "broker"]
        is_any_answering = any(node.name in answering for node in brokers)
        reports = {}
        for node in brokers:
            found = self._looks[node.name][-1].found if node.name in self._looks else None
            is_old = node.name not in answering
            if found and is_any_answering and is_old:
                found = _without_members(found)
            reports[node.name] = self._report(node, found, is_old=is_old)
        leading = leading_reports(reports.values())
        for at, node in enumerate(nodes):
            if (report := reports.get(node.name)) is not None and report.found is not None:
                replica = report.view(leading[report.name])
                nodes[at] = msgspec.structs.replace(node, replica=replica)
        return ClusterSnapshot(
            nodes=tuple(nodes),
            overview=overview_of(self._cluster.namesrv, reports.values()),
            rates=rates_between(self._recent(answering)),
            owned=self._owned,
            is_complete=answering <= {*self._looks, *self._listed},
        )

    # Tasks ----------------------------------------------------------------------------

    async def _watch(
        self,
        name: str,
        read: Callable[[NodeView, RemotingClient], Awaitable[None]],
        remoting: RemotingClient,
    ) -> None:
        while True:
            due_s = trio.current_time() + self.period_s
            view = self._cluster.node(name)
            if view.state in RUNNING_STATES and view.address:
                self._asked_ms.setdefault(name, _now_ms())
                with contextlib.suppress(AdminError):  # ``_asked_ms`` stays
                    await read(view, remoting)
                    del self._asked_ms[name]
            else:
                self._asked_ms.pop(name, None)
            self._waiting_for.discard(name)
            if not self._waiting_for:
                self._first_answers.set()
            await trio.sleep_until(max(due_s, trio.current_time()))

    async def _read_route(self, view: NodeView, remoting: RemotingClient) -> None:
        info = await Admin(view.address, remoting, CALL_MS_MAX).cluster_info()
        self._listed[view.name] = frozenset(
            (name, broker_id)
            for name, data in info.broker_addr_table.items()
            for broker_id in data.broker_addrs
        )

    async def _read_broker(self, view: NodeView, remoting: RemotingClient) -> None:
        reader = ClusterReader(Admin("", remoting, CALL_MS_MAX), "")
        config = self._cluster.spec.broker_config(view.name)
        found = await reader.broker(config.name, view.address, config.cluster)
        leads = found.replica is None or found.replica.role != "slave"
        look = BrokerSample(trio.current_time(), found, leads)
        before = self._looks[view.name][-1] if view.name in self._looks else look
        self._looks[view.name] = before, look

    async def _watch_held(self) -> None:
        """Read faults and reply rules; in a thread, because the world's verbs block."""
        while True:
            self.held = await trio.to_thread.run_sync(self._read_held, abandon_on_cancel=True)
            await trio.sleep(max(HELD_EVERY_S, self.period_s))

    def _read_held(self) -> tuple[HeldChange, ...]:
        rules: dict[str, tuple[ReplyRuleState, ...]] = {}
        try:
            faults = self._cluster.faults()
            for node in self._cluster.nodes:
                if node.state == "running":
                    with contextlib.suppress(ReplyRuleRefused):  # it allows none
                        rules[node.name] = self._cluster.reply_rules(node.name)
        except (OSError, ClusterEnded, CannotDo):
            return self.held  # a node has just ended, or hangs
        return held_changes(faults, rules, self._cluster.facts_left_out)

    async def _watch_members(self, admin: Admin) -> None:
        while True:
            asked = list(self._members_shown())[:MEMBERS_ASKED_MAX]
            for group, client, broker in asked:
                self._owned[group, client] = await _queues_of(admin, broker, group, client)
            gone = self._owned.keys() - {(group, client) for group, client, _ in asked}
            for key in gone:
                del self._owned[key]
            await trio.sleep(max(MEMBERS_EVERY_S, self.period_s))

    def _members_shown(self) -> Iterator[tuple[str, str, str]]:
        """Group, client, and the address of a broker to which the client is connected."""
        addresses = self._cluster.addresses
        online: dict[tuple[str, str], str] = {}
        for broker, (_, look) in self._looks.items():
            if self._state(self._cluster.node(broker))[0] not in ANSWERING_STATES:
                continue
            for group in look.found.groups:
                for member in group.members:
                    online[group.name, member.client] = addresses[broker]
        for (group_name, client), address in online.items():
            if group_name in self.shown_groups:
                yield group_name, client, address

    def _report(
        self, node: NodeSnapshot, found: BrokerOverview | None, *, is_old: bool
    ) -> BrokerReport:
        """The broker of *node* among those of its name."""
        config = self._cluster.spec.broker_config(node.name)
        replica = found.replica if found else None
        broker_id = config.broker_id if replica is None else replica.broker_id
        report = BrokerReport(config.name, node.address, "", found, "", broker_id)
        return msgspec.structs.replace(report, is_old=is_old)

    # States of nodes ------------------------------------------------------------------

    def _node_snapshot(self, view: NodeView) -> NodeSnapshot:
        state, since_ms = self._state(view)
        look = self._looks.get(view.name)
        return NodeSnapshot(
            name=view.name,
            role=view.role,
            address=view.address,
            pid=view.pid,
            state=state,
            since_ms=since_ms,
            ending=_ending(view),
            messages=sum(t.stored for t in look[-1].found.topics) if look else None,
        )

    def _state(self, view: NodeView) -> tuple[SeenState, int]:
        asked_ms = self._asked_ms.get(view.name)
        if view.state != "running":
            if asked_ms is not None:
                self._asked_ms[view.name] = _now_ms()  # counts again once it runs
            return view.state, view.since_ms
        if asked_ms is not None and _now_ms() - asked_ms >= SILENT_AFTER_S * 1_000:
            return "silent", asked_ms
        is_new = _now_ms() - view.since_ms < UNLISTED_AFTER_S * 1_000
        if view.role == "broker" and not is_new and not self._is_listed(view.name):
            return "unlisted", view.since_ms
        return "running", view.since_ms

    def _is_listed(self, node: str) -> bool:
        """True if a NameServer lists the broker *node*, or if not both were read yet."""
        look = self._looks.get(node)
        replica = look[-1].found.replica if look else None
        if replica is None or not self._listed:
            return True
        own = replica.name, replica.broker_id
        return any(own in each for each in self._listed.values())

    def _recent(self, answering: set[str]) -> Iterator[tuple[str, BrokerSample, BrokerSample]]:
        """The last two samples of each broker that answers, unless they are too old."""
        oldest_s = trio.current_time() - 2 * self.period_s - SILENT_AFTER_S
        for name, (before, after) in self._looks.items():
            if name in answering and after.at_s >= oldest_s:
                yield name, before, after


async def _queues_of(
    admin: Admin, broker: str, group: str, client: str
) -> tuple[MessageQueue, ...] | None:
    try:
        info = await admin.running_info(broker, group, client)
    except AdminError:
        return None
    return tuple(sorted_queues({**info.mq_table, **info.mq_pop_table}))


def _ending(view: NodeView) -> str:
    if view.signal is not None:
        return f"was killed by signal {view.signal}"
    return f"ended with exit code {view.exit_code}" if view.exit_code else ""


def _without_members(found: BrokerOverview) -> BrokerOverview:
    groups = tuple(msgspec.structs.replace(group, members=()) for group in found.groups)
    return msgspec.structs.replace(found, groups=groups)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
