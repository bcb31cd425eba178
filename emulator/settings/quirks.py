"""Bugs by name: switched on in a client or a broker, so that checkers have something to find.

    Producer(…, quirks=("retry_on_another_queue",))

Each is the mistake of somebody: planted here as a known way to get a client or a broker wrong,
or one that a release of RocketMQ had and that no release number alone stands for.  The code of
a role does not know them: it asks ``class_for`` for the classes that it builds, and the room
``quirks`` has one for each bug.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from rocketmq_emulator.text.suggestions import did_you_mean

T = TypeVar("T")

QuirkRole: TypeAlias = Literal["producer", "consumer", "broker"]


class Quirk(NamedTuple):
    """``breaks``: what must hold and does not while it is on; ``source``: whose mistake it is."""

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
        "a committed offset never passes what was consumed: a crash loses messages",
    ),
    Quirk(
        "keep_queues",
        "consumer",
        "goes on consuming queues that belong to another member now",
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
        "keeps the offsets of queues that it gave away, and commits them again and again",
        "a committed offset does not go back",
    ),
    Quirk(
        "forget_full_queues",
        "consumer",
        "a pull that waits since its queue is full does not count as a pull",
        "a full queue is not taken for one whose pull request was lost (client invariant 41)",
        "reported in alibaba/RocketMQ#459; no release that can be read has it",
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
        "count_pulled_as_consumed",
        "consumer",
        "a lite pull consumer counts what it has pulled as consumed, polled or not",
        "a committed offset never passes what the application was given",
        "apache/rocketmq#1470; mended before 4.6.0, the first release that has this consumer",
    ),
    Quirk(
        "fail_when_interrupted",
        "consumer",
        "a listener that the end of its consumer interrupts fails: its message is sent back",
        "what is sent back is not consumed again from its old place: the offsets are written then",
        "apache/rocketmq#7182",
    ),
    Quirk(
        "persist_in_series",
        "consumer",
        "waits for each queue's broker when it writes offsets, in the client's one periodic task",
        "a broker that cannot be reached holds up nobody who has another one",
        "apache/rocketmq#2763",
    ),
    Quirk(
        "wait_for_name_servers",
        "broker",
        "since 5.1.4 the heartbeat of a new group counts when all NameServers have its topic",
        "a member is listed once: one that gave up and came back is there twice until it expires",
        "apache/rocketmq#7870",
    ),
)
QUIRKS: Mapping[str, Quirk] = {quirk.name: quirk for quirk in _ALL}


def check_quirks(names: Collection[str]) -> None:
    """Raises ``ValueError`` for a name that is no quirk, with the nearest one that is."""
    for name in names:
        if name not in QUIRKS:
            only = f", only {', '.join(QUIRKS)}"
            meant = did_you_mean(name, QUIRKS, before=": ", otherwise=only)
            raise ValueError(f"there is no quirk {name!r}{meant}")


_CLASSES = {  # in the room ``quirks``, by module; loaded when a role is built with that bug
    "commit_when_pulled": ("clients", "CommitsWhenPulled"),
    "keep_queues": ("clients", "KeepsQueues"),
    "ignore_lock": ("clients", "IgnoresLocks"),
    "keep_offsets": ("clients", "KeepsOffsets"),
    "forget_full_queues": ("clients", "ForgetsFullQueues"),
    "retry_on_another_queue": ("clients", "RetriesOnAnotherQueue"),
    "lose_bells": ("brokers", "LosesBells"),
    "count_pulled_as_consumed": ("clients", "CountsPulledAsConsumed"),
    "fail_when_interrupted": ("clients", "FailsWhenInterrupted"),
    "persist_in_series": ("clients", "PersistsInSeries"),
    "wait_for_name_servers": ("brokers", "WaitsForNameServers"),
}


def class_for(kind: type[T], role: QuirkRole, names: Collection[str]) -> type[T]:
    """The class of which a *role* with the bugs *names* builds its *kind*; *kind* without any.

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
