"""What is shown at each moment, and why it happens: the sentences of the demo.

A moment is told in two lines: what happened, and what RocketMQ does because of it.  Both
fit a terminal of 80 columns.
"""

from __future__ import annotations

from typing import Any

import msgspec

KILL, RETURN, LOSS = "kill", "return", "loss"


class DemoEvent(msgspec.Struct, frozen=True):
    """One line of the timeline; with a *why* it is what is shown until the next one of these."""

    at_ms: int
    at_s: float  # since the demo began
    text: str
    why: str = ""
    kind: str = ""
    is_bad: bool = False


class Moment(msgspec.Struct, frozen=True):
    """A turn of the story, with places for what only the run knows."""

    text: str
    why: str
    kind: str = ""

    def event(self, at_ms: int, at_s: float, **known: Any) -> DemoEvent:
        """It happens now."""
        texts = self.text.format(**known), self.why.format(**known)
        return DemoEvent(at_ms, at_s, *texts, kind=self.kind, is_bad=self.kind in (KILL, LOSS))


CONSUMERS_START = Moment(
    "three consumers start",
    "Each computes its own share of the 8 queues: equal input, equal result.",
)
SENDING_STARTS = Moment(
    "the producer starts: {lines:,} lines",
    "It sends to the 8 queues in turn. Soon {consumer} is killed, then {broker}.",
)
CONSUMER_KILLED = Moment(
    "{consumer} is killed with -9",
    "Its connections close, the brokers tell the others: they take its queues.",
    KILL,
)
BROKER_KILLED = Moment(
    "{broker} is killed with -9",
    "Sends to it fail at once and are retried at {other}. Its queues wait.",
    KILL,
)
BROKER_RETURNS = Moment(
    "{broker} is back, with its store",
    "It delivers again after the consumers' next heartbeats, at most {heartbeat_s:g} s.",
    RETURN,
)
DELIVERY_RESUMES = Moment(
    "{broker}'s queues are delivered again",
    "The consumers' heartbeats have reached it; it delivers what waited there.",
)
SENDING_ENDS = Moment(
    "the last line is acknowledged ({sent:,})",
    "The demo ends when every acknowledged line was delivered.",
)
SENDING_ENDS_EARLY = Moment(
    "the last line is acknowledged ({sent:,})",
    "{waiting:,} wait at {broker} for the consumers' next heartbeats.",
)
ALL_DELIVERED = Moment(
    "every acknowledged line was delivered",
    "Nothing is lost. {duplicates:,} came twice: RocketMQ promises at least once.",
)
LINES_LOST = Moment(
    "{waiting:,} acknowledged lines were not delivered",
    "The demo has waited {patience_s:g} s for them since the last line was sent.",
    LOSS,
)
STOPPED_EARLY = Moment(
    "stopped early, {waiting:,} not yet delivered",
    "What was acknowledged and not delivered is not lost: it was in the stores.",
)
