"""What weather may be like: how big, how long, how rough; one frozen struct."""

from __future__ import annotations

import msgspec

from emulator.setting_rules import Range, SettingRules, ranges


class WeatherShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster, its clients and how often something happens.

    ``weights`` are how often each fault and act comes, as ``WEIGHTS`` unless they are given; 0
    leaves one out.
    """

    seconds: int = 60  # with faults; quiet comes after them
    brokers: int = 3
    name_servers: int = 2
    members_max: int = 8  # of any group: each draws from 1 to so many
    billing: int = 8  # of this group, at most, 0: no such group; concurrent push consumers
    stepping: int = 8  # orderly push consumers of steps
    news: int = 3  # broadcasting push consumers of orders
    reading: int = 3  # lite pull consumers of orders
    rate: float = 10.0  # messages a second, over all loads
    faults_per_minute: float = 8.0
    acts_per_minute: float = 3.0
    quiet_s_max: int = 300  # for liveness to return
    weights: dict[str, float] = {}

    def __post_init__(self) -> None:
        """Raises ``SettingRefused`` for a number that cannot be."""
        RULES.check(self)
        if self.rate <= 0 or self.faults_per_minute < 0 or self.acts_per_minute < 0:
            raise ValueError("rate is more than 0; faults and acts per minute are at least 0")
        if self.billing + self.stepping + self.news + self.reading == 0:
            raise ValueError("weather without a member of any group shows nothing")


RULES = SettingRules(
    ranges(
        (Range(10, 3_600), "seconds quiet_s_max"),
        (Range(1, 26), "brokers"),
        (Range(1, 9), "name_servers"),
        (Range(1, 100), "members_max"),
        (Range(0, 100), "billing stepping news reading"),
    )
)

SMALL = WeatherShape(
    seconds=30, rate=4, brokers=2, members_max=3
)  # the cheapest that still meets everything
