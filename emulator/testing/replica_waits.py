"""Waits of a test for masters and slaves: until all is copied, until a broker name has a master.

A test that kills a master waits first until its slaves have everything; else chance decides what
dies with it.  Bytes of the log come at once, tables (topics, committed offsets) every 10 s
to 60 s or as ``slave_sync_interval_ms`` says, and in controller mode only a slave in the
sync-state set is elected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from rocketmq_emulator.admin.calls import ClusterUnreachable
from rocketmq_emulator.admin.cluster_reader import ClusterReader
from rocketmq_emulator.admin.overview import BrokerReport, leading_reports
from rocketmq_emulator.cluster.world import UnknownNode
from rocketmq_emulator.protocol.error_families import NobodyAnswered, public
from rocketmq_emulator.text.suggestions import nearest

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import Admin
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.protocol.bodies.extensions import BrokerOverview, ReplicaRole

T = TypeVar("T")

TABLES = (
    "slaves copy tables every 10 s in 4.x and with a controller, every 60 s else in 5.x: the "
    "setting slave_sync_interval_ms is quicker"
)
LEADING: tuple[ReplicaRole, ...] = ("master", "acting master")
NO_WAY = (
    "a slave becomes the master by a controller (controllers=1), or acts as the master "
    "(acting_master=True), both in 5.x"
)


@public
class NotCopied(NobodyAnswered, AssertionError):
    """Slaves did not get everything that their masters have in time."""


@public
class NotTakenOver(NobodyAnswered, AssertionError):
    """A broker name did not get a master in time."""


class ReplicaNodes(Protocol):
    """What a wait needs of a cluster, in any world."""

    spec: ClusterSpec

    @property
    def addresses(self) -> Mapping[str, str]:
        """The address of each node."""
        ...

    def is_running(self, name: str) -> bool:
        """Whether the node runs."""
        ...


async def wait_until_copied(
    nodes: ReplicaNodes, within_s: float, poll_s: float, admin: Admin
) -> None:
    """Wait until each slave that runs has what its master has.

    That is its log, its topics and the offsets of its groups; in controller mode the slave is in
    the sync-state set, too.  Raises ``NotCopied`` after *within_s*, and at once without slaves.
    """
    if not nodes.spec.slaves:
        raise NotCopied("this cluster has no slaves that could copy: slaves=1 makes one each")

    async def look() -> tuple[bool, str]:
        lacking = [*_lacking(nodes, await ClusterReader(admin, "").reports())]
        return not lacking, "; ".join(lacking)

    is_done, text = await _last(look, within_s, poll_s)
    if not is_done:
        raise NotCopied(f"not all is copied after {within_s:g} s: {text}")


async def wait_for_master(
    broker: str, nodes: ReplicaNodes, within_s: float, poll_s: float, admin: Admin
) -> str:
    """Wait until a node answers as the master of *broker*, or acts as it; returns its name.

    Raises ``NotTakenOver`` after *within_s*, ``UnknownNode`` if no broker has that name.
    """
    known = nodes.spec.master_names
    if broker not in known:
        raise UnknownNode(broker, known, nearest(broker, known))

    async def look() -> tuple[bool, str]:
        reports = await ClusterReader(admin, "").reports()
        own = [report for report in reports if report.name == broker]
        lead = leading_reports(own).get(broker)
        if lead is not None and lead.found is not None and lead.role in LEADING:
            return True, _node(nodes, lead)
        found = [f"{_node(nodes, each)} {each.problem or f'is {each.role}'}" for each in own]
        return False, ", ".join(found) or "no NameServer lists a broker of that name"

    is_done, text = await _last(look, within_s, poll_s)
    if not is_done:
        raise NotTakenOver(f"{broker} has no master after {within_s:g} s: {text}; {NO_WAY}")
    return text


async def _last(
    look: Callable[[], Awaitable[tuple[bool, str]]], within_s: float, poll_s: float
) -> tuple[bool, str]:
    """The last answer of *look*, which is repeated until it is done, or for *within_s*."""
    until_s = trio.current_time() + within_s
    while True:
        try:
            is_done, text = await look()
        except ClusterUnreachable as error:  # a NameServer that was killed, too
            is_done, text = False, str(error)
        if is_done or trio.current_time() >= until_s:
            return is_done, text
        await trio.sleep(poll_s)


# Missing data of slaves ------------------------------------------------------------------


def _lacking(nodes: ReplicaNodes, reports: Iterable[BrokerReport]) -> Iterator[str]:
    """A text for each slave that lacks data, and for each name with unregistered brokers."""
    every = list(reports)
    leading = leading_reports(every)
    running = Counter(
        nodes.spec.master_of(name)[0] for name in nodes.spec.broker_names if nodes.is_running(name)
    )
    for broker, count in running.items():
        own = [report for report in every if report.name == broker]
        if len(own) < count:
            yield f"a NameServer lists {len(own)} of {count} brokers of {broker}"
            continue
        lead = leading[broker]
        if lead.role not in LEADING or lead.found is None:
            yield f"{broker} has no master"
            continue
        for report in own:
            if report is not lead and (text := what_it_lacks(report, lead, lead.found)):
                yield f"{_node(nodes, report)} {text}"


def what_it_lacks(slave: BrokerReport, master: BrokerReport, its: BrokerOverview) -> str:
    """The first thing that *slave* lacks of *its*, the overview of *master*; empty: nothing."""
    if slave.found is None:
        return slave.problem
    view = slave.view(master)
    if slave.role == "none":
        return "has no role yet: it waits for its controller"
    if view.behind_bytes:
        return f"lacks {view.behind_bytes:,} bytes of the log"
    if view.is_in_sync is False:
        return "is not in the sync-state set"
    if lacking := next(_tables_lacking(slave.found, its), ""):
        return f"lacks {lacking}: {TABLES}"
    return ""


def _tables_lacking(own: BrokerOverview, its: BrokerOverview) -> Iterator[str]:
    known = {(topic.name, topic.queues, topic.write_queues, topic.perm) for topic in own.topics}
    for topic in its.topics:
        if (topic.name, topic.queues, topic.write_queues, topic.perm) not in known:
            yield f"the topic {topic.name}"
    offsets = {
        (group.name, queue.topic, queue.queue_id): queue.committed
        for group in own.groups
        for queue in group.queues
    }
    for group in its.groups:
        for queue in group.queues:
            if queue.committed > offsets.get((group.name, queue.topic, queue.queue_id), 0):
                yield f"offsets of {group.name}"


def _node(nodes: ReplicaNodes, report: BrokerReport) -> str:
    """The node of a broker; its address, if it registers another one than its node's."""
    names = {address: name for name, address in nodes.addresses.items()}
    return names.get(report.address, report.address)
