"""Queries of a test to its cluster: the messages of a topic, and the progress of a group.

Committed offsets are late: clients commit every few seconds.  So the query also asks the members,
with the request that admin tools use (GET_CONSUMER_RUNNING_INFO, 307); consumed messages count at
once.  For a member that does not answer, the committed offsets count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import trio

from rocketmq_emulator.admin.calls import (
    Admin,
    AdminError,
    NotFound,
    admin_over_tcp,
    checked,
)
from rocketmq_emulator.admin.messages import QueueSpan, TopicReader
from rocketmq_emulator.cluster.world import UnknownNode
from rocketmq_emulator.net.blocking_calls import call_each_blocking
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.protocol.messages.validation import broker_refuses_topic
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.text.suggestions import nearest

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.bodies.extensions import GroupRow
    from rocketmq_emulator.protocol.messages.message import MessageExt

NOT_COMMITTED = -1
MESSAGES_MAX = 100_000  # returned by one query
T = TypeVar("T")


class QueueProgress(msgspec.Struct, frozen=True):
    """A queue that a group reads: its first and end offset, and the first unconsumed offset."""

    first: int
    end: int
    consumed: int

    @property
    def lag(self) -> int:
        """The number of stored messages that are not consumed."""
        return max(0, self.end - max(self.first, self.consumed))


class GroupShares(msgspec.Struct, frozen=True):
    """The queues of a group's topics, and those that each member holds by its own answer.

    Without its retry topic, which every member reads as well.
    """

    queues: tuple[MessageQueue, ...]
    held: dict[str, frozenset[MessageQueue] | None]  # by client id; None: it does not answer
    is_broadcasting: bool = False

    def owners_of(self, queue: MessageQueue) -> tuple[str, ...]:
        """The client ids of the members that hold *queue*."""
        return tuple(client for client, held in self.held.items() if held and queue in held)

    def is_balanced(self, members: int | None) -> bool:
        """Whether *members* members (None: any number) share all queues.

        Each queue has one owner, and of each topic no member is without a queue while another
        has two.  When broadcasting each member owns all queues.
        """
        if not self.held or not self.queues or None in self.held.values():
            return False
        if members is not None and len(self.held) != members:
            return False
        if self.is_broadcasting:
            return all(held == frozenset(self.queues) for held in self.held.values())
        owners = {queue: self.owners_of(queue) for queue in self.queues}
        if any(len(each) != 1 for each in owners.values()):
            return False
        for topic in {queue.topic for queue in self.queues}:
            of_topic = [each[0] for queue, each in owners.items() if queue.topic == topic]
            if len(set(of_topic)) < min(len(of_topic), len(self.held)):
                return False
        return True


class GroupProgress(msgspec.Struct, frozen=True):
    """The queues and members of a group."""

    queues: dict[MessageQueue, QueueProgress]
    members: tuple[str, ...]  # client ids
    brokers: tuple[str, ...] = ()  # that were asked
    # First unconsumed offsets by the members, of queues at other brokers.
    elsewhere: dict[MessageQueue, int] = {}

    @property
    def lag(self) -> int:
        """The lag of all queues together."""
        return sum(queue.lag for queue in self.queues.values())


def ask(namesrv: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """The answer to *question*, for blocking code: it runs in its own thread with its own loop.

    Raises what *question* raises.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    async def main() -> None:
        async with admin_over_tcp(namesrv) as admin:
            found.append(await question(admin))

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:  # noqa: BLE001  # raised again in the caller
            failed.append(error)

    thread = Thread(target=run, name="rocketmq-question", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


# Topics of a test -------------------------------------------------------------------------


QUEUES_OF_A_TOPIC = 4


def checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """The names in *topics*.  Raises ``ValueError`` for one name, which would be letters."""
    if isinstance(topics, str):
        text = f"topics is a list of names, not a str: write topics=[{topics!r}]"
        raise ValueError(text)  # noqa: TRY004  # as for other wrong topics
    return tuple(topics)


def checked_brokers(brokers: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The names in *brokers*, which may be one name.  Raises ``UnknownNode``."""
    names = (brokers,) if isinstance(brokers, str) else tuple(brokers)
    for name in names:
        if name not in known:
            raise UnknownNode(name, known, nearest(name, known))
    return names


def queues_by_topic(topics: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    """The number of queues on each broker, by topic; *topics* may be names only.

    Raises ``ValueError`` for one name, for a name that a broker refuses, and for a number of
    queues that is none.
    """
    checked_topics(topics)
    named = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, QUEUES_OF_A_TOPIC)
    for name, queues in named.items():
        if not isinstance(queues, int) or isinstance(queues, bool) or queues < 1:
            text = f"topics: the queues of {name} are a number from 1, not {queues!r}"
            raise ValueError(text)
        if (complaint := broker_refuses_topic(name)) is not None:
            raise ValueError(f"topics: {name!r}: {complaint}")
    return dict(named)


# Queries ----------------------------------------------------------------------------------


async def create_topics(queues_of: Mapping[str, int], admin: Admin) -> None:
    """Create each topic on every broker, with its number of queues on each."""
    for config in _configs(queues_of):
        await admin.create_topic_everywhere(config)


def create_topics_at(brokers: Sequence[str], queues_of: Mapping[str, int]) -> None:
    """As ``create_topics`` at the addresses *brokers*; blocking, all requests at once for speed.

    Raises ``AdminError`` if a broker refuses, ``OSError`` if one does not answer.
    """
    requests = [
        RemotingCommand(
            code=catalog.UPDATE_AND_CREATE_TOPIC.code,
            opaque=number,
            ext=ext_of(CreateTopicRequest.of(each)),
        )
        for number, each in enumerate(_configs(queues_of))
    ]
    answers = call_each_blocking(brokers, requests)
    for address, replies in zip(brokers, answers, strict=True):
        for reply in replies:
            checked(address, reply)


def _configs(queues_of: Mapping[str, int]) -> list[TopicConfig]:
    return [
        TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        for name, queues in queues_of.items()
    ]


async def sent_to(topic: str, admin: Admin) -> list[MessageExt]:
    """The messages of the topic, oldest first; empty if there is no such topic."""
    reader = TopicReader(admin, topic)
    try:
        spans = await reader.spans()
    except NotFound:
        return []
    return await _stored(reader, spans)


async def consumed_by(group: str, admin: Admin) -> list[MessageExt]:
    """The messages that the group has consumed and that still exist, oldest first.

    A retry is a message of the retry topic.
    """
    progress = await progress_of(group, admin)
    found: list[MessageExt] = []
    for topic in dict.fromkeys(queue.topic for queue in progress.queues):
        reader = TopicReader(admin, topic)
        with suppress(NotFound):
            spans = [
                msgspec.structs.replace(span, end=min(span.end, known.consumed))
                for span in await reader.spans()
                if (known := progress.queues.get(span.queue)) is not None
            ]
            found += await _stored(reader, [span for span in spans if span.end > span.first])
    return sorted(found, key=lambda message: message.store_timestamp)


async def progress_of(group: str, admin: Admin, *, brokers: Collection[str] = ()) -> GroupProgress:
    """The progress in every queue that the group reads or has read, on registered brokers.

    Of *brokers* only, if there are any.  In a broadcasting group a message is consumed when every
    member has consumed it.
    """
    group_now = await _group_now(group, admin, brokers)
    ends, held = group_now.ends, [each or {} for each in group_now.held.values()]
    firsts = await _firsts(ends.items(), admin)
    queues: dict[MessageQueue, QueueProgress] = {}
    for place, (_, end, committed) in ends.items():
        offsets = [each.get(place, NOT_COMMITTED) for each in held]
        by_all = group_now.is_broadcasting and offsets
        consumed = min(offsets) if by_all else max(committed, *offsets, 0)
        queues[place] = QueueProgress(firsts.get(place, 0), end, consumed)
    of_all = min if group_now.is_broadcasting else max
    elsewhere = {
        place: of_all(each.get(place, NOT_COMMITTED) for each in held)
        for place in {place for each in held for place in each}.difference(ends)
    }
    return GroupProgress(queues, tuple(group_now.held), group_now.brokers, elsewhere)


async def shares_of(group: str, admin: Admin) -> GroupShares:
    """The members of the group and the queues that each of them holds now."""
    group_now = await _group_now(group, admin)
    held = {
        client: None if queues is None else frozenset(q for q in queues if _is_shared(q))
        for client, queues in group_now.held.items()
    }
    queues = tuple(queue for queue in sorted(group_now.ends) if _is_shared(queue))
    return GroupShares(queues, held, group_now.is_broadcasting)


def _is_shared(queue: MessageQueue) -> bool:
    return not is_retry_topic(queue.topic)


class _GroupNow(NamedTuple):
    """A group as its brokers and its members answer now."""

    ends: dict[MessageQueue, tuple[str, int, int]]  # broker's address, end, committed
    # First unconsumed offset of each held queue, by client id; None: no answer.
    held: dict[str, dict[MessageQueue, int] | None]
    is_broadcasting: bool
    brokers: tuple[str, ...]  # that were asked


async def _group_now(group: str, admin: Admin, brokers: Collection[str] = ()) -> _GroupNow:
    ends: dict[MessageQueue, tuple[str, int, int]] = {}
    members: dict[str, str] = {}  # client id: a broker that knows it
    is_broadcasting = False
    masters = await admin.masters()
    if brokers:
        masters = {name: address for name, address in masters.items() if name in brokers}
    for broker, address in masters.items():
        row = await _row_of(group, address, admin)
        is_broadcasting |= row is not None and row.model == "BROADCASTING"
        for queue in () if row is None else row.queues:
            place = MessageQueue(queue.topic, broker, queue.queue_id)
            ends[place] = address, queue.end, queue.committed
        for member in () if row is None else row.members:
            members.setdefault(member.client, address)
    ends |= await _unread({(queue.topic, queue.broker_name) for queue in ends}, masters, admin)
    held = {
        client: await _held(address, group, client, admin) for client, address in members.items()
    }
    return _GroupNow(ends, held, is_broadcasting, tuple(masters))


async def _held(
    address: str, group: str, client: str, admin: Admin
) -> dict[MessageQueue, int] | None:
    """The first unconsumed offset of each queue that a member holds; None without an answer."""
    with suppress(AdminError):
        info = await admin.running_info(address, group, client)
        return {
            place: queue.commit_offset
            for place, queue in info.mq_table.items()
            if not queue.droped
        }
    return None


def is_done(progress: GroupProgress, topics: tuple[str, ...]) -> bool:
    """Whether the group reads a topic, and all of *topics*, and has consumed all messages."""
    read = {queue.topic for queue in progress.queues}
    return bool(read) and read.issuperset(topics) and not progress.lag


# Requests ---------------------------------------------------------------------------------


async def _row_of(group: str, address: str, admin: Admin) -> GroupRow | None:
    overview = await admin.overview(address)
    return next((row for row in overview.groups if row.name == group), None)


async def _unread(
    known: set[tuple[str, str]], masters: Mapping[str, str], admin: Admin
) -> dict[MessageQueue, tuple[str, int, int]]:
    """Queues of the topics in *known* at brokers whose overview does not list them."""
    found: dict[MessageQueue, tuple[str, int, int]] = {}
    for topic, broker in product(sorted({topic for topic, _ in known}), masters):
        if (topic, broker) not in known:
            stats = await admin.topic_stats_if_any(masters[broker], topic)
            for queue, offsets in stats.offset_table.items():
                found[queue] = masters[broker], offsets.max_offset, NOT_COMMITTED
    return found


async def _firsts(
    ends: Iterable[tuple[MessageQueue, tuple[str, int, int]]], admin: Admin
) -> dict[MessageQueue, int]:
    """The offset of the first stored message, for each queue that ever had one."""
    wanted = dict.fromkeys((queue.topic, address) for queue, (address, end, _) in ends if end)
    found: dict[MessageQueue, int] = {}
    for topic, address in wanted:
        stats = await admin.topic_stats_if_any(address, topic)
        found |= {queue: offsets.min_offset for queue, offsets in stats.offset_table.items()}
    return found


async def _stored(reader: TopicReader, spans: list[QueueSpan]) -> list[MessageExt]:
    found: list[MessageExt] = []
    async for message in reader.stored(spans, [span.first for span in spans]):
        found.append(message)
        if len(found) == MESSAGES_MAX:
            break
    return found
