"""Which weather is run without a planted bug: 3,000 seeds, in batches of one shape and rate.

Both releases, both shapes; most at the shape's own rate, the others at 50 and 200 messages/s,
where more is on its way when something happens.  At these rates the default shape has 3, 4 and 5
brokers and up to 10 members a group: queues change hands more often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_emulator.scenarios.weather.shape import SMALL

RELEASES = ("4.9.7", "5.3.3")
SMALL_SETTINGS = {"seconds": SMALL.seconds, "brokers": SMALL.brokers} | {
    "members_max": SMALL.members_max
}
MEMBERS_MAX = 10


class Batch(NamedTuple):
    """Seeds 1 to *seeds* of a shape; *settings* are what it has instead of the defaults."""

    release: str
    shape: str
    rate: float
    settings: Mapping[str, int | float]
    seeds: int

    @property
    def name(self) -> str:
        """Short, and the batch's own."""
        brokers = f" {self.settings['brokers']} brokers" if self.shape != "small" else ""
        return f"{self.release} {self.shape} {self.rate:g}/s{brokers}"

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Of the scenario ``weather``, its seed aside."""
        return {**self.settings, "rate": self.rate, "release": self.release}


def _batches(release: str) -> list[Batch]:
    own = [
        Batch(release, "small", SMALL.rate, SMALL_SETTINGS, 600),
        Batch(release, "default", 10.0, {"brokers": 3}, 600),
    ]
    small = [Batch(release, "small", rate, SMALL_SETTINGS, 75) for rate in (50.0, 200.0)]
    default = [
        Batch(release, "default", rate, {"brokers": brokers, "members_max": MEMBERS_MAX}, 25)
        for rate in (50.0, 200.0)
        for brokers in (3, 4, 5)
    ]
    return own + small + default


BATCHES: Mapping[str, Batch] = {
    batch.name: batch for release in RELEASES for batch in _batches(release)
}
