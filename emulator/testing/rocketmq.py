"""The cluster of tests, notebooks and scripts: ``Cluster`` of the package, ``rocketmq`` of pytest.

    cluster.sent_to("orders")
    cluster.wait_until_consumed("billing", timeout=5)
    cluster.fail_next("send", error=ResponseCode.SYSTEM_BUSY)

It is an ``EmbeddedCluster`` with topics that exist at the start and after each reset, a journal
in memory since the last reset, and queries.  Queries block; ``awaited`` has the same calls for
async code.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypedDict, TypeVar, Unpack

import msgspec
import trio

from rocketmq_emulator.admin.calls import ClusterUnreachable
from rocketmq_emulator.client.instance.process import CLIENT_OBSERVERS, note_left
from rocketmq_emulator.cluster.spec import ClusterFields
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MessageGivenToListener,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import REQUEST_NUMBERS, RequestCode, ResponseCode
from rocketmq_emulator.protocol.error_families import NobodyAnswered
from rocketmq_emulator.settings.setting_rules import BadField
from rocketmq_emulator.testing import cluster_queries, group_waits, replica_waits
from rocketmq_emulator.testing.group_waits import NotBalanced, NotConsumed, WantedMessages, Watched
from rocketmq_emulator.text.suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.admin.calls import Admin
    from rocketmq_emulator.cluster.fault_values import AnyFault, Nodes
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.facts.journal import Journal
    from rocketmq_emulator.facts.logs import LogSettings
    from rocketmq_emulator.processes.node_process import OnProgress
    from rocketmq_emulator.protocol.messages.message import MessageExt
P = ParamSpec("P")
R = TypeVar("R")

ENTRIES_MAX = 200_000  # of one test; then the oldest are dropped
WAIT_S = 10.0
REPLICAS_S = 90.0  # slaves of 5.x copy tables every 60 s
BALANCE_S = 60.0  # orderly members may need two rebalances, 20 s apart
POLL_INTERVAL_S = 0.02
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
FAILING: Mapping[str, tuple[int, ...]] = {  # words for requests in ``fail_next``
    "send": SENDS,
    "pull": (RequestCode.PULL_MESSAGE,),
    "send_back": (RequestCode.CONSUMER_SEND_MSG_BACK,),
    "heartbeat": (RequestCode.HEART_BEAT,),
    "commit": (RequestCode.UPDATE_CONSUMER_OFFSET,),
    "lock": (RequestCode.LOCK_BATCH_MQ,),
    "members": (RequestCode.GET_CONSUMER_LIST_BY_GROUP,),
    "route": (RequestCode.GET_ROUTEINFO_BY_TOPIC,),
}


class RuleFields(TypedDict, total=False):
    """Further arguments of ``fail_next``: fields of a ``ReplyRule``."""

    topic: str | None
    group: str | None
    client_id: str | None
    broker_name: str | None
    probability: float
    delay_ms: int
    error_code: int | str | None
    remark: str
    no_answer: bool
    cut_connection: bool


class ClusterOptions(ClusterFields, total=False):
    """The arguments of an ``EmbeddedCluster`` by name."""

    journal: str
    log: LogSettings | None
    control: int | None
    with_links: bool
    on_progress: OnProgress | None
    strict: bool


class RocketMQ(EmbeddedCluster):
    """A cluster with *topics* (names, or queues on each broker by name).

    Give a whole *spec*, or single fields of ``ClusterSpec`` by name; ``settings`` of the brokers
    may have RocketMQ's names: ``settings={"autoCreateTopicEnable": False}``.  It has the methods
    of every cluster: ``kill``, ``stop``, ``restart``, ``pause``, ``under`` …  If ``with`` cannot
    be used, ``start`` and ``close`` do the same.  With *strict* likely mistakes of clients are
    errors (``check_misuses``).  Raises ``ValueError`` for wrong arguments.
    """

    def __init__(
        self,
        spec: ClusterSpec | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        **options: Unpack[ClusterOptions],
    ) -> None:
        known = (*ClusterOptions.__optional_keys__, "topics")
        if wrong := next((name for name in options if name not in known), None):
            hint = did_you_mean(wrong, sorted(known))
            raise BadField(f"a cluster has no setting {wrong!r}: {hint}")
        super().__init__(spec, **options)
        self._topics = cluster_queries.queues_by_topic(topics)
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._clients: dict[int, _ClientFacts] = {}  # by the id of their journal
        self._queried: dict[str, tuple[str, ...]] = {}
        self.awaited = AsyncCluster(self)

    def __enter__(self) -> Self:
        super().__enter__()
        self._faults.listen(self._entries.append)
        CLIENT_OBSERVERS.append(self._client_started)
        try:
            self._make_topics()
        except BaseException as error:  # nobody could close it
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        note_left(error)
        if self._client_started in CLIENT_OBSERVERS:
            CLIENT_OBSERVERS.remove(self._client_started)
        super().__exit__(kind, error, traceback)

    def start(self, *names: str) -> None:
        """Start the nodes that do not run; without ``with`` the first call starts the cluster."""
        if self._thread.ident is None and not names:
            self.__enter__()
        else:
            super().start(*names)

    def close(self) -> None:
        """End a cluster that was started with ``start``; one that never started stays as it is."""
        if self._thread.ident is not None:
            self.__exit__(None, None, None)

    def reset(self) -> None:
        """Reset to the state at the start of each test: only its own topics, an empty journal."""
        self._entries.clear()
        self._queried.clear()
        super().reset()
        self._make_topics()

    # Journal and queries --------------------------------------------------------------

    @property
    def entries(self) -> list[Entry]:
        """The journal since the last reset, in the order of time.

        It has the facts of all nodes, and of the clients of this program that use the cluster.
        """
        return sorted(self._entries, key=lambda entry: entry.mono_us)

    def journal(self) -> list[Entry]:
        """``entries`` as a journal of its own: with names of clients, numbers of a node from 1.

        A client is named after its group, ``billing-1``, a producer ``producer-1``.
        """
        entries, counts = self.entries, Counter[str]()
        present = {entry.node for entry in entries}
        names = _names_of_clients(c for c in self._clients.values() if c.node in present)
        is_whole = len(entries) < ENTRIES_MAX  # else numbers show that older facts are missing
        found = []
        for entry in entries:
            node = names.get(entry.node, entry.node)
            counts[node] += 1
            seq = counts[node] if is_whole else entry.seq
            found.append(msgspec.structs.replace(entry, node=node, seq=seq))
        return found

    @property
    def queried_groups(self) -> dict[str, tuple[str, ...]]:
        """The groups that queries have named since the last reset, with the topics given there."""
        return dict(self._queried)

    def facts(self, *kinds: type[Any]) -> list[Any]:
        """The facts of these kinds since the last reset."""
        return [entry.fact for entry in self.entries if isinstance(entry.fact, kinds)]

    def sent_to(self, topic: str) -> list[MessageExt]:
        """The messages that *topic* holds, oldest first; none if there is no such topic.

        Brokers that were killed or stopped are left out.  Raises ``ClusterUnreachable`` if a
        broker does not answer, with the nodes that are paused.
        """
        return self._ask(partial(cluster_queries.sent_to, topic))

    def consumed_by(self, group: str) -> list[MessageExt]:
        """The messages that *group* has consumed, oldest first.

        A message that it sent back counts as consumed in its topic, and once more in the group's
        retry topic when its retry was consumed there.
        """
        self._queried.setdefault(group, ())
        return self._ask(partial(cluster_queries.consumed_by, group))

    def wait_until_consumed(
        self,
        group: str,
        timeout: float = WAIT_S,
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[str] = (),
    ) -> None:
        """Waits until *group* has consumed all messages that it reads, of *topics* at least.

        Retries of messages that it sent back must be consumed too; in a broadcasting group every
        member must have consumed each message.  Delayed messages count from the moment at which
        they are due: ``advance`` first.  Messages on a broker that was killed or stopped count,
        too; with *brokers* only those of these brokers count.  Raises ``NotConsumed`` after
        *timeout* seconds, ``RuntimeError`` in an event loop, which it would block: async tests
        use ``awaited.wait_until_consumed``.
        """
        _check_no_loop(f"await cluster.awaited.wait_until_consumed({group!r})")
        self.wait_blocking(self.wanted(group, topics, brokers), timeout)

    def advance_until_consumed(
        self,
        group: str,
        timeout: float = WAIT_S,
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[str] = (),
        by: str = "10h",
    ) -> None:
        """As ``wait_until_consumed``, but no message waits for its time: retries come at once.

        Time is advanced *by* this length whenever *group* has consumed what was due, until
        nothing more falls due: so each failing message is tried until it is consumed, or dead.
        """
        call = f"await cluster.awaited.call(cluster.advance_until_consumed, {group!r})"
        _check_no_loop(call)
        advance = partial(self.advance, by)
        self.wait_blocking(self.wanted(group, topics, brokers), timeout, advance)

    def wanted(self, group: str, topics: Iterable[str], brokers: Iterable[str]) -> WantedMessages:
        """What a wait is for, checked.  Raises ``ValueError`` or ``UnknownNode``."""
        named = cluster_queries.checked_topics(topics)
        self._queried[group] = tuple(dict.fromkeys((*self._queried.get(group, ()), *named)))
        known = self.spec.broker_names
        return WantedMessages(group, named, cluster_queries.checked_brokers(brokers, known))

    def wait_blocking(
        self, wanted: WantedMessages, timeout: float, advance: Callable[[], int] | None = None
    ) -> None:
        """As ``wait_until_consumed``, without the check for a loop in this thread.

        *advance* delivers what waits for its time, and returns how many messages that were.
        """
        wait = partial(
            group_waits.wait_until_consumed, wanted, timeout, self._watched(), advance=advance
        )
        if text := self._ask(wait):
            raise NotConsumed(text)

    def wait_until_balanced(
        self, group: str, members: int | None = None, timeout: float = BALANCE_S
    ) -> None:
        """Waits until *group* has this number of *members*, and they share its queues.

        Each queue of its topics then has one owner, and no member is without a queue of a topic
        while another has two.  Without *members* any number will do, from one on.  Members that
        start together may need 20 s or 40 s for it (``docs/failures.md``), with quick timers less
        than a second.  Raises ``NotBalanced`` after *timeout* seconds, with the owner of each
        queue; ``RuntimeError`` in an event loop, as ``wait_until_consumed``.
        """
        _check_no_loop(f"await cluster.awaited.wait_until_balanced({group!r})")
        self.balance_blocking(group, members, timeout)

    def balance_blocking(self, group: str, members: int | None, timeout: float) -> None:
        """As ``wait_until_balanced``, without the check for a loop in this thread."""
        self._queried.setdefault(group, ())
        wait = partial(group_waits.wait_until_balanced, group, members, timeout, self._watched())
        if text := self._ask(wait):
            raise NotBalanced(text)

    def wait_until_copied(self, timeout: float = REPLICAS_S) -> None:
        """Waits until every slave that runs has all that its master has.

        Log, topics and committed offsets; in controller mode the slave is in the sync-state set,
        too, so that it may be elected.  A test that kills a master calls this before, else chance
        decides what is lost.  Raises ``NotCopied`` after *timeout* seconds, ``RuntimeError`` in
        an event loop, as ``wait_until_consumed``.
        """
        _check_no_loop("await cluster.awaited.wait_until_copied()")
        self.copied_blocking(timeout)

    def copied_blocking(self, timeout: float) -> None:
        """As ``wait_until_copied``, without the check for a loop in this thread."""
        self._ask(partial(replica_waits.wait_until_copied, self, timeout, POLL_INTERVAL_S))

    def wait_for_master(self, broker: str, timeout: float = REPLICAS_S) -> str:
        """Waits until a node is the master of the broker name *broker*, or acts as it.

        Returns the name of the node: ``broker-a-1`` after ``broker-a`` was killed.  NameServers
        have it in their routes then; a client learns it with its next route, after 30 s or with
        quick timers 0.3 s.  Raises ``NotTakenOver`` after *timeout* seconds, ``UnknownNode``, and
        ``RuntimeError`` in an event loop, as ``wait_until_consumed``.
        """
        _check_no_loop(f"await cluster.awaited.wait_for_master({broker!r})")
        return self.master_blocking(broker, timeout)

    def master_blocking(self, broker: str, timeout: float) -> str:
        """As ``wait_for_master``, without the check for a loop in this thread."""
        wait = partial(replica_waits.wait_for_master, broker, self, timeout, POLL_INTERVAL_S)
        return self._ask(wait)

    def _ask(self, question: Callable[[Admin], Awaitable[R]]) -> R:
        try:
            return cluster_queries.ask(self.namesrv, question)
        except ClusterUnreachable as error:
            self.check_alive()
            raise group_waits.explained(error, self._watched()) from None
        except NobodyAnswered:
            self.check_alive()  # the error that ended the cluster says more
            raise

    def _watched(self) -> Watched:
        return Watched(
            lambda: list(self._entries),
            self.journal,
            self.misuses,
            _now_us,
            POLL_INTERVAL_S,
            self._topics,
        )

    # Topics and failures --------------------------------------------------------------

    def create_topic(self, name: str, queues: int = cluster_queries.QUEUES_OF_A_TOPIC) -> None:
        """Create or change a topic with *queues* queues on each broker; a reset removes it."""
        self._ask(partial(cluster_queries.create_topics, {name: queues}))

    def fail_next(
        self,
        request: str | int,
        count: int = 1,
        *,
        error: int | str = ResponseCode.SYSTEM_BUSY,
        nodes: Nodes | None = None,
        **rule: Unpack[RuleFields],
    ) -> None:
        """The next *count* requests of that kind are answered with *error*, at each node.

        *request* is a word (send, pull, send_back, heartbeat, commit, lock, members, route), or a
        request code of RocketMQ or its name; *error* is a response code or its name.  *rule* has
        further fields of a ``ReplyRule``: ``topic``, ``group``, ``remark``, ``delay_ms``; with
        ``cut_connection`` or ``no_answer`` no error is sent.  *nodes* defaults to all brokers, for
        "route" to all NameServers.
        Raises ``ValueError`` for an unknown word.
        """
        for name, each in failing_rules(self.spec, request, count, error, nodes=nodes, rule=rule):
            self.set_reply_rule(name, each)

    def _make_topics(self) -> None:
        if self._topics:
            addresses = [self._address_of(name) for name in self.spec.master_names]
            cluster_queries.create_topics_at(addresses, self._topics)

    @contextmanager
    def under(self, fault: AnyFault) -> Iterator[int]:
        with _noting_errors(super().under(fault)) as fault_id:
            yield fault_id

    def pause(self, name: str) -> AbstractContextManager[None]:
        return _noting_errors(super().pause(name))

    # Facts ----------------------------------------------------------------------------

    def _attach_log(self, journal: Journal) -> None:
        super()._attach_log(journal)
        journal.listen(self._entries.append)

    def _client_started(self, name_servers: Sequence[str], journal: Journal) -> None:
        """Take the facts of a client of this program, if it is one of this cluster's."""
        known = id(journal) in self._clients
        if known or set(name_servers).isdisjoint(self.namesrv.split(";")):
            return
        facts = _ClientFacts(f"client-{len(self._clients) + 1}", self._entries.append, journal)
        self._clients[id(journal)] = facts
        journal.enable_on_demand((MessageGivenToListener,))
        journal.listen(facts.take)


@contextmanager
def _noting_errors(block: AbstractContextManager[R]) -> Iterator[R]:
    """*block*, and an error that ends it has the time before its end."""
    with block as value:
        try:
            yield value
        except BaseException as error:
            note_left(error)
            raise


class _ClientFacts:
    """Gives the facts of one client to *append*, with the *node* name."""

    def __init__(self, node: str, append: Callable[[Entry], object], journal: Journal) -> None:
        self.node = node
        self.group = ""  # if it is a consumer
        self._append = append
        self._journal = journal  # so that its id is not used again

    def take(self, entry: Entry) -> None:
        if isinstance(entry.fact, ConsumerStarted):
            self.group = entry.fact.group
        self._append(msgspec.structs.replace(entry, node=self.node))


def _names_of_clients(clients: Iterable[_ClientFacts]) -> dict[str, str]:
    """A name for each client: its group's with a number, or ``producer-1``."""
    counts = Counter[str]()
    found = {}
    for client in clients:
        kind = client.group or "producer"
        counts[kind] += 1
        found[client.node] = f"{kind}-{counts[kind]}"
    return found


class AsyncCluster:
    """Calls of ``RocketMQ`` for async tests, under trio or asyncio; they do not block the loop."""

    def __init__(self, cluster: RocketMQ) -> None:
        self._cluster = cluster

    async def sent_to(self, topic: str) -> list[MessageExt]:
        """As ``RocketMQ.sent_to``."""
        return await self.call(self._cluster.sent_to, topic)

    async def consumed_by(self, group: str) -> list[MessageExt]:
        """As ``RocketMQ.consumed_by``."""
        return await self.call(self._cluster.consumed_by, group)

    async def wait_until_consumed(
        self,
        group: str,
        timeout: float = WAIT_S,  # noqa: ASYNC109  # NotConsumed has the reason; a cancel scope has none
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[str] = (),
    ) -> None:
        """As ``RocketMQ.wait_until_consumed``."""
        wanted = self._cluster.wanted(group, topics, brokers)
        await self.call(self._cluster.wait_blocking, wanted, timeout)

    async def wait_until_balanced(
        self,
        group: str,
        members: int | None = None,
        timeout: float = BALANCE_S,  # noqa: ASYNC109  # as above: NotBalanced has the reason
    ) -> None:
        """As ``RocketMQ.wait_until_balanced``."""
        await self.call(self._cluster.balance_blocking, group, members, timeout)

    async def wait_until_copied(
        self,
        timeout: float = REPLICAS_S,  # noqa: ASYNC109  # as above: NotCopied has the reason
    ) -> None:
        """As ``RocketMQ.wait_until_copied``."""
        await self.call(self._cluster.copied_blocking, timeout)

    async def wait_for_master(
        self,
        broker: str,
        timeout: float = REPLICAS_S,  # noqa: ASYNC109  # as above: NotTakenOver has the reason
    ) -> str:
        """As ``RocketMQ.wait_for_master``."""
        return await self.call(self._cluster.master_blocking, broker, timeout)

    async def call(self, verb: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Call any method in a thread: ``awaited.call(rocketmq.restart, "broker-a")``."""
        work = partial(verb, *given, **named)
        if trio.lowlevel.in_trio_run():
            return await trio.to_thread.run_sync(work)
        return await asyncio.to_thread(work)


def failing_rules(  # the arguments of ``fail_next``
    spec: ClusterSpec,
    request: str | int,
    count: int,
    error: int | str,
    *,
    nodes: Nodes | None,
    rule: RuleFields,
) -> Iterator[tuple[str, ReplyRule]]:
    """The rules of ``fail_next``, each with its node.  Raises ``ValueError``, ``TypeError``."""
    codes = _codes_of(request)
    for name in rule:
        if name not in RuleFields.__annotations__:
            known = (*RuleFields.__annotations__, "error", "nodes")
            raise TypeError(f"fail_next has no {name}=: {did_you_mean(name, known)}")
    if not rule.get("cut_connection") and not rule.get("no_answer"):
        rule["error_code"] = error if isinstance(error, str) else int(error)
    usual = spec.name_server_names if codes == FAILING["route"] else spec.broker_names
    for name in (nodes,) if isinstance(nodes, str) else tuple(nodes or usual):
        for code in codes:
            yield name, ReplyRule(code=code, count=count, **rule)


def _codes_of(request: str | int) -> tuple[int, ...]:
    if isinstance(request, int):
        return (request,)
    if request in REQUEST_NUMBERS:
        return (REQUEST_NUMBERS[request],)
    if request not in FAILING:
        meant = nearest(request, FAILING)
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(FAILING)}"
        raise ValueError(f"fail_next: unknown request {request!r}: {hint}")
    return FAILING[request]


def _now_us() -> int:
    return time.monotonic_ns() // 1_000


def _check_no_loop(instead: str) -> None:
    """Raise ``RuntimeError`` in an event loop, which a waiting call would block."""
    if _is_in_a_loop():
        text = "this call would block this event loop and the consumers in it"
        raise RuntimeError(f"{text}: {instead}")


def _is_in_a_loop() -> bool:
    if trio.lowlevel.in_trio_run():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
