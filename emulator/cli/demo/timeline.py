"""The demo's timeline: the time of each event, the clients' timers, and the text of each event.

The default plan keeps all of RocketMQ's timers: brokers notice a consumer's death at once, since
its connection closes; a restarted broker registers its consumers with their next heartbeat, half a
minute after they started.  The quick plan divides all times.

An event is shown in two lines: the event, and the reaction of RocketMQ.  Both fit a
terminal of 80 columns.  Loaded by each demo client, so it imports nothing but msgspec.
"""

from __future__ import annotations

from typing import Any

import msgspec

TOPIC, GROUP, PRODUCER_GROUP = "demo", "demo-readers", "demo-writers"
QUEUES_A_BROKER = 4


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one run, counted from the start of sending, when all queues have owners."""

    kill_consumer_s: float = 6.0
    kill_broker_s: float = 12.0
    restart_broker_s: float = 17.0
    send_until_s: float = 25.0
    bar_ms: int = 1_000  # of a queue's strip
    delivery_timeout_s: float = 60.0  # for the last messages, after the last line was sent
    timers: dict[str, Any] = {}


def quick_plan() -> DemoPlan:
    """A plan that is five times as fast, with shorter timers for the clients."""
    return DemoPlan(
        kill_consumer_s=1.2,
        kill_broker_s=2.4,
        restart_broker_s=3.4,
        send_until_s=5.0,
        bar_ms=200,
        delivery_timeout_s=30.0,
        timers={
            "heartbeat_first_ms": 200,
            "heartbeat_interval_ms": 1_000,
            "route_poll_interval_ms": 1_000,
            "offset_persist_first_ms": 500,
            "offset_persist_interval_ms": 500,
        },
    )


# Events and their texts ---------------------------------------------------------------


KILL, RETURN, LOSS = "kill", "return", "loss"


class DemoEvent(msgspec.Struct, frozen=True):
    """One event.  The screen shows the latest event that has a *why*."""

    at_ms: int
    at_s: float  # since the demo began
    text: str
    why: str = ""
    kind: str = ""
    is_bad: bool = False


class EventTemplate(msgspec.Struct, frozen=True):
    """The texts of an event, with placeholders for values of the run."""

    text: str
    why: str
    kind: str = ""

    def event(self, at_ms: int, at_s: float, **known: object) -> DemoEvent:
        """The event at that time; *known* fills the placeholders."""
        texts = self.text.format(**known), self.why.format(**known)
        return DemoEvent(at_ms, at_s, *texts, kind=self.kind, is_bad=self.kind in (KILL, LOSS))


CONSUMERS_START = EventTemplate(
    "three consumers start",
    "Each computes its own share of the 8 queues: equal input, equal result.",
)
SENDING_STARTS = EventTemplate(
    "the producer starts: {lines:,} lines",
    "It sends to the 8 queues in turn. Soon {consumer} is killed, then {broker}.",
)
CONSUMER_KILLED = EventTemplate(
    "{consumer} is killed with -9",
    "Its connections close; brokers notify the others, which take its queues.",
    KILL,
)
BROKER_KILLED = EventTemplate(
    "{broker} is killed with -9",
    "Sends to it fail at once and are retried at {other}. Its queues wait.",
    KILL,
)
BROKER_RETURNS = EventTemplate(
    "{broker} is back, with its store",
    "It delivers again after the consumers' next heartbeats, at most {heartbeat_s:g} s.",
    RETURN,
)
DELIVERY_RESUMES = EventTemplate(
    "{broker}'s queues are delivered again",
    "The consumers' heartbeats have reached it; it delivers the waiting lines.",
)
SENDING_ENDS = EventTemplate(
    "the last line is acknowledged ({sent:,})",
    "The demo ends when every acknowledged line was delivered.",
)
SENDING_ENDS_EARLY = EventTemplate(
    "the last line is acknowledged ({sent:,})",
    "{waiting:,} wait at {broker} for the consumers' next heartbeats.",
)
ALL_DELIVERED = EventTemplate(
    "every acknowledged line was delivered",
    "Nothing is lost. {duplicates:,} came twice: RocketMQ promises at least once.",
)
LINES_LOST = EventTemplate(
    "{waiting:,} acknowledged lines were not delivered",
    "The demo has waited {patience_s:g} s for them since the last line was sent.",
    LOSS,
)
STOPPED_EARLY = EventTemplate(
    "stopped early, {waiting:,} not yet delivered",
    "Acknowledged lines that were not delivered are not lost: they were stored.",
)
