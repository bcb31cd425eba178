"""Bugs by name: switched on in a client or a broker, so that checkers have something to find.

    Producer(…, quirks=("retry_on_another_queue",))

Each is a known bug of clients or brokers: planted here, or one of RocketMQ that no release
number alone switches on.  The code of a role does not know them: it gets the classes that it
constructs from ``class_for``, and the folder ``quirks`` has one class for each bug.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from rocketmq_emulator.text.suggestions import did_you_mean

T = TypeVar("T")

QuirkRole: TypeAlias = Literal["producer", "consumer", "broker"]


class Quirk(NamedTuple):
    """``breaks``: the rule that it breaks while on; ``source``: the origin of the bug."""

    name: str
    role: QuirkRole
    does: str
    breaks: str
    source: str = "planted"


_ALL = (
    Quirk(
        "commit_when_pulled",
        "consumer",
        "commits the offset of a message when it is pulled, not when it is consumed",
        "a committed offset never passes an unconsumed message: a crash loses messages",
    ),
    Quirk(
        "keep_queues",
        "consumer",
        "continues to consume queues that now belong to another member",
        "a queue has one owner, once a rebalance has settled",
    ),
    Quirk(
        "ignore_lock",
        "consumer",
        "an orderly consumer takes a queue whether or not the broker has locked it",
        "one member consumes an orderly queue at a time",
    ),
    Quirk(
        "keep_offsets",
        "consumer",
        "keeps the offsets of queues that it released, and commits them again and again",
        "a committed offset does not go back",
    ),
    Quirk(
        "forget_full_queues",
        "consumer",
        "a pull that waits because its queue is full does not count as a pull",
        "a full queue is not treated as one whose pull request was lost (client invariant 41)",
        "reported in alibaba/RocketMQ#459; no release with published source has it",
    ),
    Quirk(
        "retry_on_another_queue",
        "producer",
        "an asynchronous send that is retried goes to the next queue",
        "a retry keeps the queue id (client invariant 16)",
    ),
    Quirk(
        "lose_bells",
        "broker",
        "every third message does not wake the pulls that wait for it",
        "a held pull is answered when a message comes, not at the next sweep",
    ),
    Quirk(
        "ask_nobody",
        "broker",
        "a check of a half message is counted, and no producer is asked",
        "a half message without an end is asked about (server invariants 41 and 42)",
    ),
    Quirk(
        "lose_ends",
        "broker",
        "writes the record of a transaction's end 25 s later: until then a kill loses it",
        "a transaction that has ended is not asked about again",
    ),
    Quirk(
        "deliver_rollbacks",
        "broker",
        "a message whose transaction is rolled back is delivered",
        "a rolled-back message is not seen (server invariant 40)",
    ),
    Quirk(
        "commit_to_first_queue",
        "broker",
        "a message whose transaction is committed is stored in queue 0 of its topic",
        "a committed message is in the queue to which its producer sent it",
    ),
    Quirk(
        "ignore_ends",
        "broker",
        "every third end of a transaction is ignored, unless it answers a check",
        "a reported end is carried out at once, not after the next check",
    ),
    Quirk(
        "filter_no_woken_pulls",
        "broker",
        "a held pull that is woken is answered with every message, also those of other filters",
        "a group that subscribes by SQL92 gets only the messages that match",
    ),
    Quirk(
        "acknowledge_uncopied",
        "broker",
        "a SYNC_MASTER with a slave acknowledges messages at once, whether or not it has them",
        "a message that is acknowledged with SEND_OK is in the log of a slave",
    ),
    Quirk(
        "copy_no_offsets",
        "broker",
        "a slave asks for its master's consumer offsets, and does not take them",
        "a group that goes on at a slave loses no more progress than since its last copy",
    ),
    Quirk(
        "truncate_nothing",
        "broker",
        "a slave of an elected master keeps all of its log, and copies what comes behind it",
        "after an election a slave's log is the beginning of its master's again",
    ),
    Quirk(
        "two_masters",
        "broker",
        "a broker that is told of an election takes the role of the master, whoever was elected",
        "in one master epoch a name has one master",
    ),
    Quirk(
        "lose_escaped",
        "broker",
        "an acting master drops every third message that it has to send away, as if it was sent",
        "a message that an acting master has sent to another broker is stored there",
    ),
    Quirk(
        "count_pulled_as_consumed",
        "consumer",
        "a lite pull consumer counts what it has pulled as consumed, polled or not",
        "a committed offset never passes a message that the application has not polled",
        "apache/rocketmq#1470; fixed before 4.6.0, the first release that has this consumer",
    ),
    Quirk(
        "fail_when_interrupted",
        "consumer",
        "a listener that its closing consumer interrupts fails: its message is sent back",
        "a message sent back is not consumed at its old offset, too: offsets are written then",
        "apache/rocketmq#7182",
    ),
    Quirk(
        "persist_in_series",
        "consumer",
        "waits for each queue's broker when it writes offsets, in the client's one periodic task",
        "an unreachable broker does not delay commits to other brokers",
        "apache/rocketmq#2763",
    ),
    Quirk(
        "lock_held_queues_only",
        "consumer",
        "a lock that a broker grants counts only for a queue that the consumer has already",
        "an orderly consumer claims the queues of its share once it has their locks",
        "apache/rocketmq-client-cpp#345",
    ),
    Quirk(
        "wait_for_name_servers",
        "broker",
        "since 5.1.4 the heartbeat of a new group counts only once all NameServers have its topic",
        "a member is listed once: after a timeout and a reconnect, twice until it expires",
        "apache/rocketmq#7870",
    ),
)
QUIRKS: Mapping[str, Quirk] = {quirk.name: quirk for quirk in _ALL}


def check_quirks(names: Collection[str]) -> None:
    """Raises ``ValueError`` for a name that is no quirk, with the nearest quirk."""
    for name in names:
        if name not in QUIRKS:
            only = f", only {', '.join(QUIRKS)}"
            meant = did_you_mean(name, QUIRKS, before=": ", otherwise=only)
            raise ValueError(f"there is no quirk {name!r}{meant}")


_CLASSES = {  # in the folder ``quirks``, by module; loaded when a role with that bug is made
    "commit_when_pulled": ("clients", "CommitsWhenPulled"),
    "keep_queues": ("clients", "KeepsQueues"),
    "ignore_lock": ("clients", "IgnoresLocks"),
    "keep_offsets": ("clients", "KeepsOffsets"),
    "forget_full_queues": ("clients", "ForgetsFullQueues"),
    "retry_on_another_queue": ("clients", "RetriesOnAnotherQueue"),
    "lose_bells": ("brokers", "LosesBells"),
    "ask_nobody": ("brokers", "AsksNobody"),
    "lose_ends": ("brokers", "LosesEnds"),
    "deliver_rollbacks": ("brokers", "DeliversRollbacks"),
    "commit_to_first_queue": ("brokers", "CommitsToFirstQueue"),
    "ignore_ends": ("brokers", "IgnoresEnds"),
    "filter_no_woken_pulls": ("brokers", "FiltersNoWokenPulls"),
    "acknowledge_uncopied": ("brokers", "AcknowledgesUncopied"),
    "copy_no_offsets": ("brokers", "CopiesNoOffsets"),
    "truncate_nothing": ("elections", "TruncatesNothing"),
    "two_masters": ("elections", "TakesEveryElection"),
    "lose_escaped": ("brokers", "LosesEscaped"),
    "count_pulled_as_consumed": ("clients", "CountsPulledAsConsumed"),
    "fail_when_interrupted": ("clients", "FailsWhenInterrupted"),
    "persist_in_series": ("clients", "PersistsInSeries"),
    "lock_held_queues_only": ("clients", "LocksHeldQueuesOnly"),
    "wait_for_name_servers": ("brokers", "WaitsForNameServers"),
}


def class_for(kind: type[T], role: QuirkRole, names: Collection[str]) -> type[T]:
    """The class that a *role* with the bugs *names* constructs for *kind*; *kind* without bugs.

    Bugs of other roles may be among *names*, and change nothing.  Two bugs of one class are both
    on: each calls the method below it.
    """
    wrong = [_class_of(name) for name in names if QUIRKS[name].role == role]
    chosen = [each for each in wrong if issubclass(each, kind)]
    return type(kind.__name__, tuple(chosen), {}) if len(chosen) > 1 else [*chosen, kind][0]


def _class_of(name: str) -> type:
    module, attribute = _CLASSES[name]
    found = getattr(import_module(f"rocketmq_emulator.quirks.{module}"), attribute)
    assert isinstance(found, type)
    return found
