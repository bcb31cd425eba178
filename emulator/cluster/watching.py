"""Looks at a running cluster all the time, each node in a task of its own.

So a node that hangs stops nothing: what it had is there still, with its age.  Which member
has which queues is asked only of the members of ``shown_groups``, on connections of their
own, because a call without an answer closes its connection.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
import trio

from emulator.cluster.admin import Admin, AdminError, tool_client
from emulator.cluster.cluster_reader import ClusterReader
from emulator.cluster.node_view import RUNNING_STATES, NodeView
from emulator.cluster.overview import BrokerReport, overview_of
from emulator.cluster.sight import Look, NodeSight, SeenState, Sight, rates_between
from protocol.bodies.broker_overview import BrokerOverview
from protocol.queues import in_order

if TYPE_CHECKING:
    from emulator.cluster.real_world import RealWorld
    from emulator.net.remoting_client import RemotingClient
    from protocol.queues import MessageQueue

CALL_MS_MAX = 3_000
SILENT_AFTER_S = 1.5  # an answer that takes longer is worth a word
UNLISTED_AFTER_S = 4.0  # from the start of a broker: the routes are read less often
MEMBER_MS_MAX = 1_000
MEMBERS_EVERY_S = 2.0
MEMBERS_ASKED_MAX = 30  # a round
FIRST_LOOK_S_MAX = 1.0
WELL: tuple[SeenState, ...] = ("running", "unlisted")  # those answer


class ClusterWatch:
    """What is known of *cluster*; ``run`` keeps it up to date, every ``period_s`` seconds."""

    def __init__(self, cluster: RealWorld) -> None:
        self._cluster = cluster
        self.period_s = 1.0
        self.shown_groups: tuple[str, ...] = ()
        self._looks: dict[str, tuple[Look, Look]] = {}  # the last two of each broker
        self._asked_ms: dict[str, int] = {}  # since when a node owes an answer
        self._listed: dict[str, frozenset[str]] = {}  # brokers, by NameServer
        self._owned: dict[tuple[str, str], tuple[MessageQueue, ...] | None] = {}
        self._waiting_for = set(cluster.node_names)  # for a first look
        self._first_look = trio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            remoting, aside = tool_client(nursery), tool_client(nursery)
            spec = self._cluster.spec
            for name in spec.name_server_names:
                nursery.start_soon(self._watch, name, self._read_route, remoting)
            for name in spec.broker_names:
                nursery.start_soon(self._watch, name, self._read_broker, remoting)
            nursery.start_soon(self._watch_members, Admin("", aside, MEMBER_MS_MAX))

    async def wait_first_look(self) -> None:
        """Until every node has answered once, or a moment has passed."""
        with trio.move_on_after(FIRST_LOOK_S_MAX):
            await self._first_look.wait()

    def sight(self) -> Sight:
        """What is known now; what a silent broker had counts, its members do not."""
        nodes = tuple(map(self._node_sight, self._cluster.nodes))
        well = {node.name for node in nodes if node.state in WELL}
        brokers = [node for node in nodes if node.role == "broker"]
        is_anyone_well = any(node.name in well for node in brokers)
        reports = []
        for node in brokers:
            found = self._looks[node.name][-1].found if node.name in self._looks else None
            if found and is_anyone_well and node.name not in well:
                found = _without_members(found)
            reports.append(BrokerReport(node.name, node.address, "", found))
        return Sight(
            nodes=nodes,
            overview=overview_of(self._cluster.namesrv, reports),
            rates=rates_between(self._recent(well)),
            owned=self._owned,
            is_complete=well <= {*self._looks, *self._listed},
        )

    # What the tasks do ----------------------------------------------------------------

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
                with contextlib.suppress(AdminError):  # it owes its answer
                    await read(view, remoting)
                    del self._asked_ms[name]
            else:
                self._asked_ms.pop(name, None)
            self._waiting_for.discard(name)
            if not self._waiting_for:
                self._first_look.set()
            await trio.sleep_until(max(due_s, trio.current_time()))

    async def _read_route(self, view: NodeView, remoting: RemotingClient) -> None:
        masters = await Admin(view.address, remoting, CALL_MS_MAX).masters()
        self._listed[view.name] = frozenset(masters)

    async def _read_broker(self, view: NodeView, remoting: RemotingClient) -> None:
        reader = ClusterReader(Admin("", remoting, CALL_MS_MAX), "")
        cluster = self._cluster.spec.broker_config(view.name).cluster
        found = await reader.broker(view.name, view.address, cluster)
        look = Look(trio.current_time(), found)
        before = self._looks[view.name][-1] if view.name in self._looks else look
        self._looks[view.name] = before, look

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
        """Group, client, and the address of a broker that both know."""
        addresses = self._cluster.addresses
        online: dict[tuple[str, str], str] = {}
        for broker, (_, look) in self._looks.items():
            if self._state(self._cluster.node(broker))[0] not in WELL:
                continue
            for group in look.found.groups:
                for member in group.members:
                    online[group.name, member.client] = addresses[broker]
        for (group_name, client), address in online.items():
            if group_name in self.shown_groups:
                yield group_name, client, address

    # What is seen ---------------------------------------------------------------------

    def _node_sight(self, view: NodeView) -> NodeSight:
        state, since_ms = self._state(view)
        look = self._looks.get(view.name)
        return NodeSight(
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
                self._asked_ms[view.name] = _now_ms()  # it owes its answer once it runs
            return view.state, view.since_ms
        if asked_ms is not None and _now_ms() - asked_ms >= SILENT_AFTER_S * 1_000:
            return "silent", asked_ms
        is_new = _now_ms() - view.since_ms < UNLISTED_AFTER_S * 1_000
        if view.role == "broker" and not is_new and not self._is_listed(view.name):
            return "unlisted", view.since_ms
        return "running", view.since_ms

    def _is_listed(self, broker: str) -> bool:
        """By a NameServer, or nobody knows."""
        listed = self._listed.values()
        return not listed or any(broker in each for each in listed)

    def _recent(self, well: set[str]) -> Iterator[tuple[str, Look, Look]]:
        """The last two looks of those that still get their messages."""
        oldest_s = trio.current_time() - 2 * self.period_s - SILENT_AFTER_S
        for name, (before, after) in self._looks.items():
            if name in well and after.at_s >= oldest_s:
                yield name, before, after


async def _queues_of(
    admin: Admin, broker: str, group: str, client: str
) -> tuple[MessageQueue, ...] | None:
    try:
        info = await admin.running_info(broker, group, client)
    except AdminError:
        return None
    return tuple(in_order({**info.mq_table, **info.mq_pop_table}))


def _ending(view: NodeView) -> str:
    if view.signal is not None:
        return f"was killed by signal {view.signal}"
    return f"ended with exit code {view.exit_code}" if view.exit_code else ""


def _without_members(found: BrokerOverview) -> BrokerOverview:
    groups = tuple(msgspec.structs.replace(group, members=()) for group in found.groups)
    return msgspec.structs.replace(found, groups=groups)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
