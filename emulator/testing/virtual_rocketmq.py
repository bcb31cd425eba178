"""The cluster of a test in virtual time: the queries and waits of ``rocketmq``, as coroutines.

A wait takes virtual time only, so its timeout is generous.  Requests go out from the machine
``operator``, which no fault affects.  A client over TCP cannot reach a virtual address: its start
is refused with what to do instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from rocketmq_emulator.admin.calls import Admin, ClusterUnreachable, admin_on
from rocketmq_emulator.client import ClientProcess
from rocketmq_emulator.client.instance.process import CLIENT_OBSERVERS
from rocketmq_emulator.cluster import reply_rules
from rocketmq_emulator.cluster.faults.effects import OPERATOR
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import BadArgument
from rocketmq_emulator.protocol.bodies.extensions import MisuseView, misuses_of
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.testing import cluster_queries, group_waits, replica_waits
from rocketmq_emulator.testing.group_waits import NotBalanced, NotConsumed, WantedMessages, Watched
from rocketmq_emulator.testing.rocketmq import RuleFields, failing_rules

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import Nodes
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.facts.journal import Entry, Journal
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.sim.world import VirtualWorld

T = TypeVar("T")
WAIT_S = 120.0  # of virtual time: some rounds of every timer
POLL_S = 0.1


class VirtualRocketMQ(VirtualCluster):
    """A ``VirtualCluster`` with queries and waits, for tests; *lines* takes its journal."""

    def __init__(
        self, world: VirtualWorld, spec: ClusterSpec, lines: Callable[[bytes], object]
    ) -> None:
        self._entries: list[Entry] = []
        self.queried_groups: dict[str, tuple[str, ...]] = {}
        self.declared_topics: tuple[str, ...] = ()  # by the marker
        super().__init__(world, spec, lines, listener=self._entries.append)

    # Queries --------------------------------------------------------------------------

    async def sent_to(self, topic: str) -> list[MessageExt]:
        """The messages that *topic* holds, oldest first; none if there is no such topic."""
        return await self._ask(partial(cluster_queries.sent_to, topic))

    async def consumed_by(self, group: str) -> list[MessageExt]:
        """The messages that *group* has consumed, oldest first; as ``RocketMQ.consumed_by``."""
        self.queried_groups.setdefault(group, ())
        return await self._ask(partial(cluster_queries.consumed_by, group))

    async def create_topic(
        self, name: str, queues: int = cluster_queries.QUEUES_OF_A_TOPIC
    ) -> None:
        """Create or change a topic with *queues* queues on each broker."""
        await self._ask(partial(cluster_queries.create_topics, {name: queues}))

    async def misuses(self) -> tuple[MisuseView, ...]:
        """What the brokers that run have noticed since their start."""
        running = [
            name
            for name in self.spec.broker_names
            if self.is_running(name) and not self.is_paused(name)
        ]
        call = reply_rules.overview()
        return misuses_of([await self.call_server(name, call) for name in running])

    async def fail_next(
        self,
        request: str | int,
        count: int = 1,
        *,
        error: int | str = ResponseCode.SYSTEM_BUSY,
        nodes: Nodes | None = None,
        **rule: Unpack[RuleFields],
    ) -> None:
        """The next *count* requests of that kind fail at each node; as ``RocketMQ.fail_next``."""
        for name, each in failing_rules(self.spec, request, count, error, nodes=nodes, rule=rule):
            await self.set_reply_rule(name, each)

    def client_settings(self, process: ClientProcess, *, quick: bool = False) -> dict[str, Any]:
        """The settings of a client in a program: ``Producer(**client_settings(process))``.

        *quick* as of ``RocketMQ.client_settings``; virtual time makes it rarely needed.
        """
        if not isinstance(process, ClientProcess):
            raise BadArgument(
                "client_settings of a virtual cluster needs the process of the client's program: "
                'start_client("shop", program) calls program(process)'
            )
        return {"process": process, "namesrv": self.namesrv, **({"quick": True} if quick else {})}

    # Waits ----------------------------------------------------------------------------

    async def wait_until_consumed(
        self,
        group: str,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # NotConsumed has the reason; a cancel scope has none
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[str] = (),
    ) -> None:
        """Waits until *group* has consumed all messages that it reads, of *topics* at least.

        As ``RocketMQ.wait_until_consumed``; *timeout* is in seconds of virtual time.  Retries
        come by themselves, after 10 s, 30 s, 1 min …: a longer timeout costs nothing.  Raises
        ``NotConsumed``.
        """
        await self._wait_consumed(self._wanted(group, topics, brokers), timeout)

    async def advance_until_consumed(
        self,
        group: str,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # the same
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[str] = (),
        by: str = "10h",
    ) -> None:
        """As ``wait_until_consumed``, but no message waits for its time: retries come at once."""
        wanted = self._wanted(group, topics, brokers)
        await self._wait_consumed(wanted, timeout, partial(self.advance, by))

    async def wait_until_balanced(
        self,
        group: str,
        members: int | None = None,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # NotBalanced has the reason
    ) -> None:
        """Waits until *group* has this number of *members*, and they share its queues.

        As ``RocketMQ.wait_until_balanced``, in virtual time.  Raises ``NotBalanced``.
        """
        self.queried_groups.setdefault(group, ())
        wait = partial(group_waits.wait_until_balanced, group, members, timeout, self._watched())
        if text := await self._ask(wait):
            raise NotBalanced(text)

    async def wait_until_copied(
        self,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # NotCopied has the reason
    ) -> None:
        """Waits until every slave that runs has all that its master has.

        As ``RocketMQ.wait_until_copied``, in virtual time.  Raises ``NotCopied``.
        """
        await self._ask(partial(replica_waits.wait_until_copied, self, timeout, POLL_S))

    async def wait_for_master(
        self,
        broker: str,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # NotTakenOver has the reason
    ) -> str:
        """Waits until a node is the master of *broker*, or acts as it; returns its name.

        As ``RocketMQ.wait_for_master``, in virtual time.  Raises ``NotTakenOver`` and
        ``UnknownNode``.
        """
        wait = partial(replica_waits.wait_for_master, broker, self, timeout, POLL_S)
        return await self._ask(wait)

    def _wanted(self, group: str, topics: Iterable[str], brokers: Iterable[str]) -> WantedMessages:
        named = cluster_queries.checked_topics(topics)
        known = self.queried_groups.get(group, ())
        self.queried_groups[group] = tuple(dict.fromkeys((*known, *named)))
        return WantedMessages(
            group, named, cluster_queries.checked_brokers(brokers, self.spec.broker_names)
        )

    async def _wait_consumed(
        self,
        wanted: WantedMessages,
        timeout: float,  # noqa: ASYNC109  # the same
        advance: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        wait = partial(
            group_waits.wait_until_consumed, wanted, timeout, self._watched(), advance=advance
        )
        if text := await self._ask(wait):
            raise NotConsumed(text)

    def _watched(self) -> Watched:
        def entries() -> Sequence[Entry]:
            return self._entries

        declared = self.declared_topics
        return Watched(entries, entries, self.misuses, self._now_us, POLL_S, declared)

    def _now_us(self) -> int:
        return self.world.clock.passed_ns() // 1_000

    async def _ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        operator = self._machines.machine(OPERATOR)
        try:
            async with admin_on(operator.network, operator.clock, self.namesrv) as admin:
                return await question(admin)
        except ClusterUnreachable as error:
            raise group_waits.explained(error, self._watched()) from None

    # Clients --------------------------------------------------------------------------

    @contextmanager
    def refusing_tcp_clients(self) -> Iterator[None]:
        """Inside the block, clients that would look for this cluster over TCP do not start."""

        def refuse(name_servers: Sequence[str], _journal: Journal) -> None:
            if not set(name_servers).isdisjoint(self.namesrv.split(";")):
                raise BadArgument(
                    f"this client has no process= and would use TCP, but {self.namesrv} is an "
                    'address in virtual time: start it with virtual_cluster.start_client("shop", '
                    "program), whose program(process) makes Producer(process=process, …); for "
                    "clients over TCP, in trio tests too, use the fixture rocketmq"
                )

        CLIENT_OBSERVERS.append(refuse)
        try:
            yield
        finally:
            CLIENT_OBSERVERS.remove(refuse)
