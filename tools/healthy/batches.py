"""The batches of healthy runs: 3,000 seeds of weather; a batch has one shape and one rate.

They cover both releases and both shapes.  Most seeds have the shape's own rate; the others have
50 and 200 messages/s, so that more messages are in flight when a fault begins.  At these rates the
default shape has 3, 4 and 5 brokers and up to 10 members per group, so that queues change their
owner more often.
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
    """Seeds 1 to *seeds* of a shape; *settings* replace its defaults."""

    release: str
    shape: str
    rate: float
    settings: Mapping[str, int | float]
    seeds: int

    @property
    def name(self) -> str:
        """A short, unique name, as ``4.9.7 small 4/s``."""
        brokers = f" {self.settings['brokers']} brokers" if self.shape != "small" else ""
        return f"{self.release} {self.shape} {self.rate:g}/s{brokers}"

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The parameters of the scenario ``weather``, except its seed."""
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
