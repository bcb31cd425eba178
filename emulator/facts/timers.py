"""What happened to messages that asked for a time of delivery (5.x): waited, came, or did not."""

from __future__ import annotations

from typing import ClassVar

from emulator.facts.fact import Fact, Queue, Severity


class TimerMessagePutAside(Fact, frozen=True):
    """A message waits in the timer topic until its time has come."""

    queue: Queue  # to which it was sent
    offset: int  # in the queue of the timer topic
    out_ms: int  # wall time; it is delivered when the clock is past the slot of this time
    uniq_key: str


class TimerMessageRolled(Fact, frozen=True):
    """A message whose time is beyond the roll window was stored again, to wait longer."""

    queue: Queue  # to which it was sent
    offset: int  # of the old record, in the queue of the timer topic
    roll_times: int  # how often this happened to it, this time included
    uniq_key: str


class TimerMessageDelivered(Fact, frozen=True):
    """A timer message's time has come: it was stored in the queue it was sent to."""

    queue: Queue
    offset: int  # in the queue of the timer topic
    late_by_ms: int  # how long after its slot had passed
    uniq_key: str


class TimerMessageRecalled(Fact, frozen=True):
    """A timer message's time has come, but it was recalled before: it is not delivered."""

    queue: Queue  # to which it was sent
    offset: int  # in the queue of the timer topic
    uniq_key: str


class TimerMessageDropped(Fact, frozen=True):
    """A timer message could not be stored in the queue it was sent to, and is lost."""

    severity: ClassVar[Severity] = "error"

    queue: Queue
    offset: int  # in the queue of the timer topic
    reason: str
    uniq_key: str
