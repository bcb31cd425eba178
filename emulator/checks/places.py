"""A message has a place of its own: an offset of a queue that no other message has.

Offsets of a queue follow one another, an acknowledgement names the place in which the message was
stored, and a member is given the message that stands in the place it is told.  After a broker
lost the end of its log its places are used again; that is no violation.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric
from emulator.checks.folding import Table
from emulator.facts import MessageStored

WHAT = {
    "gap": "offsets of a queue follow one another",
    "used twice": "no two messages have one place",
    "acked twice": "a place is acknowledged to one send",
    "acked elsewhere": "a send is acknowledged with the place of its own message",
    "came twice": "a delayed message is delivered once",
    "no queue": "messages are stored in queues that their topic has",
    "not stored": "what is delivered has been stored",
    "other message": "a member is given the message that stands in its place",
}


class PlacesAreKept(Checker):
    """Server invariant 24, and what follows from it for clients."""

    name = "places"
    rule = "each message has a place of its own, and is acknowledged and given out with it"
    metrics = (
        Metric("odd_places", "messages", "whose place is not their own"),
        Metric(
            "excused_unnoted_places",
            "messages",
            "that a broker stored and was killed before it noted them",
        ),
        Metric(
            "excused_lost_places",
            "messages",
            "given out after their broker had lost them, and their places had others",
        ),
        Metric(
            "excused_forgotten_deliveries",
            "messages",
            "delivered twice, as their broker ended soon after the first time",
        ),
    )
    needs = (MessageStored,)

    def table(self) -> Table:
        """The progress finds what is odd while it follows places."""
        return {}

    def end(self) -> None:
        """Tell what was found."""
        self.adds("odd_places", len(self.progress.messages.odd))
        self.adds("excused_unnoted_places", self.progress.messages.excused_unnoted)
        self.adds("excused_lost_places", self.progress.messages.excused_lost_places)
        self.adds("excused_forgotten_deliveries", self.progress.messages.excused_forgotten)
        self.tries(self.progress.messages.seen["acked"] + self.progress.messages.seen["given"])
        for odd in self.progress.messages.odd:
            self.objects(odd.what, *odd.entries, rule=f"{self.rule}: {WHAT[odd.kind]}")
