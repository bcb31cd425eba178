"""What each end of an attempt teaches the fault table.

The releases differ, and so do the two ways of sending: up to 5.1.3 merely handing an
asynchronous request to the network ends the isolation of its broker.

Upstream: DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl.sendMessageAsync.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from emulator.releases import FAULT_TABLE_SHORT, Release


class Ending(Enum):
    """How one attempt ended, or how far it came."""

    ANSWERED = auto()  # with a send status, whichever
    NO_MASTER = auto()
    REMOTE_ERROR = auto()
    REFUSED = auto()
    HANDED_OVER = auto()  # asynchronous: on its way
    ASYNC_ANSWERED = auto()
    ASYNC_REFUSED = auto()
    ASYNC_REMOTE_ERROR = auto()


class Lesson(NamedTuple):
    """Whether to isolate the broker, and whether to call it reachable."""

    isolate: bool
    reachable: bool = True


BEFORE = {
    Ending.ANSWERED: Lesson(isolate=False),
    Ending.NO_MASTER: Lesson(isolate=True),
    Ending.REMOTE_ERROR: Lesson(isolate=True),
    Ending.REFUSED: Lesson(isolate=True),
    Ending.HANDED_OVER: Lesson(isolate=False),
    Ending.ASYNC_ANSWERED: Lesson(isolate=False),
    Ending.ASYNC_REFUSED: Lesson(isolate=True),
    Ending.ASYNC_REMOTE_ERROR: Lesson(isolate=True),
}
SINCE = {  # FAULT_TABLE_SHORT
    Ending.ANSWERED: Lesson(isolate=False),
    Ending.NO_MASTER: Lesson(isolate=False),
    Ending.REMOTE_ERROR: Lesson(isolate=True),
    Ending.REFUSED: Lesson(isolate=True, reachable=False),
    Ending.HANDED_OVER: Lesson(isolate=False),
    Ending.ASYNC_ANSWERED: Lesson(isolate=False),
    Ending.ASYNC_REFUSED: Lesson(isolate=True),
    Ending.ASYNC_REMOTE_ERROR: Lesson(isolate=True),
}
assert BEFORE.keys() == SINCE.keys() == set(Ending)


def lesson(ending: Ending, release: Release, *, detector: bool) -> Lesson:
    """*detector*: somebody probes brokers, so one that failed may be called unreachable."""
    if release < FAULT_TABLE_SHORT:
        return BEFORE[ending]
    if ending is Ending.REMOTE_ERROR:
        return Lesson(isolate=True, reachable=not detector)
    return SINCE[ending]
